/* The runs of a sweep as processes: up to `slots` at a time, each started anew or resumed where it stopped. This
   process opens no parallel region before the last of them has been started, since fork copies a single thread. */
#include <math.h>
#include <omp.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/results_entries.h"
#include "sweep/parts.h"
#include "train/logs.h"

static void fail(SweepRun *run, const char *why) {
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why);
}

/* Removes what is left of a run that was killed before its first checkpoint. Fails where anything else is there. */
static bool clear(const char *directory, Error *err) {
    return !path_exists(directory) || rmdir(directory) == 0 ||
           (results_hold_only_ours(directory, err) && directory_remove(directory, err));
}

static bool write_config(const Sweep *s, const SweepRun *run, char path[4096], Error *err) {
    char name[RUN_NAME + 16];
    FileWriter writer;
    snprintf(name, sizeof name, "configs/%s.ini", run->name);
    if (!path_join(path, 4096, s->directory, name, err) || !file_writer_open(&writer, path, err)) return false;
    config_write(&run->config, writer.stream);
    return file_writer_commit(&writer, err);
}

static bool start(const Sweep *s, SweepRun *run, Error *err) {
    char config[4096], threads[32];
    if (!run->has_checkpoint && !(clear(run->directory, err) && write_config(s, run, config, err))) return false;
    snprintf(threads, sizeof threads, "%zu", s->threads);
    const char *const anew[] = {"./train", config, "--out", run->directory, "--threads", threads, "--quiet", NULL};
    const char *const resume[] = {"./train", "resume", run->directory, "--threads", threads, "--quiet", NULL};
    run->read = 0; /* a resumed run cuts its logs back */
    run->began = omp_get_wtime();
    return child_start(&run->child, s->options->program, run->has_checkpoint ? resume : anew, err);
}

/* Sets the run's state from its run.json and the exit status of its process, whose last line is `message`. A run that
   was stopped by the signal that the sweep passed on has not failed. */
static void conclude(SweepRun *run, int status, const char *message) {
    const int caught = interrupt_signal();
    char ended[64];
    Error err;
    if (!sweep_read_run(run, &err)) {
        fail(run, err.message);
    } else if (!(status == 0 && run->state == RUN_FINISHED) &&
               !(status == STATUS_DIVERGED && run->state == RUN_DIVERGED)) {
        snprintf(ended, sizeof ended, "ended with status %d before it had finished", status);
        fail(run, *message ? message : ended);
        if (caught && status == 128 + caught) run->state = RUN_NOT_FINISHED, *run->message = 0;
    }
}

/* Reads what the run has logged since the last time. */
static void read_progress(SweepRun *run) {
    LogTable rows = {0};
    Error ignored;
    const bool read = logs_read(run->directory, LOG_METRICS, run->read, SIZE_MAX, &rows, &ignored);
    run->read = read ? rows.end : 0;
    if (read && rows.rows) {
        const double val_loss = log_last(&rows, METRICS_VAL_LOSS);
        run->step = (size_t)rows.column[METRICS_STEP][rows.rows - 1];
        if (!isnan(val_loss)) run->val_loss = val_loss;
    }
    log_table_free(&rows);
}

static bool is_waiting(const SweepRun *run) { return run->state == RUN_NOT_FINISHED && !run->child.pid; }

typedef struct {
    size_t waiting, running, ended, steps, all_steps;
} Totals;

/* A run that ended early makes no more steps: it counts as if it had made them all. */
static Totals add_up(const Sweep *s) {
    Totals t = {0};
    for (size_t i = 0; i < s->run_count; i++) {
        const SweepRun *run = &s->runs[i];
        const size_t steps = (size_t)run->config.train.steps;
        const bool ended = run->state != RUN_NOT_FINISHED;
        t.waiting += is_waiting(run);
        t.running += run->child.pid != 0;
        t.ended += ended;
        t.all_steps += steps;
        t.steps += ended ? steps : run->step;
    }
    return t;
}

/* The progress line of all runs. The speed is measured since `began`, when `steps_before` steps had been made. */
static void show_progress(const Sweep *s, double began, size_t steps_before) {
    char line[160], left[32];
    const double now = omp_get_wtime();
    if (!progress_is_due(s->options->progress, now)) return;
    for (size_t i = 0; i < s->run_count; i++)
        if (s->runs[i].child.pid) read_progress(&s->runs[i]);
    const Totals t = add_up(s);
    const double each = (now - began) / (double)(t.steps - steps_before); /* seconds; infinite at first */
    progress_duration(each * (double)(t.all_steps - t.steps), left, sizeof left);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %zu/%zu   %s left", t.ended, s->run_count,
             t.running, t.steps, t.all_steps, left);
    progress_line(s->options->progress, line);
}

static void report_end(const Sweep *s, const SweepRun *run) {
    const size_t ended = add_up(s).ended;
    Progress *progress = s->options->progress;
    char duration[32];
    progress_duration(omp_get_wtime() - run->began, duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        progress_message(progress, "[%zu/%zu] %s: val %.4f at step %zu, %s", ended, s->run_count, run->name,
                         run->val_loss, run->step, duration);
    else if (run->state == RUN_NOT_FINISHED)
        progress_message(progress, "[%zu/%zu] %s: stopped at step %zu", ended, s->run_count, run->name, run->step);
    else
        progress_message(progress, "[%zu/%zu] %s: %s%s", ended, s->run_count, run->name,
                         run->state == RUN_FAILED ? "failed: " : "", run->message);
}

static void start_some(Sweep *s, size_t free_slots) {
    for (size_t i = 0; i < s->run_count && free_slots; i++) {
        SweepRun *run = &s->runs[i];
        Error err;
        if (!is_waiting(run)) continue;
        if (start(s, run, &err)) {
            free_slots--;
        } else {
            fail(run, err.message);
            report_end(s, run);
        }
    }
}

/* Concludes the runs whose process has ended; returns whether there was any. */
static bool collect(Sweep *s) {
    bool any = false;
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        char message[sizeof run->message];
        int status;
        if (!child_ended(&run->child, &status, message, sizeof message)) continue;
        conclude(run, status, message);
        read_progress(run);
        report_end(s, run);
        any = true;
    }
    return any;
}

int sweep_train(Sweep *s) {
    const struct timespec pause = {.tv_nsec = 20000000};
    const double began = omp_get_wtime();
    Error ignored;
    for (size_t i = 0; i < s->run_count; i++) read_progress(&s->runs[i]); /* for those that are resumed */
    const size_t steps_before = add_up(s).steps;
    for (int passed_on = 0;;) {
        if (collect(s)) sweep_save(s, "running", NULL, &ignored); /* finish() reports what fails */
        const int caught = interrupt_signal(); /* read after collect: what a signal stopped is not started again */
        const Totals t = add_up(s);
        if (t.running == 0 && (caught || t.waiting == 0)) {
            progress_clear(s->options->progress);
            return caught;
        }
        if (!caught) start_some(s, s->slots - t.running);
        for (size_t i = 0; i < s->run_count && caught && !passed_on; i++) child_signal(&s->runs[i].child, caught);
        passed_on = caught;
        show_progress(s, began, steps_before);
        nanosleep(&pause, NULL);
    }
}
