/* Trains the runs of a sweep, a few at a time, each by a process. The process is the running program, started once
   more with the words that commands.txt has for the run. The outcome of a run is read from its exit status and its
   run.json; the reason of a failure is the last line of what the process wrote to stderr. All are in one process group,
   so that a terminal's Ctrl-C and Ctrl-Z reach them. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
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
    SweepRun *starting; /* the run that `start` is called for */
    int signal;         /* the signal that ends the sweep; 0: none came */
} Crew;

/* --- a process */

/* Removes what was meant for this process alone: the variables that a launcher of MPI programs (mpirun, srun) sets for
   the processes that it starts, and those that bind threads to processors, which would be the same for all runs. */
static void leave_environment(void) {
    static const char *const beginnings[] = {"OMPI_",     "PMI_",       "PMIX_",     "PRTE_",
                                             "HYDRA_",    "HYDI_",      "MPI_LOCAL", "SLURM_STEP",
                                             "OMP_PROC_", "OMP_PLACES", "GOMP_CPU_", "KMP_AFFINITY"};
    char **end = environ;
    processors_release();
    for (char **variable = environ; *variable; variable++) {
        bool is_of_this = false;
        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
            is_of_this = is_of_this || strncmp(*variable, beginnings[i], strlen(beginnings[i])) == 0;
        if (!is_of_this) *end++ = *variable;
    }
    *end = NULL;
}

/* Writes the name of the file that gets a run's messages, "configs/NAME.err". */
static void messages_name(const SweepRun *run, char name[RUN_NAME + 16]) {
    snprintf(name, RUN_NAME + 16, "configs/%s.err", run->name);
}

/* Starts a process that begins or resumes a run. An error has status STATUS_FAILED, and may be due to the other
   processes. */
static void start_process(const Sweep *s, SweepRun *run) {
    char name[RUN_NAME + 16];
    RunWords w;
    sweep_words(s, run, s->directory->path, &w);
    messages_name(run, name);
    unlinkat(s->directory->fd, name, 0); /* an earlier one, which may have another name elsewhere */
    const int messages = openat(s->directory->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (messages < 0) runtime_error("cannot write %s/%s: %s", s->directory->path, name, strerror(errno));
    const pid_t process = program_start(s->options->program, w.words, messages);
    const int reason = errno;
    close(messages);
    if (process < 0) runtime_error("cannot start a process for it: %s", strerror(reason));
    run->process = process;
    progress_message(s->options->progress, "training %s", run->name);
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

/* Reads the last line that a run's process wrote to stderr, without the program's name. Leaves it empty if there is
   none. */
static void read_reason(const Sweep *s, const SweepRun *run, char reason[2048]) {
    char name[RUN_NAME + 16], line[2048] = "";
    messages_name(run, name);
    const int file = openat(s->directory->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *stream = file < 0 ? NULL : fdopen(file, "r");
    while (stream && fgets(line, sizeof line, stream)) continue;
    if (stream) fclose(stream);
    const char *last = text_trim(line);
    const size_t size = strlen(program_name);
    if (strncmp(last, program_name, size) == 0 && strncmp(last + size, ": ", 2) == 0) last += size + 2;
    snprintf(reason, 2048, "%s", last);
}

/* Removes the file of a run's messages if there are none. */
static void remove_no_messages(const Sweep *s, const SweepRun *run) {
    char name[RUN_NAME + 16];
    struct stat info;
    messages_name(run, name);
    if (fstatat(s->directory->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_size == 0)
        unlinkat(s->directory->fd, name, 0);
}

/* Records why the run's process has not finished it. */
static void note_reason(const Sweep *s, SweepRun *run, int status) {
    char reason[2048], why[128];
    read_reason(s, run, reason);
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal) snprintf(why, sizeof why, "killed by signal %d (%s)", signal, strsignal(signal));
    else snprintf(why, sizeof why, "ended with status %d before it had finished", WEXITSTATUS(status));
    sweep_note(run, RUN_FAILED, signal || status == 0 || !*reason ? why : reason);
}

/* --- how far the runs are */

static size_t count_trained(const Sweep *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->run_count; i++) count += s->runs[i].process != 0;
    return count;
}

static size_t count_over(const Sweep *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->run_count; i++) count += s->runs[i].over;
    return count;
}

/* Shows the steps of all runs. A run that ended early makes no more steps: it counts as if it had made them all. */
static void show_progress(const Sweep *s) {
    char line[160];
    double steps = 0, all_steps = 0;
    if (!progress_is_due(s->options->progress, omp_get_wtime())) return;
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        if (run->process) sweep_read_run(run);
        all_steps += (double)run->config.train.steps;
        steps += run->over ? (double)run->config.train.steps : fmax(0, run->measured[MEASURE_STEPS]);
    }
    const double rate = progress_rate(s->options->progress, omp_get_wtime(), steps);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %.0f/%.0f", count_over(s), s->run_count,
             count_trained(s), steps, all_steps);
    progress_append_left(line, sizeof line, all_steps - steps, rate);
    progress_line(s->options->progress, line);
}

/* --- how a run ends */

static void report_end(const Sweep *s, const SweepRun *run) {
    const double *r = run->measured, steps = fmax(0, r[MEASURE_STEPS]);
    char duration[32], how[64] = "";
    progress_duration(r[MEASURE_SECONDS], duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        snprintf(how, sizeof how, "val %.4f at step %.0f, %s", r[MEASURE_VAL_LOSS], steps, duration);
    else if (run->state == RUN_NOT_FINISHED && !run->held) snprintf(how, sizeof how, "stopped at step %.0f", steps);
    progress_message(s->options->progress, "[%zu/%zu] %s: %s%s%s", count_over(s), s->run_count, run->name,
                     run->state == RUN_FAILED    ? "failed: "
                     : run->state == RUN_DAMAGED ? "damaged: "
                                                 : how,
                     run->held ? "left out: " : "", run->message);
}

/* Finds out how a run has ended, by the status of its process and by its run.json. */
static void judge(const Sweep *s, SweepRun *run, int status) {
    const bool refused = WIFEXITED(status) && WEXITSTATUS(status) == STATUS_USAGE;
    sweep_read_run(run);
    if (stopped_by(status) && run->state == RUN_FAILED) sweep_note(run, RUN_NOT_FINISHED, ""); /* it failed before */
    if (stopped_by(status) || run->state == RUN_DIVERGED) return;
    if (run->state == RUN_FINISHED && status == 0) return;
    if (refused && sweep_find_holder(run)) return;
    if (status != 0 || run->state != RUN_DAMAGED) note_reason(s, run, status);
}

/* Passes a signal to all runs, which then save a checkpoint and end; unless it is 0 or not the first. */
static void stop(Crew *c, int signal) {
    const Sweep *s = c->sweep;
    if (!signal || c->signal) return;
    c->signal = signal;
    for (size_t i = 0; i < s->run_count; i++)
        if (s->runs[i].process) kill(s->runs[i].process, signal);
}

/* Notes which processes have ended. One that is stopped stops all. */
static void note_ends(Crew *c) {
    const Sweep *s = c->sweep;
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        int status = 0;
        if (!run->process || waitpid(run->process, &status, WNOHANG) == 0) continue;
        run->process = 0;
        run->over = true;
        judge(s, run, status);
        remove_no_messages(s, run);
        if (!c->signal || run->state != RUN_NOT_FINISHED) report_end(s, run);
        stop(c, stopped_by(status));
    }
}

/* --- how it starts */

/* Starts a process for a run, unless it has ended or another process trains it. */
static void start(void *crew) {
    const Crew *c = crew;
    SweepRun *run = c->starting;
    if (!is_to_train(run)) return;
    directory_check_no_link(run->directory);
    if (!sweep_find_holder(run)) start_process(c->sweep, run);
}

/* Starts as many runs as may be trained now. A run that cannot be started has failed, unless it may be for want of what
   the processes take that are alive. */
static void start_all(Crew *c) {
    const Sweep *s = c->sweep;
    size_t trained = count_trained(s);
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        Error why;
        c->starting = run;
        if (run->over || run->process || (trained >= s->slots && is_to_train(run))) continue;
        const bool started = protect(start, c, &why);
        if (!started && why.status == STATUS_FAILED && trained > 0) return;
        trained += run->process != 0;
        run->over = !run->process;
        if (!started) sweep_note(run, RUN_FAILED, why.message);
        if (!started || run->held) report_end(s, run);
    }
}

/* Ends a pause when a process ends. */
static void wake(int signal_number) { (void)signal_number; }

int sweep_train(Sweep *s) {
    const struct timespec pause = {.tv_nsec = 20000000};
    Crew c = {.sweep = s};
    leave_environment();
    signal(SIGCHLD, wake); /* whoever started this program may ignore it: then no process's end could be found */
    for (;;) {
        note_ends(&c);
        stop(&c, interrupt_signal());
        const bool goes_on = !c.signal && directory_in_place(s->directory);
        if (goes_on) start_all(&c);
        if (count_trained(s) == 0 && (!goes_on || count_over(s) == s->run_count)) break;
        show_progress(s);
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    directory_check(s->directory);
    return c.signal;
}
