/* The runs of a sweep, trained by workers. A worker is a process forked from this one, its parent. It takes the next
   run that no other process holds, trains it as ./train alone would, and takes the next. The outcome of a run is read
   from the run's own directory. Parent and workers share only which worker took which run, why a run failed, and the
   signal that ends them all.

   OpenMP in a forked process would wait forever for threads that its parent had. So the parent opens no parallel region
   and calls no BLAS before it has started the last worker; nothing that the trainer checks (train_check) does. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
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

/* Who holds a run. It is claimed once in the life of a parent: one that failed, or whose worker died, is for `resume`
   to try again. The lock of its directory keeps out processes of any other parent. */
enum {
    NOBODY = 0,    /* not claimed yet */
    ENDED = -1,    /* the worker is done with it */
    REPORTED = -2, /* the parent has reported it as well, or another process trained the run to its end */
    HELD = -3      /* for a share: another process holds it */
};
typedef struct {
    _Atomic pid_t worker; /* or one of the above */
    Error why;            /* what training the run failed with, or status 0 */
} Claim;

typedef struct {
    volatile sig_atomic_t caught; /* interrupt_signal of all of them */
    Claim claims[RUNS_MAX];       /* by run */
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

static bool claim_run(Claim *claim) {
    pid_t nobody = NOBODY;
    return atomic_compare_exchange_strong(&claim->worker, &nobody, getpid());
}

/* Trains a run to its end or to a signal. Another process may have trained the run since the sweep was loaded, so its
   directory is locked before it is read, and this lock is passed on to the trainer. *claim becomes its new state. */
static bool train_one(const Sweep *s, SweepRun *run, pid_t *claim, Error *err) {
    TrainOutcome outcome;
    Progress silent = {.quiet = true};
    const TrainOptions options = {.threads = s->threads,
                                  .out = run->directory,
                                  .force = true, /* one of ours in its place that never began is moved */
                                  .command_line = s->options->command_line,
                                  .progress = &silent,
                                  .report = s->options->report};
    Directory directory;
    if (!directory_make(run->directory, false, err)) return false;
    if (!directory_lock(&directory, run->directory, err)) {
        if (s->shares && err->status == STATUS_USAGE) *claim = HELD;
        return false;
    }
    bool ok = sweep_load_run(s, run, err);
    directory_close(&directory);
    if (ok && run->state != RUN_NOT_FINISHED && s->shares) *claim = REPORTED;
    if (ok && run->state == RUN_NOT_FINISHED)
        ok = run->resumable ? train_resume(run->directory, NULL, 0, &options, &outcome, err)
                            : train_run(&run->config, &options, &outcome, err);
    rmdir(run->directory); /* which fails, unless the run could not begin */
    return ok;
}

/* The whole life of a worker. It stays in its parent's process group, so that a terminal's Ctrl-C and Ctrl-Z reach it,
   and ends when the parent dies: on Linux by a SIGTERM, elsewhere with the run it has. */
static _Noreturn void work(const Sweep *s, pid_t parent) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    Directory place = s->place.directory;
    Error moved;
    place.fd = openat(s->place.directory.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(s->place.directory.fd); /* else a killed sweep could not be resumed until its workers have saved their runs */
    const size_t shares = s->shares ? s->shares : 1;
    for (size_t k = 0; k < 2 * s->run_count; k++) { /* first its share of the runs, then all others */
        const size_t i = (s->share + k) % s->run_count;
        Claim *claim = &shared->claims[i];
        pid_t then = ENDED;
        if (interrupt_signal() || getppid() != parent) break; /* the parent may have died before prctl */
        if (place.fd < 0 || !directory_in_place(&place, &moved)) break;
        if ((k < s->run_count && i % shares != s->share) || s->runs[i].state != RUN_NOT_FINISHED || !claim_run(claim))
            continue;
        if (train_one(s, &s->runs[i], &then, &claim->why)) claim->why.status = STATUS_OK;
        claim->worker = then;
    }
    exit(0);
}

/* --- the parent */

/* The run has failed. So says its run.json too, unless it says how the run ended or another process holds it. */
static void fail(SweepRun *run, const char *why) {
    const bool ended = run->state != RUN_NOT_FINISHED;
    Error ignored;
    Json *json;
    Directory directory;
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why);
    if (ended || !directory_lock(&directory, run->directory, &ignored)) return;
    if (run_description_load(&json, run->directory, &ignored)) {
        js_set(json, "result", js_text("failed"));
        js_set(json, "error", js_text(why));
        run_description_save(json, &directory, &ignored);
    }
    js_free(json);
    directory_close(&directory);
}

/* Returns the new worker's process; not above 0 where the system refuses one. */
static pid_t start_worker(const Sweep *s) {
    const pid_t parent = getpid();
    fflush(NULL); /* what is in the streams' buffers would be written twice */
    const pid_t worker = fork();
    if (worker == 0) work(s, parent);
    return worker;
}

/* Notes that a worker has ended, as waitpid says. A run that it still held has failed. */
static void note_end_of_worker(const Sweep *s, pid_t worker, int how) {
    for (size_t i = 0; i < s->run_count; i++) {
        Claim *claim = &shared->claims[i];
        if (claim->worker != worker) continue;
        if (WIFSIGNALED(how))
            runtime_error(&claim->why, "killed by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
        else runtime_error(&claim->why, "ended with status %d before it had finished", WEXITSTATUS(how));
        claim->worker = ENDED;
    }
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
    size_t waiting, running, ended;
    double steps, all_steps, seconds;
} Totals;

/* A run that ended early makes no more steps: it counts as if it had made them all. */
static Totals add_up(const Sweep *s) {
    Totals t = {0};
    for (size_t i = 0; i < s->run_count; i++) {
        const SweepRun *run = &s->runs[i];
        const pid_t worker = shared->claims[i].worker;
        const bool ended = run->state != RUN_NOT_FINISHED;
        t.waiting += !ended && worker == NOBODY;
        t.running += worker > 0;
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
        if (shared->claims[i].worker > 0) read_progress(&s->runs[i]);
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

/* Notes how the runs ended that workers are done with. */
static void report_ended_runs(Sweep *s) {
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        Claim *claim = &shared->claims[i];
        if (claim->worker != ENDED) continue;
        claim->worker = REPORTED;
        if (!sweep_read_run(run, &claim->why) || (claim->why.status && run->state != RUN_DIVERGED))
            fail(run, claim->why.message);
        read_progress(run);
        report_end(s, run);
    }
}

/* If a share has trained a run since the last call, lets its workers try again the runs that other processes held.
   Returns the number of these runs. */
static size_t retry_held(const Sweep *s, size_t *trained) {
    size_t reported = 0, held = 0;
    for (size_t i = 0; i < s->run_count; i++) reported += shared->claims[i].worker == REPORTED;
    if (reported == *trained || interrupt_signal()) return 0;
    *trained = reported;
    for (size_t i = 0; i < s->run_count; i++) {
        if (shared->claims[i].worker != HELD) continue;
        shared->claims[i].worker = NOBODY;
        held++;
    }
    return held;
}

bool sweep_train(Sweep *s, int *signal_number, Error *err) {
    const struct timespec pause = {.tv_nsec = 20000000};
    pid_t workers[RUNS_MAX] = {0}; /* (slots); 0: none */
    size_t trained = 0;
    bool in_place = true;
    if (!share(err)) return false;
    signal(SIGCHLD, SIG_DFL); /* whoever started this program may have it ignored; then waitpid would find no child */
    for (size_t i = 0; i < s->run_count; i++) read_progress(&s->runs[i]);
    for (;;) {
        size_t alive = 0;
        for (size_t w = 0; w < s->slots; w++) {
            int how;
            const pid_t ended = workers[w] ? waitpid(workers[w], &how, WNOHANG) : 0;
            if (ended) {
                if (ended < 0) how = 0; /* somebody else has waited for it */
                note_end_of_worker(s, workers[w], how);
                workers[w] = 0;
            }
            alive += workers[w] != 0;
        }
        in_place = in_place && directory_holds(&s->place.directory, err);
        if (in_place) report_ended_runs(s);
        size_t waiting = interrupt_signal() || !in_place ? 0 : add_up(s).waiting;
        if (alive == 0 && waiting == 0 && in_place) waiting = retry_held(s, &trained);
        if (alive == 0 && waiting == 0) break;
        for (size_t w = 0; w < s->slots && waiting; w++) {
            if (workers[w]) continue;
            const pid_t worker = start_worker(s);
            if (worker < 0 && alive) break; /* tried again in a moment */
            if (worker < 0) return runtime_error(err, "cannot start another process: %s", strerror(errno));
            workers[w] = worker;
            alive++;
            waiting--;
        }
        show_progress(s);
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    *signal_number = interrupt_signal();
    return in_place;
}
