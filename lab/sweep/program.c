/* The program, started once more. Linux runs the file that was opened, so a program that was replaced meanwhile is
   still the same. A Mac runs no open file, but one that has this path. */
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory.h"
#include "lab/sweep/sweep.h"

extern char **environ;

static int program_file = -1;
static const char *program_place; /* NULL: not known */

void processors_release(void) {
#ifdef __linux__
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int place = 0; place < omp_get_num_places(); place++) {
        const size_t mark = memory_mark(), count = (size_t)omp_get_place_num_procs(place);
        int *processors = memory_make(count, sizeof *processors, "a place of OpenMP");
        omp_get_place_proc_ids(place, processors);
        for (size_t i = 0; i < count; i++) CPU_SET((size_t)processors[i], &all);
        memory_release(mark);
    }
    if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all); /* else this process is not bound */
#endif
}

void program_open(void) {
    if (program_file >= 0) return;
    program_place = program_path();
    program_file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (program_file < 0 && program_place) program_file = open(program_place, O_RDONLY | O_CLOEXEC);
}

/* Becomes the program, if it can. */
static void run_program(const char *other, char *const *words) {
#ifdef __APPLE__
    execv(other ? other : program_place, words);
#else
    if (other) execv(other, words);
    else fexecve(program_file, words, environ);
#endif
}

pid_t program_start(const char *other, char *const *words, int messages) {
    program_open();
    const pid_t child = fork();
    if (child != 0) return child;
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0 && dup2(messages, STDERR_FILENO) >= 0)
        run_program(other, words);
    dprintf(messages, "cannot run %s: %s\n", other ? other : "this program once more", strerror(errno));
    _exit(STATUS_FAILED);
}
