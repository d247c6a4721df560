/* Reads back the files of a run: run.json, metrics.csv, attention.csv. The tables of a sweep are made from these files
   only, so that a resumed sweep gives the same tables as one that was never stopped. Then come the statistics of a
   setting over its seeds: means with their intervals, and the difference to the setting that divides by √d_k. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/parts.h"

const char *const SWEEP_RUN_STATES[] = {"not finished", "finished", "diverged", "failed"};

#define HEADS(measure, column)                                                                                         \
    {measure "_first", "%.6g", column}, { measure "_last", "%.6g", column }
const MeasureColumn MEASURES[MEASURE_COUNT] = {{"steps", "%.0f", 0},
                                               {"train_loss", "%.7g", 0},
                                               {"train_loss_mean", "%.7g", 0},
                                               {"val_loss", "%.7g", 0},
                                               {"best_val_loss", "%.7g", 0},
                                               {"best_step", "%.0f", 0},
                                               {"val_accuracy", "%.6g", 0},
                                               HEADS("entropy", ATTENTION_ENTROPY),
                                               HEADS("score_std", ATTENTION_SCORE_STD),
                                               HEADS("saturated", ATTENTION_SATURATED),
                                               HEADS("grad_q", ATTENTION_GRAD_Q_MEDIAN),
                                               HEADS("grad_scores", ATTENTION_GRAD_SCORES_MEDIAN),
                                               HEADS("qk_norm", ATTENTION_W_Q_NORM),
                                               {"grad_norm_median", "%.6g", 0},
                                               {"grad_norm_max", "%.6g", 0},
                                               {"threads", "%.0f", 0},
                                               {"seconds", "%.3f", 0}};

void sweep_clear_run(SweepRun *run) {
    for (Measure m = 0; m < MEASURE_COUNT; m++) run->measured[m] = NAN;
}

void sweep_read_run(SweepRun *run) {
    double *r = run->measured;
    char path[PATH_CAPACITY];
    const size_t mark = memory_mark();
    const Json *json = NULL;
    sweep_clear_run(run);
    run->state = RUN_NOT_FINISHED;
    run->damaged = false;
    *run->message = 0;
    path_join(path, run->directory, "run.json");
    /* Without run.json there are no entries. A directory that has other files has lost its run.json, and is refused. */
    if (path_find(path) || (path_exists(run->directory) && !results_unused(run->directory)))
        json = run_description_load(run->directory);
    const char *result = js_as_text(js_get(json, "result")), *error = js_as_text(js_get(json, "error"));
    for (SweepRunState state = RUN_FINISHED; result && state <= RUN_FAILED; state++)
        if (strcmp(result, SWEEP_RUN_STATES[state]) == 0) run->state = state;
    if (error) snprintf(run->message, sizeof run->message, "%s", error);
    js_as_number(js_get(json, "steps"), &r[MEASURE_STEPS]);
    js_as_number(js_get(json, "seconds"), &r[MEASURE_SECONDS]);
    js_as_number(js_get(json, "threads"), &r[MEASURE_THREADS]);
    memory_release(mark);
}

void sweep_read_metrics(SweepRun *run) {
    const size_t mark = memory_mark();
    const LogTable table = logs_read_any(run->directory, LOG_METRICS);
    double *r = run->measured;
    const double *steps = table.column[METRICS_STEP], *train = table.column[METRICS_TRAIN_LOSS],
                 *val = table.column[METRICS_VAL_LOSS], last = log_last(&table, METRICS_STEP);
    double sum = 0, count = 0;
    for (size_t row = 0; row < table.rows; row++) {
        if (steps[row] >= 0.9 * last) sum += train[row], count++;
        if (steps[row] >= (double)run->config.train.warmup)
            r[MEASURE_GRAD_NORM_MAX] = fmax(r[MEASURE_GRAD_NORM_MAX], table.column[METRICS_GRAD_NORM][row]);
        if (!isnan(val[row]) && !(val[row] >= r[MEASURE_BEST_VAL_LOSS]))
            r[MEASURE_BEST_VAL_LOSS] = val[row], r[MEASURE_BEST_STEP] = steps[row];
        r[MEASURE_TRAIN_LOSS] = train[row];
    }
    r[MEASURE_TRAIN_LOSS_MEAN] = sum / count;
    r[MEASURE_VAL_LOSS] = log_last(&table, METRICS_VAL_LOSS);
    r[MEASURE_VAL_ACCURACY] = log_last(&table, METRICS_VAL_ACCURACY);
    if (isnan(r[MEASURE_STEPS])) r[MEASURE_STEPS] = last;
    if (isnan(r[MEASURE_SECONDS])) r[MEASURE_SECONDS] = log_last(&table, METRICS_SECONDS);
    r[MEASURE_GRAD_NORM_MEDIAN] = estimate_median(table.column[METRICS_GRAD_NORM], table.rows).value; /* sorts it */
    memory_release(mark);
}

/* Takes the means over all heads at the first and the last step. The rows of attention.csv come step by step, and
   within a step layer by layer and head by head. */
static void take_heads(SweepRun *run) {
    const LogTable table = logs_read_any(run->directory, LOG_ATTENTION);
    const double *steps = table.column[ATTENTION_STEP];
    double *r = run->measured;
    size_t all = 0; /* heads of all layers */
    while (all < table.rows && steps[all] == steps[0]) all++;
    const size_t measured = all ? table.rows / all : 0; /* whole steps: the last one may have been cut off */
    for (size_t row = 0; row < measured * all; row++)
        if (steps[row] != steps[row / all * all])
            usage_error("%s/%s:%zu: step %g does not have the %zu rows of the first step", run->directory,
                        LOG_NAMES[LOG_ATTENTION], row + 2, steps[row / all * all], all);
    for (Measure m = MEASURE_ENTROPY_FIRST; m <= MEASURE_QK_NORM_LAST; m++) {
        const bool is_last = (m - MEASURE_ENTROPY_FIRST) % 2;
        for (size_t step = is_last ? measured - 1 : 0; step < measured && isnan(r[m]); step++) {
            double sum = 0;
            for (size_t row = step * all; row < (step + 1) * all; row++)
                sum += table.column[MEASURES[m].attention][row] *
                       (m >= MEASURE_QK_NORM_FIRST ? table.column[ATTENTION_W_K_NORM][row] : 1);
            r[m] = sum / (double)all;
        }
    }
}

void sweep_read_logs(SweepRun *run) {
    const size_t mark = memory_mark();
    if (run->state == RUN_FINISHED || run->state == RUN_DIVERGED) run_check_logs(run->directory);
    sweep_read_metrics(run);
    take_heads(run);
    memory_release(mark);
}

/* --- over seeds */

/* One measure of each run of a setting, by seed; NaN for a run that did not finish, since where it stopped is no
   result. */
static void measure_all(const Sweep *s, const SweepSetting *setting, Measure which, double values[SWEEP_VALUES_MAX]) {
    for (size_t i = 0; i < setting->count; i++) {
        const SweepRun *run = &s->runs[setting->run[i]];
        values[i] = run->state == RUN_FINISHED ? run->measured[which] : (double)NAN;
    }
}

void sweep_summarize(Sweep *s) {
    double values[SWEEP_VALUES_MAX], reference[SWEEP_VALUES_MAX];
    for (SweepSetting *setting = s->settings; setting < s->settings + s->setting_count; setting++) {
        setting->finished = setting->diverged = 0;
        for (size_t i = 0; i < setting->count; i++) {
            setting->finished += s->runs[setting->run[i]].state == RUN_FINISHED;
            setting->diverged += s->runs[setting->run[i]].state == RUN_DIVERGED;
        }
        for (Measure which = 0; which < MEASURE_COUNT; which++) {
            measure_all(s, setting, which, values);
            setting->mean[which] = interval_of_mean(values, setting->count);
        }
        if (setting->reference == NO_SETTING || &s->settings[setting->reference] == setting) continue;
        measure_all(s, setting, MEASURE_VAL_LOSS, values);
        measure_all(s, &s->settings[setting->reference], MEASURE_VAL_LOSS, reference);
        setting->difference = interval_of_difference(values, reference, setting->count);
    }
}

static void read_logs(void *run) { sweep_read_logs(run); }

void sweep_read_back(Sweep *s) {
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        Error why;
        if (protect(read_logs, run, &why)) continue;
        if (why.status != STATUS_USAGE) error_raise_again(&why);
        sweep_clear_run(run);
        if (run->state == RUN_FAILED) continue;
        run->state = RUN_FAILED;
        run->damaged = true;
        text_clip(why.message, 1000, run->message, sizeof run->message);
    }
    sweep_summarize(s);
}
