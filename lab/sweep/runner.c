/* Trains the runs of a sweep, a few at a time, each by a process. The process is the running program, started once
   more: it gets the config that the sweep has written for the run, or resumes it, as if a user had typed the command.
   The outcome of a run is read from the run's directory; the reason of a failure is the last line that the process
   writes to stderr. All are in one process group, so that a terminal's Ctrl-C and Ctrl-Z reach them. */
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
#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "lab/sweep/sweep.h"

extern char **environ;

typedef struct {
    Sweep *sweep;
    SweepRun
        *run[RUNS_MAX]; /* (count): those of this process. A run that is not over and is not trained has to start */
    size_t count;
    SweepRun *starting; /* the run that `start` is called for */
    int signal;         /* the signal that ends the sweep; 0: none came */
} Crew;

/* --- a process */

/* Removes the variables that a launcher of MPI programs (mpirun, srun) sets for the processes that it starts. A run is
   not one of these. */
static void leave_launcher(void) {
    static const char *const beginnings[] = {"OMPI_",  "PMI_",  "PMIX_",     "PRTE_",
                                             "HYDRA_", "HYDI_", "MPI_LOCAL", "SLURM_STEP"};
    char **end = environ;
    for (char **variable = environ; *variable; variable++) {
        bool is_of_launcher = false;
        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
            is_of_launcher = is_of_launcher || strncmp(*variable, beginnings[i], strlen(beginnings[i])) == 0;
        if (!is_of_launcher) *end++ = *variable;
    }
    *end = NULL;
}

/* Starts the program with these words, ended by NULL. An error has status STATUS_FAILED, and may be due to the other
   processes. */
static void start_process(const Sweep *s, SweepRun *run, char *const *words) {
    posix_spawn_file_actions_t actions;
    char *found = program_path();
    /* On Linux the last name leads to the running program even where its file was replaced or removed. */
    const char *path = s->options->program ? s->options->program : found ? found : "/proc/self/exe";
    FILE *messages = run->messages = tmpfile();
    int failed = messages ? posix_spawn_file_actions_init(&actions) : errno;
    if (messages && !failed) {
        fcntl(fileno(messages), F_SETFD, FD_CLOEXEC); /* no other run's process gets it */
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, fileno(messages), STDERR_FILENO);
        if (!failed) failed = posix_spawn(&run->process, path, &actions, NULL, words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(found);
    if (!failed) return;
    if (messages) fclose(messages);
    run->process = 0;
    runtime_error("cannot start a process for it: %s", strerror(failed));
}

static void start_or_resume(const Sweep *s, SweepRun *run) {
    char threads[24], config[PATH_CAPACITY], directory[PATH_CAPACITY], run_json[PATH_CAPACITY];
    const char *here = *s->directory->path == '-' ? "./" : ""; /* or the path would be taken for an option */
    snprintf(threads, sizeof threads, "%zu", s->threads);
    snprintf(directory, sizeof directory, "%s%s/%s", here, s->directory->path, run->name);
    snprintf(config, sizeof config, "%s%s/configs/%s.ini", here, s->directory->path, run->name);
    path_join(run_json, directory, "run.json");
    char *begin[] = {program_name, config, "--out", directory, "--threads", threads, "--quiet", NULL};
    char *resume[] = {program_name, "resume", directory, "--threads", threads, "--quiet", NULL};
    start_process(s, run, path_find(run_json) ? resume : begin);
}

/* Returns the signal that stopped a process, whose status is as of waitpid, or 0. */
static int stopped_by(int status) {
    for (int i = 0; i < INTERRUPT_COUNT; i++) {
        const int number = INTERRUPTS[i];
        /* A signal ends a process that is too young to note it. */
        if (WIFSIGNALED(status) ? WTERMSIG(status) == number : WEXITSTATUS(status) == 128 + number) return number;
    }
    return 0;
}

static bool is_refused(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == STATUS_USAGE; }

/* Records why the run's process has not finished it. */
static void note_reason(SweepRun *run, int status) {
    char line[2048] = "", why[128];
    const size_t name = strlen(program_name);
    rewind(run->messages);
    while (fgets(line, sizeof line, run->messages)) continue;
    const char *last = text_trim(line);
    if (strncmp(last, program_name, name) == 0 && strncmp(last + name, ": ", 2) == 0) last += name + 2;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal) snprintf(why, sizeof why, "killed by signal %d (%s)", signal, strsignal(signal));
    else snprintf(why, sizeof why, "ended with status %d before it had finished", WEXITSTATUS(status));
    sweep_note_failure(run, signal || status == 0 || !*last ? why : last);
}

/* --- how far the runs are */

/* Returns whether a process trains a run, which may be one that a killed sweep has left. */
static bool is_trained(const SweepRun *run) { return run->process || run->awaited; }

static size_t count_trained(const Crew *c) {
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) count += is_trained(c->run[i]);
    return count;
}

static size_t count_over(const Crew *c) {
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) count += c->run[i]->over;
    return count;
}

/* Shows the steps of all runs. A run that ended early makes no more steps: it counts as if it had made them all. */
static void show_progress(const Crew *c) {
    const Sweep *s = c->sweep;
    char line[160], left[32];
    double steps = 0, all_steps = 0, seconds = 0;
    Error ignored;
    if (!progress_is_due(s->options->progress, omp_get_wtime())) return;
    for (size_t i = 0; i < c->count; i++) {
        SweepRun *run = c->run[i];
        if (is_trained(run)) protect(sweep_read_run, run, &ignored);
        all_steps += (double)run->config.train.steps;
        steps += run->over ? (double)run->config.train.steps : fmax(0, run->measured[MEASURE_STEPS]);
        seconds += fmax(0, run->measured[MEASURE_SECONDS]);
    }
    progress_duration(seconds / steps * (all_steps - steps) / (double)s->slots, left, sizeof left);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %.0f/%.0f   %s left", count_over(c),
             c->count, count_trained(c), steps, all_steps, left);
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
    progress_message(c->sweep->options->progress, "[%zu/%zu] %s: %s%s", count_over(c), c->count, run->name,
                     run->state == RUN_FAILED ? "failed: " : how, run->message);
}

/* Finds out how a run has ended, by the status of its process and by the files in its directory. */
static void judge(SweepRun *run, int status) {
    Error why;
    const bool read = protect(sweep_read_run, run, &why);
    if (stopped_by(status) || run->state == RUN_DIVERGED) return;
    /* One that is refused may have been finished by another process. */
    if (read && run->state == RUN_FINISHED && (status == 0 || is_refused(status))) return;
    if (status == 0 && !read) sweep_note_failure(run, why.message);
    else note_reason(run, status);
}

/* Passes a signal to all runs, which then save a checkpoint and end; unless it is 0 or not the first. */
static void stop(Crew *c, int signal) {
    if (!signal || c->signal) return;
    c->signal = signal;
    for (size_t i = 0; i < c->count; i++)
        if (c->run[i]->process) kill(c->run[i]->process, signal);
}

static void find_process(void *of_sweep) {
    SweepRun *run = of_sweep;
    run->awaited = false;
    run->awaited = path_exists(run->directory) && directory_held(run->directory);
}

static void announce_wait(const Crew *c, const SweepRun *run) {
    progress_message(c->sweep->options->progress, "waiting for the end of %s, which a killed sweep has left",
                     run->name);
}

static void note_end(Crew *c, SweepRun *run, int status) {
    Error ignored;
    /* A sweep that is killed as it starts a process leaves one without a lock, which may then have refused ours. */
    if (is_refused(status) && !c->sweep->shares) protect(find_process, run, &ignored);
    if (!run->awaited) judge(run, status);
    fclose(run->messages);
    run->process = 0;
    if (run->awaited) {
        announce_wait(c, run);
        return;
    }
    run->over = true;
    report_end(c, run);
    stop(c, stopped_by(status)); /* one that is stopped stops all */
}

/* Notes which processes have ended. A run that another process has trained has to start: then its files are read. After
   a signal no other process is waited for. */
static void note_ends(Crew *c) {
    for (size_t i = 0; i < c->count; i++) {
        SweepRun *run = c->run[i];
        Error ignored;
        int status = 0;
        run->awaited = run->awaited && !c->signal;
        if (run->awaited) protect(find_process, run, &ignored);
        else if (run->process && waitpid(run->process, &status, WNOHANG) != 0) note_end(c, run, status);
    }
}

/* --- how it starts */

/* Starts a process for a run, unless another process trains it. Reads what it measured if it has ended, maybe by
   another process since the sweep began. */
static void start(void *crew) {
    const Crew *c = crew;
    SweepRun *run = c->starting;
    if (!has_ended(run)) sweep_load_run(c->sweep, run);
    if (has_ended(run)) sweep_read_measures(run);
    else if (!run->awaited) start_or_resume(c->sweep, run);
}

/* Starts as many runs as may be trained now. A run that cannot be started has failed, unless it may be for want of what
   the processes take that are alive. */
static void start_all(Crew *c) {
    size_t trained = count_trained(c);
    for (size_t i = 0; i < c->count; i++) {
        SweepRun *run = c->starting = c->run[i];
        Error why;
        if (run->over || is_trained(run) || (trained >= c->sweep->slots && !has_ended(run))) continue;
        const bool started = protect(start, c, &why);
        if (!started && why.status == STATUS_FAILED && trained > 0) return;
        trained += is_trained(run);
        run->over = !is_trained(run);
        if (run->awaited) announce_wait(c, run);
        if (started) continue;
        sweep_note_failure(run, why.message);
        report_end(c, run);
    }
}

/* Ends a pause when a process ends. */
static void wake(int signal_number) { (void)signal_number; }

int sweep_train(Sweep *s) {
    Crew *c = memory_make(1, sizeof *c, "the processes of a sweep");
    const struct timespec pause = {.tv_nsec = 20000000};
    c->sweep = s;
    c->count = share_runs(s, c->run);
    leave_launcher();
    signal(SIGCHLD, wake); /* whoever started this program may ignore it: then no process's end could be found */
    for (size_t i = 0; i < c->count; i++)
        if (c->run[i]->awaited) announce_wait(c, c->run[i]);
    for (;;) {
        note_ends(c);
        stop(c, interrupt_signal());
        const bool goes_on = !c->signal && directory_in_place(s->directory);
        if (goes_on) start_all(c);
        if (count_trained(c) == 0 && (!goes_on || count_over(c) == c->count)) break;
        show_progress(c);
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    directory_check(s->directory);
    return c->signal;
}
