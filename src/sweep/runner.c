/* The runs of a sweep, each trained by a process of its own (child.c), a few at a time. The outcome of a run is read
   from the run's directory. This process knows besides only which runs it has started and how their processes ended:
   if it is killed, they train on, and a resumed sweep waits for them. */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/interrupt.h"
#include "base/lock.h"
#include "sweep/parts.h"

typedef struct {
    Sweep *sweep;
    size_t runs[RUNS_MAX], count; /* the runs that this process trains, in the order in which they start */
    size_t next;                  /* the first of them that has not been started */
    size_t ended;                 /* how many have ended */
    size_t alive;                 /* how many processes there are */
    struct {
        Child child; /* id 0: none */
        SweepRun *run;
    } slots[RUNS_MAX]; /* (sweep->slots) */
    int signal;        /* the signal that ends the sweep; 0: none came */
    bool passed;       /* and it was passed on to the processes */
    bool moved;        /* the sweep's directory was moved or removed: nothing more is started */
} Crew;                /* large: keep it off small stacks */

/* Reads from its log how far a run is. */
static void read_progress(SweepRun *run) {
    Error ignored;
    if (run->state == RUN_NOT_FINISHED) sweep_clear_run(run);
    sweep_read_metrics(run, &ignored);
}

/* How many steps a run has made. */
static double steps_made(const SweepRun *run) { return fmax(0, run->measured[MEASURE_STEPS]); }

/* A run that ended early makes no more steps: it counts as if it had made them all. */
static void show_progress(const Crew *c) {
    const Sweep *s = c->sweep;
    char line[160], left[32];
    double steps = 0, all_steps = 0, seconds = 0;
    if (!progress_is_due(s->options->progress, omp_get_wtime())) return;
    for (size_t i = 0; i < s->slots; i++)
        if (c->slots[i].child.id) read_progress(c->slots[i].run);
    for (size_t i = 0; i < c->count; i++) {
        const SweepRun *run = &s->runs[c->runs[i]];
        all_steps += (double)run->config.train.steps;
        steps += run->state != RUN_NOT_FINISHED ? (double)run->config.train.steps : steps_made(run);
        seconds += fmax(0, run->measured[MEASURE_SECONDS]);
    }
    progress_duration(seconds / steps * (all_steps - steps) / (double)s->slots, left, sizeof left);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %.0f/%.0f   %s left", c->ended, c->count,
             c->alive, steps, all_steps, left);
    progress_line(s->options->progress, line);
}

/* --- how a run ends */

static void report_end(Crew *c, SweepRun *run) {
    char duration[32], how[64] = "";
    c->ended++;
    read_progress(run);
    progress_duration(run->measured[MEASURE_SECONDS], duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        snprintf(how, sizeof how, "val %.4f at step %.0f, %s", run->measured[MEASURE_VAL_LOSS], steps_made(run),
                 duration);
    else if (run->state == RUN_NOT_FINISHED) snprintf(how, sizeof how, "stopped at step %.0f", steps_made(run));
    progress_message(c->sweep->options->progress, "[%zu/%zu] %s: %s%s", c->ended, c->count, run->name,
                     run->state == RUN_FAILED ? "failed: " : how, run->message);
}

static void fail(SweepRun *run, const Error *why) {
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why->message);
}

/* Notes how a run has ended, by the status of its process and what that has left in the run's directory. */
static void note_end(Crew *c, SweepRun *run, const Child *child, int status) {
    Error why;
    const int stopped_by = child_stopped_by(status);
    const bool read = sweep_read_run(run, &why);
    if (!c->signal) c->signal = stopped_by; /* one that is stopped stops all */
    if (stopped_by || run->state == RUN_DIVERGED) return;
    if (!read || !child_succeeded(child, status, &why)) fail(run, &why);
    else if (run->state == RUN_NOT_FINISHED) {
        runtime_error(&why, "ended with status 0 before it had finished");
        fail(run, &why);
    }
}

static void note_ends(Crew *c) {
    for (size_t i = 0; i < c->sweep->slots; i++) {
        Child *child = &c->slots[i].child;
        int status;
        if (!child->id || !child_ended(child, &status)) continue;
        note_end(c, c->slots[i].run, child, status);
        child_free(child);
        c->alive--;
        report_end(c, c->slots[i].run);
    }
}

/* --- how it starts, and is stopped */

/* Starts a process for the next run. Returns false where this must wait until another process has ended; a run that
   cannot be started at all has failed. */
static bool start_next(Crew *c, size_t slot) {
    Error why;
    SweepRun *run = &c->sweep->runs[c->runs[c->next]];
    c->slots[slot].run = run;
    const bool loaded = sweep_load_run(c->sweep, run, &why); /* another process may have trained it meanwhile */
    const bool ended = loaded && run->state != RUN_NOT_FINISHED;
    const bool started = loaded && !ended && child_start(&c->slots[slot].child, c->sweep, run, &why);
    if (loaded && !ended && !started && c->alive) return false;
    c->next++;
    c->alive += started;
    c->ended += ended;
    if (started || ended) return true;
    fail(run, &why);
    report_end(c, run);
    return true;
}

/* Starts as many runs as may be trained now. Fails if they would be trained in another directory. */
static bool start_all(Crew *c, Error *err) {
    for (size_t slot = 0; slot < c->sweep->slots; slot++)
        while (!c->slots[slot].child.id && c->next < c->count) {
            if (c->sweep->runs[c->runs[c->next]].state != RUN_NOT_FINISHED) {
                c->next++;
                continue;
            }
            if (!directory_holds(&c->sweep->place.directory, err)) return false;
            if (!start_next(c, slot)) return true;
        }
    return true;
}

/* A signal to this process ends all runs, once they have saved a checkpoint. */
static void pass_on(Crew *c) {
    if (!c->signal) c->signal = interrupt_signal();
    if (!c->signal || c->passed) return;
    c->passed = true;
    for (size_t i = 0; i < c->sweep->slots; i++)
        if (c->slots[i].child.id) kill(c->slots[i].child.id, c->signal);
}

/* Ends a pause when a process ends. */
static void wake(int signal_number) { (void)signal_number; }

bool sweep_train(Sweep *s, int *signal_number, Error *err) {
    static Crew c; /* large */
    const struct timespec pause = {.tv_nsec = 20000000};
    c = (Crew){.sweep = s};
    c.count = share_runs(s, c.runs);
    for (size_t i = 0; i < c.count; i++) {
        SweepRun *run = &s->runs[c.runs[i]];
        read_progress(run);
        c.ended += run->state != RUN_NOT_FINISHED;
    }
    signal(SIGCHLD, wake); /* it may have been ignored by whoever started this program: then no child could be found */
    for (;;) {
        note_ends(&c);
        pass_on(&c);
        if (!c.signal && !c.moved) c.moved = !start_all(&c, err);
        if (c.alive == 0 && (c.signal || c.moved || c.next == c.count)) break;
        show_progress(&c);
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    *signal_number = c.signal;
    return !c.moved;
}
