/* The program, started once more. Linux runs the file that was opened, so a program that was replaced meanwhile is
   still the same. A Mac runs no open file, but one that has this path. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "lab/sweep/sweep.h"

extern char **environ;

static int program_file = -1;
static const char *program_place; /* NULL: not known */

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
