/* The runs of a sweep, each trained by a process of its own, a few at a time. The process is the running program,
   started once more: it gets the config that the sweep has written for the run, or resumes it, as if a user had typed
   the command. The outcome of a run is read from the run's directory; the reason of a failure is the last line that the
   process writes to stderr. If the sweep's process is killed, the runs train on, and a resumed sweep waits for them.
   All are in one process group, so that a terminal's Ctrl-C and Ctrl-Z reach them. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/lock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/parts.h"

extern char **environ;

typedef struct {
    pid_t id;
    FILE *messages; /* a temporary file without a name: what the process writes to stderr */
} Child;

typedef struct {
    Sweep *sweep;
    SweepRun *run[RUNS_MAX]; /* (count): those that this process trains, in the order in which they start */
    Child *child[RUNS_MAX];  /* (count): the process of each; NULL: it was not started, or has ended */
    size_t count;
    size_t next;  /* the first run that was not started */
    size_t alive; /* how many processes there are */
    int signal;   /* the signal that ends the sweep; 0: none came */
} Crew;

/* --- a process */

/* Removes the variables that a launcher of MPI programs (mpirun, srun) sets for the processes that it starts. A run is
   not one of these. */
static void leave_launcher(void) {
    static const char *const beginnings[] = {"OMPI_",  "PMI_",  "PMIX_",     "PRTE_",
                                             "HYDRA_", "HYDI_", "MPI_LOCAL", "SLURM_STEP"};
    char **kept = environ;
    for (char **variable = environ; *variable; variable++) {
        bool is_of_launcher = false;
        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
            is_of_launcher = is_of_launcher || strncmp(*variable, beginnings[i], strlen(beginnings[i])) == 0;
        if (!is_of_launcher) *kept++ = *variable;
    }
    *kept = NULL;
}

/* Starts the program; returns 0 or an errno. */
static int spawn(pid_t *process, const char *program, char *const *words, int messages) {
    posix_spawn_file_actions_t actions;
    char *own = program_path();
    /* On Linux the last name leads to the running program even where its file was replaced or removed. */
    const char *path = program ? program : own ? own : "/proc/self/exe";
    int failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
        if (!failed) failed = posix_spawn(process, path, &actions, NULL, words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(own);
    return failed;
}

static void close_messages(void *child) {
    FILE *messages = ((Child *)child)->messages;
    if (messages) fclose(messages);
}

/* Starts or resumes the run. An error of status STATUS_FAILED may be due to the other processes. */
static Child *child_start(const Sweep *s, const SweepRun *run) {
    char threads[24], config[PATH_CAPACITY], directory[PATH_CAPACITY], run_json[PATH_CAPACITY];
    const char *here = *s->directory == '-' ? "./" : ""; /* or the path would be taken for an option */
    snprintf(threads, sizeof threads, "%zu", s->threads);
    snprintf(directory, sizeof directory, "%s%s/%s", here, s->directory, run->name);
    snprintf(config, sizeof config, "%s%s/configs/%s.ini", here, s->directory, run->name);
    path_join(run_json, directory, "run.json");
    char *begin[] = {program_name, config, "--out", directory, "--threads", threads, "--quiet", NULL};
    char *resume[] = {program_name, "resume", directory, "--threads", threads, "--quiet", NULL};
    char **words = path_find(run_json) ? resume : begin;

    Child *child = memory_make_undone(sizeof *child, close_messages, "a process");
    child->messages = tmpfile();
    int failed = child->messages ? 0 : errno;
    if (child->messages) {
        fcntl(fileno(child->messages), F_SETFD, FD_CLOEXEC); /* no other run's process gets it */
        failed = spawn(&child->id, s->options->program, words, fileno(child->messages));
    }
    if (failed) runtime_error("cannot start a process for it: %s", strerror(failed));
    return child;
}

/* Returns whether the process has ended, without waiting; *status is as of waitpid. */
static bool child_ended(const Child *child, int *status) {
    const pid_t ended = waitpid(child->id, status, WNOHANG);
    if (ended < 0) *status = 0; /* somebody else has waited for it */
    return ended != 0 && !(ended < 0 && errno == EINTR);
}

/* Returns the signal that stopped the process, or 0. */
static int child_stopped_by(int status) {
    for (int i = 0; i < INTERRUPT_COUNT; i++) {
        const int number = INTERRUPTS[i];
        /* A signal ends a process that is too young to note it. */
        if (WIFSIGNALED(status) ? WTERMSIG(status) == number : WEXITSTATUS(status) == 128 + number) return number;
    }
    return 0;
}

/* Writes the reason why the process has not finished its run. */
static void child_reason(const Child *child, int status, char *reason, size_t capacity) {
    char text[4096];
    FILE *messages = child->messages;
    fseek(messages, 0, SEEK_END);
    const long size = ftell(messages), from = size - (long)sizeof text + 1;
    fseek(messages, from > 0 ? from : 0, SEEK_SET);
    const size_t length = fread(text, 1, sizeof text - 1, messages), name = strlen(program_name);
    text[length] = 0;
    const char *lines = text_trim(text), *end = strrchr(lines, '\n'), *last = end ? end + 1 : lines;
    if (strncmp(last, program_name, name) == 0 && strncmp(last + name, ": ", 2) == 0) last += name + 2;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal) snprintf(reason, capacity, "killed by signal %d (%s)", signal, strsignal(signal));
    else if (status != 0 && *last) snprintf(reason, capacity, "%s", last);
    else snprintf(reason, capacity, "ended with status %d before it had finished", WEXITSTATUS(status));
}

/* --- how far the runs are */

static bool has_ended(const Crew *c, size_t i) {
    return i < c->next ? !c->child[i] : c->run[i]->state != RUN_NOT_FINISHED;
}

static size_t count_ended(const Crew *c) {
    size_t ended = 0;
    for (size_t i = 0; i < c->count; i++) ended += has_ended(c, i);
    return ended;
}

/* Reads how far a run is. */
static void read_so_far(void *run) {
    sweep_read_run(run);
    sweep_read_metrics(run);
}

/* A run that ended early makes no more steps: it counts as if it had made them all. */
static void show_progress(const Crew *c) {
    const Sweep *s = c->sweep;
    char line[160], left[32];
    double steps = 0, all_steps = 0, seconds = 0;
    Error ignored;
    if (!progress_is_due(s->options->progress, omp_get_wtime())) return;
    for (size_t i = 0; i < c->count; i++) {
        const SweepRun *run = c->run[i];
        if (c->child[i]) protect(read_so_far, c->run[i], &ignored);
        all_steps += (double)run->config.train.steps;
        steps += has_ended(c, i) ? (double)run->config.train.steps : fmax(0, run->measured[MEASURE_STEPS]);
        seconds += fmax(0, run->measured[MEASURE_SECONDS]);
    }
    progress_duration(seconds / steps * (all_steps - steps) / (double)s->slots, left, sizeof left);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %.0f/%.0f   %s left", count_ended(c),
             c->count, c->alive, steps, all_steps, left);
    progress_line(s->options->progress, line);
}

/* --- how a run ends */

static void report_end(const Crew *c, const SweepRun *run) {
    const double *r = run->measured, steps = fmax(0, r[MEASURE_STEPS]);
    char duration[32], how[64] = "";
    progress_duration(r[MEASURE_SECONDS], duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        snprintf(how, sizeof how, "val %.4f at step %.0f, %s", r[MEASURE_VAL_LOSS], steps, duration);
    else if (run->state == RUN_NOT_FINISHED) snprintf(how, sizeof how, "stopped at step %.0f", steps);
    progress_message(c->sweep->options->progress, "[%zu/%zu] %s: %s%s", count_ended(c), c->count, run->name,
                     run->state == RUN_FAILED ? "failed: " : how, run->message);
}

static void fail(SweepRun *run, const char *why) {
    run->state = RUN_FAILED;
    text_clip(why, 1000, run->message, sizeof run->message);
}

/* Notes how a run has ended, by the status of its process and what that has left in the run's directory. */
static void note_end(SweepRun *run, const Child *child, int status) {
    char reason[sizeof run->message];
    Error why;
    const bool read = protect(read_so_far, run, &why);
    if (child_stopped_by(status) || run->state == RUN_DIVERGED) return;
    if (read && status == 0 && run->state == RUN_FINISHED) return;
    child_reason(child, status, reason, sizeof reason);
    fail(run, status == 0 && !read ? why.message : reason);
}

/* A signal, unless it is 0 or not the first, ends all runs, once they have saved a checkpoint. */
static void stop(Crew *c, int signal) {
    if (!signal || c->signal) return;
    c->signal = signal;
    for (size_t i = 0; i < c->next; i++)
        if (c->child[i]) kill(c->child[i]->id, signal);
}

static void note_ends(Crew *c) {
    for (size_t i = 0; i < c->next; i++) {
        int status;
        if (!c->child[i] || !child_ended(c->child[i], &status)) continue;
        note_end(c->run[i], c->child[i], status);
        memory_free(c->child[i]);
        c->child[i] = NULL;
        c->alive--;
        report_end(c, c->run[i]);
        stop(c, child_stopped_by(status)); /* one that is stopped stops all */
    }
}

/* --- how it starts */

static void check_directory(void *sweep) { directory_check(((Sweep *)sweep)->opened); }

/* Starts a process for the next run, unless it has ended; another process may have trained it meanwhile. */
static void start(void *crew) {
    Crew *c = crew;
    SweepRun *run = c->run[c->next];
    if (run->state == RUN_NOT_FINISHED) sweep_load_run(c->sweep, run);
    if (run->state == RUN_NOT_FINISHED) c->child[c->next] = child_start(c->sweep, run);
}

/* Starts as many runs as may be trained now. A run that cannot be started has failed, unless it may be the processes
   that are alive which leave no room for it. */
static void start_all(Crew *c) {
    while (c->next < c->count && c->alive < c->sweep->slots) {
        SweepRun *run = c->run[c->next];
        Error why;
        const bool started = protect(start, c, &why);
        if (!started && why.status == STATUS_FAILED && c->alive) return;
        if (c->child[c->next]) c->alive++;
        c->next++;
        if (started) continue;
        fail(run, why.message);
        report_end(c, run);
    }
}

/* Ends a pause when a process ends. */
static void wake(int signal_number) { (void)signal_number; }

int sweep_train(Sweep *s) {
    Crew *c = memory_make(1, sizeof *c, "the processes of a sweep");
    const struct timespec pause = {.tv_nsec = 20000000};
    Error moved = {0}; /* the sweep's directory was: nothing more is started */
    size_t runs[RUNS_MAX];
    c->sweep = s;
    c->count = share_runs(s, runs);
    for (size_t i = 0; i < c->count; i++) c->run[i] = &s->runs[runs[i]];
    leave_launcher();
    signal(SIGCHLD, wake); /* it may have been ignored by whoever started this program: then no child could be found */
    for (;;) {
        note_ends(c);
        stop(c, interrupt_signal());
        const bool starts = !c->signal && !moved.status && c->next < c->count && c->alive < s->slots;
        if (starts && protect(check_directory, s, &moved)) start_all(c);
        if (c->alive == 0 && (c->signal || moved.status || c->next == c->count)) break;
        show_progress(c);
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    if (moved.status) error_raise_again(&moved);
    return c->signal;
}
