/* One view of all arms at work: on a terminal a few lines that are written over, else a line when an arm ends. What it
   shows comes from the ends of their metrics.csv. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/parts.h"
#include "train/logs.h"

enum { LINE = 160, NAME_SHOWN = 32 };

void sweep_read_progress(const Sweep *s, size_t i) {
    ArmRun *run = &s->runs[i];
    char directory[4096];
    LogTable rows = {0};
    Error ignored;
    if (!sweep_arm_path(s, i, directory, &ignored)) return;
    if (logs_read(directory, LOG_METRICS, &rows, &ignored) && rows.rows) {
        const double val_loss = log_last(&rows, METRICS_VAL_LOSS);
        run->step = (size_t)rows.column[METRICS_STEP][rows.rows - 1];
        run->train_loss = rows.column[METRICS_TRAIN_LOSS][rows.rows - 1];
        if (!isnan(val_loss)) run->val_loss = val_loss;
    }
    log_table_free(&rows);
}

typedef struct {
    size_t runs, done, running, steps, all_steps;
} Totals;

static size_t steps_of(const Sweep *s, size_t i) { return (size_t)s->arms.arms[i].config.train.steps; }

/* Of an arm that ended early no more steps are to come: it counts as if it had made them. */
static Totals add_up(const Sweep *s) {
    Totals t = {0};
    for (size_t i = 0; i < s->arms.count; i++) {
        const ArmRun *run = &s->runs[i];
        bool over = run->state == ARM_FINISHED || run->state == ARM_DIVERGED || run->state == ARM_FAILED;
        if (s->arms.arms[i].same_as != i) continue;
        t.runs++;
        t.done += over;
        t.running += run->state == ARM_RUNNING;
        t.all_steps += steps_of(s, i);
        t.steps += over ? steps_of(s, i) : run->step;
    }
    return t;
}

/* "  scale_divisor=none+seed=1             420/1000  train 2.514  val 2.601" */
static void describe_arm(const Sweep *s, size_t i, char line[LINE]) {
    const ArmRun *run = &s->runs[i];
    const char *name = s->arms.arms[i].name;
    char steps[48], train[24] = "", val[24] = "";
    bool cut = strlen(name) > NAME_SHOWN;
    if (!isnan(run->train_loss)) snprintf(train, sizeof train, "  train %.3f", run->train_loss);
    if (!isnan(run->val_loss)) snprintf(val, sizeof val, "  val %.3f", run->val_loss);
    snprintf(steps, sizeof steps, "%zu/%zu", run->step, steps_of(s, i));
    snprintf(line, LINE, "  %.*s%s%*s %13s%s%s", cut ? NAME_SHOWN - 2 : NAME_SHOWN, name, cut ? ".." : "",
             cut ? 0 : NAME_SHOWN - (int)strlen(name), "", steps, train, val);
}

void sweep_view(Sweep *s, double now) {
    enum { ARMS_SHOWN = 16 };
    char lines[ARMS_SHOWN + 2][LINE], left[32];
    const char *shown[ARMS_SHOWN + 2];
    size_t count = 1, beyond = 0;
    if (!progress_is_due(s->options->progress, now)) return;
    for (size_t i = 0; i < s->arms.count; i++) {
        if (s->runs[i].state != ARM_RUNNING) continue;
        sweep_read_progress(s, i);
        if (count <= ARMS_SHOWN)
            describe_arm(s, i, lines[count++]);
        else
            beyond++;
    }
    if (beyond) snprintf(lines[count++], LINE, "  and %zu more", beyond);
    Totals t = add_up(s);
    if (s->began == 0) s->began = now, s->steps_before = t.steps;
    double each = (now - s->began) / (double)(t.steps - s->steps_before); /* seconds; NaN at first */
    progress_duration(each * (double)(t.all_steps - t.steps), left, sizeof left);
    snprintf(lines[0], LINE, "%zu of %zu runs ended, %zu running   step %zu/%zu   %s left", t.done, t.runs, t.running,
             t.steps, t.all_steps, left);
    for (size_t i = 0; i < count; i++) shown[i] = lines[i];
    progress_lines(s->options->progress, shown, count);
}

void sweep_report_end(const Sweep *s, size_t i, double now) {
    const ArmRun *run = &s->runs[i];
    const char *name = s->arms.arms[i].name;
    const Totals t = add_up(s);
    char duration[32];
    progress_duration(run->began > 0 ? now - run->began : NAN, duration, sizeof duration);
    if (run->state == ARM_FINISHED)
        progress_message(s->options->progress, "[%zu/%zu] %s: val %.4f at step %zu, %s", t.done, t.runs, name,
                         run->val_loss, run->step, duration);
    else if (run->state == ARM_INTERRUPTED)
        progress_message(s->options->progress, "[%zu/%zu] %s: stopped at step %zu", t.done, t.runs, name, run->step);
    else
        progress_message(s->options->progress, "[%zu/%zu] %s: %s%s", t.done, t.runs, name,
                         run->state == ARM_FAILED ? "failed: " : "", run->message);
}
