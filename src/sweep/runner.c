/* The runs of a sweep, trained by workers. A worker is a process forked from this one, its parent, that trains one run
   as ./train alone would. The parent has up to `slots` workers at a time. The outcome of a run is read from the run's
   own directory. Parent and workers share only why a run failed, and the signal that ends them all.

   OpenMP in a forked process would wait forever for threads that its parent had. So the parent opens no parallel region
   and calls no BLAS before it has started the last worker; nothing that the trainer checks (train_check) does. */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/files.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "sweep/parts.h"

/* --- what parent and workers share */

/* What a worker did, as it says itself. */
typedef enum {
    CUT_SHORT, /* it has said nothing: it is at work, or has died */
    TRAINED,   /* the run, to its end or to a signal */
    FAILED,    /* to train it, for the reason `why` */
    ELSEWHERE, /* for a share: another process has trained the run to its end */
    HELD,      /* for a share: another process holds the run */
} Outcome;

/* A run has one turn in the life of a parent: one that failed, or whose worker died, is for `resume` to try again. The
   lock of its directory keeps out processes of any other parent. */
typedef struct {
    bool taken;
    pid_t worker; /* that is at it; 0: none */
    Outcome outcome;
    Error why;
} Turn;

typedef struct {
    volatile sig_atomic_t caught; /* interrupt_signal of all of them */
    Turn turns[RUNS_MAX];         /* by run */
} Shared;
static Shared *shared; /* of the last sweep; never freed, as signals are noted there */

static bool share(Error *err) {
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return runtime_error(err, "no memory to share with workers: %s", strerror(errno));
    shared = memory;
    interrupt_share(&shared->caught);
    return true;
}

/* --- a worker */

/* Trains a run to its end or to a signal. Another process may have trained the run since the sweep was loaded, so its
   directory is locked before it is read, and this lock is passed on to the trainer. */
static Outcome train_one(const Sweep *s, SweepRun *run, Error *why) {
    TrainOutcome outcome;
    Progress silent = {.quiet = true};
    const TrainOptions options = {.threads = s->threads,
                                  .out = run->directory,
                                  .force = true, /* one of ours in its place that never began is moved */
                                  .command_line = s->options->command_line,
                                  .progress = &silent,
                                  .report = s->options->report};
    int lock;
    if (!directory_make(run->directory, false, why)) return FAILED;
    if (!directory_lock(run->directory, &lock, why)) return s->shares && why->status == STATUS_USAGE ? HELD : FAILED;
    if (*directory_lock_note(lock)) progress_message(s->options->progress, "%s", directory_lock_note(lock));
    directory_lock_pass(lock);
    bool ok = sweep_load_run(s, run, why);
    const bool ended = ok && run->state != RUN_NOT_FINISHED;
    if (ok && !ended)
        ok = run->resumable ? train_resume(run->directory, NULL, 0, &options, &outcome, why)
                            : train_run(&run->config, &options, &outcome, why);
    directory_unlock(lock);
    rmdir(run->directory); /* which fails, unless the run could not begin */
    return !ok ? FAILED : ended && s->shares ? ELSEWHERE : TRAINED;
}

/* The whole life of a worker. It stays in its parent's process group, so that a terminal's Ctrl-C and Ctrl-Z reach it,
   and ends when the parent dies: on Linux by a SIGTERM, elsewhere with the run it has. */
static _Noreturn void work(const Sweep *s, size_t i, pid_t parent) {
    Turn *turn = &shared->turns[i];
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent) exit(0); /* it died before prctl */
    directory_locks_forget(); /* else a killed sweep could not be resumed until its workers have saved their runs */
    turn->outcome = train_one(s, &s->runs[i], &turn->why);
    exit(0);
}

/* --- the parent */

/* The run has failed. So says its run.json too, unless it says how the run ended or another process holds it. */
static void fail(SweepRun *run, const char *why) {
    const bool ended = run->state != RUN_NOT_FINISHED;
    Error ignored;
    Json *json;
    int lock;
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why);
    if (ended || !directory_lock(run->directory, &lock, &ignored)) return;
    if (run_description_load(&json, run->directory, &ignored)) {
        js_set(json, "result", js_text("failed"));
        js_set(json, "error", js_text(why));
        run_description_save(json, run->directory, &ignored);
    }
    js_free(json);
    directory_unlock(lock);
}

/* Starts a worker on a run; false where the system refuses one. */
static bool start_worker(const Sweep *s, size_t i) {
    const pid_t parent = getpid();
    Turn *turn = &shared->turns[i];
    fflush(NULL); /* what is in the streams' buffers would be written twice */
    const pid_t worker = fork();
    if (worker == 0) work(s, i, parent);
    if (worker < 0) return false;
    turn->taken = true;
    turn->worker = worker;
    return true;
}

/* Reads from its log how far a run is. */
static void read_progress(SweepRun *run) {
    Error ignored;
    if (run->state == RUN_NOT_FINISHED) sweep_clear_run(run);
    sweep_read_metrics(run, &ignored);
}

/* How many steps a run has made. */
static double steps_made(const SweepRun *run) { return fmax(0, run->measured[MEASURE_STEPS]); }

typedef struct {
    size_t running, ended;
    double steps, all_steps, seconds;
} Totals;

/* A run that ended early makes no more steps: it counts as if it had made them all. */
static Totals add_up(const Sweep *s) {
    Totals t = {0};
    for (size_t i = 0; i < s->run_count; i++) {
        const SweepRun *run = &s->runs[i];
        const bool ended = run->state != RUN_NOT_FINISHED;
        t.running += shared->turns[i].worker != 0;
        t.ended += ended;
        t.all_steps += (double)run->config.train.steps;
        t.steps += ended ? (double)run->config.train.steps : steps_made(run);
        t.seconds += fmax(0, run->measured[MEASURE_SECONDS]);
    }
    return t;
}

static void show_progress(const Sweep *s) {
    char line[160], left[32];
    if (!progress_is_due(s->options->progress, omp_get_wtime())) return;
    for (size_t i = 0; i < s->run_count; i++)
        if (shared->turns[i].worker) read_progress(&s->runs[i]);
    const Totals t = add_up(s);
    progress_duration(t.seconds / t.steps * (t.all_steps - t.steps) / (double)s->slots, left, sizeof left);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %.0f/%.0f   %s left", t.ended, s->run_count,
             t.running, t.steps, t.all_steps, left);
    progress_line(s->options->progress, line);
}

static void report_end(const Sweep *s, const SweepRun *run) {
    char duration[32], how[64] = "";
    progress_duration(run->measured[MEASURE_SECONDS], duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        snprintf(how, sizeof how, "val %.4f at step %.0f, %s", run->measured[MEASURE_VAL_LOSS], steps_made(run),
                 duration);
    else if (run->state == RUN_NOT_FINISHED) snprintf(how, sizeof how, "stopped at step %.0f", steps_made(run));
    progress_message(s->options->progress, "[%zu/%zu] %s: %s%s", add_up(s).ended, s->run_count, run->name,
                     run->state == RUN_FAILED ? "failed: " : how, run->message);
}

/* Notes how a run ended whose worker has ended, as waitpid says. */
static void note_end(const Sweep *s, size_t i, int how) {
    SweepRun *run = &s->runs[i];
    Turn *turn = &shared->turns[i];
    turn->worker = 0;
    if (turn->outcome == HELD || turn->outcome == ELSEWHERE) return;
    if (turn->outcome == CUT_SHORT && WIFSIGNALED(how))
        runtime_error(&turn->why, "killed by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else if (turn->outcome == CUT_SHORT)
        runtime_error(&turn->why, "ended with status %d before it had finished", WEXITSTATUS(how));
    if (!sweep_read_run(run, &turn->why) || (turn->outcome != TRAINED && run->state != RUN_DIVERGED))
        fail(run, turn->why.message);
    read_progress(run);
    report_end(s, run);
}

/* Waits for workers that have ended, and returns how many are at work. */
static size_t count_workers(const Sweep *s) {
    size_t alive = 0;
    for (size_t i = 0; i < s->run_count; i++) {
        const pid_t worker = shared->turns[i].worker;
        int how = 0; /* unless somebody else has waited for it */
        if (worker && waitpid(worker, &how, WNOHANG)) note_end(s, i, how);
        else alive += worker != 0;
    }
    return alive;
}

/* The next run to train, first of this share and then of all; the number of runs if there is none, or after a signal.
 */
static size_t next_run(const Sweep *s) {
    const size_t shares = s->shares ? s->shares : 1;
    for (size_t k = 0; k < 2 * s->run_count && !interrupt_signal(); k++) {
        const size_t i = (s->share + k) % s->run_count;
        const bool own = i % shares == s->share || k >= s->run_count;
        if (own && s->runs[i].state == RUN_NOT_FINISHED && !shared->turns[i].taken) return i;
    }
    return s->run_count;
}

/* If a share has trained a run since the last call, gives another turn to the runs that other processes held. */
static void retry_held(const Sweep *s, size_t *trained) {
    size_t now = 0;
    for (size_t i = 0; i < s->run_count; i++) now += shared->turns[i].taken && shared->turns[i].outcome != HELD;
    for (size_t i = 0; i < s->run_count && now > *trained; i++)
        if (shared->turns[i].outcome == HELD) shared->turns[i] = (Turn){0};
    *trained = now;
}

bool sweep_train(Sweep *s, int *signal_number, Error *err) {
    const struct timespec pause = {.tv_nsec = 20000000};
    size_t trained = 0;
    if (!share(err)) return false;
    signal(SIGCHLD, SIG_DFL); /* whoever started this program may have it ignored; then waitpid would find no child */
    for (size_t i = 0; i < s->run_count; i++) read_progress(&s->runs[i]);
    for (;;) {
        size_t alive = count_workers(s);
        if (alive == 0 && next_run(s) == s->run_count) retry_held(s, &trained);
        for (size_t i; alive < s->slots && (i = next_run(s)) < s->run_count; alive++) {
            if (start_worker(s, i)) continue;
            if (alive) break; /* tried again in a moment */
            return runtime_error(err, "cannot start another process: %s", strerror(errno));
        }
        if (alive == 0) break;
        show_progress(s);
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    *signal_number = interrupt_signal();
    return true;
}
