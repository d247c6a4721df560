/* The process that trains a run of a sweep: the running program, started once more. It gets the config that the sweep
   has written for the run, or resumes it, as if a user had typed the command. Its results are in the run's directory,
   and the reason of a failure is the last line that it writes to stderr. It stays in the sweep's process group, so that
   a terminal's Ctrl-C and Ctrl-Z reach it. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "base/text.h"
#include "sweep/parts.h"

extern char **environ;

/* Whether a variable is one that a launcher of MPI programs (mpirun, srun) sets for the process that it starts. A run
   is not one of these processes. */
static bool is_of_launcher(const char *variable) {
    static const char *const beginnings[] = {"OMPI_",  "PMI_",  "PMIX_",     "PRTE_",
                                             "HYDRA_", "HYDI_", "MPI_LOCAL", "SLURM_STEP"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

/* The environment of a run's process, which the caller frees; NULL without memory. */
static char **make_environment(void) {
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **all = calloc(count + 1, sizeof *all);
    for (size_t i = 0; all && i < count; i++)
        if (!is_of_launcher(environ[i])) all[kept++] = environ[i];
    return all;
}

/* Starts the program; returns 0 or an errno. */
static int spawn(pid_t *process, const char *program, char *const *words, int messages) {
    posix_spawn_file_actions_t actions;
    char **environment = make_environment(), *own = program ? NULL : program_path();
    /* On Linux the last name leads to the running program even where its file was replaced or removed. */
    const char *path = program ? program : own ? own : "/proc/self/exe";
    int failed = environment ? posix_spawn_file_actions_init(&actions) : ENOMEM;
    if (!failed) {
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
        if (!failed) failed = posix_spawn(process, path, &actions, NULL, words, environment);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    free(own);
    return failed;
}

bool child_start(Child *child, const Sweep *s, const SweepRun *run, Error *err) {
    char threads[24], config[sizeof run->directory], directory[sizeof run->directory];
    const char *here = *s->directory == '-' ? "./" : ""; /* or the path would be taken for an option */
    snprintf(threads, sizeof threads, "%zu", s->threads);
    snprintf(directory, sizeof directory, "%s%s/%s", here, s->directory, run->name);
    snprintf(config, sizeof config, "%s%s/configs/%s.ini", here, s->directory, run->name);
    char *begin[] = {program_name, config, "--out", directory, "--threads", threads, "--quiet", NULL};
    char *resume[] = {program_name, "resume", directory, "--threads", threads, "--quiet", NULL};
    FILE *messages = tmpfile();
    int failed = messages ? 0 : errno;
    if (messages) {
        fcntl(fileno(messages), F_SETFD, FD_CLOEXEC); /* no other run's process gets it */
        failed = spawn(&child->id, s->options->program, run->resumable ? resume : begin, fileno(messages));
    }
    child->messages = messages;
    if (!failed) return true;
    if (messages) fclose(messages);
    *child = (Child){0};
    return runtime_error(err, "cannot start a process for it: %s", strerror(failed));
}

bool child_ended(const Child *child, int *status) {
    const pid_t ended = waitpid(child->id, status, WNOHANG);
    if (ended < 0) *status = 0; /* somebody else has waited for it */
    return ended != 0 && !(ended < 0 && errno == EINTR);
}

int child_stopped_by(int status) {
    for (int i = 0; i < INTERRUPT_COUNT; i++) {
        const int number = INTERRUPTS[i];
        /* A signal ends a process that is too young to note it. */
        if (WIFSIGNALED(status) ? WTERMSIG(status) == number : WEXITSTATUS(status) == 128 + number) return number;
    }
    return 0;
}

/* Reads the last line of what the process has written to stderr, without the program's name in front; "" where there
   is none. */
static void read_last_line(FILE *messages, char *line, size_t capacity) {
    char text[4096];
    fseek(messages, 0, SEEK_END);
    const long size = ftell(messages), from = size - (long)sizeof text + 1;
    fseek(messages, from > 0 ? from : 0, SEEK_SET);
    const size_t length = fread(text, 1, sizeof text - 1, messages), name = strlen(program_name);
    text[length] = 0;
    const char *last = strrchr(text_trim(text), '\n');
    last = last ? last + 1 : text_trim(text);
    if (strncmp(last, program_name, name) == 0 && strncmp(last + name, ": ", 2) == 0) last += name + 2;
    snprintf(line, capacity, "%s", last);
}

bool child_succeeded(const Child *child, int status, Error *err) {
    char line[sizeof err->message];
    read_last_line(child->messages, line, sizeof line);
    if (WIFSIGNALED(status))
        return runtime_error(err, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == 0) return true;
    if (*line) return runtime_error(err, "%s", line);
    return runtime_error(err, "ended with status %d before it had finished", WEXITSTATUS(status));
}

void child_free(Child *child) {
    fclose(child->messages);
    *child = (Child){0};
}
