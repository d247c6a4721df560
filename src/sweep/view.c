/* The progress of all runs: on a terminal a few lines that are written over, else a line when a run ends. What is shown
   comes from the ends of their metrics.csv. */
#include <math.h>
#include <string.h>

#include "sweep/parts.h"
#include "train/logs.h"

enum { LINE = 160, NAME_SHOWN = 32, RUNS_SHOWN = 16 };

void sweep_read_progress(SweepRun *run) {
    LogTable rows = {0};
    Error ignored;
    const bool read = logs_read(run->directory, LOG_METRICS, run->read, SIZE_MAX, &rows, &ignored);
    run->read = read ? rows.end : 0;
    if (read && rows.rows) {
        const double val_loss = log_last(&rows, METRICS_VAL_LOSS);
        run->step = (size_t)rows.column[METRICS_STEP][rows.rows - 1];
        run->train_loss = rows.column[METRICS_TRAIN_LOSS][rows.rows - 1];
        if (!isnan(val_loss)) run->val_loss = val_loss;
    }
    log_table_free(&rows);
}

typedef struct {
    size_t ended, running, steps, all_steps;
} Totals;

/* Of a run that ended early no more steps are to come: it counts as if it had made them. */
static Totals add_up(const Sweep *s) {
    Totals t = {0};
    for (size_t i = 0; i < s->run_count; i++) {
        const SweepRun *run = &s->runs[i];
        const size_t steps = (size_t)run->config.train.steps;
        const bool ended = run->state != RUN_NOT_FINISHED;
        t.ended += ended;
        t.running += run->child.pid != 0;
        t.all_steps += steps;
        t.steps += ended ? steps : run->step;
    }
    return t;
}

/* "  scale_divisor=none+seed=1             420/1000  train 2.514  val 2.601" */
static void describe_run(const SweepRun *run, char line[LINE]) {
    char steps[48], train[24] = "", val[24] = "";
    bool cut = strlen(run->name) > NAME_SHOWN;
    if (!isnan(run->train_loss)) snprintf(train, sizeof train, "  train %.3f", run->train_loss);
    if (!isnan(run->val_loss)) snprintf(val, sizeof val, "  val %.3f", run->val_loss);
    snprintf(steps, sizeof steps, "%zu/%lld", run->step, (long long)run->config.train.steps);
    snprintf(line, LINE, "  %-*.*s%s %13s%s%s", cut ? 0 : NAME_SHOWN, cut ? NAME_SHOWN - 2 : NAME_SHOWN, run->name,
             cut ? ".." : "", steps, train, val);
}

void sweep_view(Sweep *s, double now) {
    char lines[RUNS_SHOWN + 2][LINE], left[32];
    const char *shown[RUNS_SHOWN + 2];
    size_t count = 1;
    if (!progress_is_due(s->options->progress, now)) return;
    for (size_t i = 0; i < s->run_count; i++) {
        if (s->runs[i].child.pid == 0) continue;
        sweep_read_progress(&s->runs[i]);
        if (count <= RUNS_SHOWN) describe_run(&s->runs[i], lines[count++]);
    }
    const Totals t = add_up(s);
    if (t.running > RUNS_SHOWN) snprintf(lines[count++], LINE, "  and %zu more", t.running - RUNS_SHOWN);
    if (s->began == 0) s->began = now, s->steps_before = t.steps;
    double each = (now - s->began) / (double)(t.steps - s->steps_before); /* seconds; NaN at first */
    progress_duration(each * (double)(t.all_steps - t.steps), left, sizeof left);
    snprintf(lines[0], LINE, "%zu of %zu runs ended, %zu running   step %zu/%zu   %s left", t.ended, s->run_count,
             t.running, t.steps, t.all_steps, left);
    for (size_t i = 0; i < count; i++) shown[i] = lines[i];
    progress_lines(s->options->progress, shown, count);
}

void sweep_report_end(const Sweep *s, const SweepRun *run, double now) {
    const size_t ended = add_up(s).ended;
    Progress *progress = s->options->progress;
    char duration[32];
    progress_duration(now - run->began, duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        progress_message(progress, "[%zu/%zu] %s: val %.4f at step %zu, %s", ended, s->run_count, run->name,
                         run->val_loss, run->step, duration);
    else if (run->state == RUN_NOT_FINISHED)
        progress_message(progress, "[%zu/%zu] %s: stopped at step %zu", ended, s->run_count, run->name, run->step);
    else
        progress_message(progress, "[%zu/%zu] %s: %s%s", ended, s->run_count, run->name,
                         run->state == RUN_FAILED ? "failed: " : "", run->message);
}
