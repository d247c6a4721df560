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

/* Returns run.json, or NULL for a run that was not started. A directory that has other files has lost its run.json, and
   is refused, unless a process holds it, which has yet to write that file or is removing the others. */
static const Json *load_description(const SweepRun *run) {
    char path[PATH_CAPACITY];
    path_join(path, run->directory, "run.json");
    const bool has_files = path_exists(run->directory) && !results_unused(run->directory);
    const bool was_started = path_find(path) || (has_files && !directory_held(run->directory));
    return was_started ? run_description_load(run->directory) : NULL;
}

bool sweep_read_state(SweepRun *run) {
    const size_t mark = memory_mark();
    const Json *json = load_description(run);
    const char *result = js_as_text(js_get(json, "result")), *error = js_as_text(js_get(json, "error"));
    if (result && strcmp(result, "running") != 0) {
        run->state = RUN_NOT_FINISHED;
        for (SweepRunState state = RUN_FINISHED; state <= RUN_FAILED; state++)
            if (strcmp(result, SWEEP_RUN_STATES[state]) == 0) run->state = state;
        snprintf(run->message, sizeof run->message, "%s", error ? error : "");
    }
    memory_release(mark);
    return json;
}

static void clear(SweepRun *run) {
    for (Measure m = 0; m < MEASURE_COUNT; m++) run->measured[m] = NAN;
}

static void read_description(SweepRun *run) {
    const Json *json = load_description(run);
    js_as_number(js_get(json, "steps"), &run->measured[MEASURE_STEPS]);
    js_as_number(js_get(json, "seconds"), &run->measured[MEASURE_SECONDS]);
    js_as_number(js_get(json, "threads"), &run->measured[MEASURE_THREADS]);
}

static void read_metrics(SweepRun *run) {
    const LogTable table = logs_read_any(run->directory, LOG_METRICS);
    double *r = run->measured;
    const double *steps = table.column[METRICS_STEP], *train = table.column[METRICS_TRAIN_LOSS],
                 last = log_last(&table, METRICS_STEP);
    double sum = 0, count = 0;
    for (size_t row = 0; row < table.rows; row++) {
        const bool is_late = steps[row] >= 0.9 * last;
        sum += is_late ? train[row] : 0;
        count += is_late;
        if (steps[row] >= (double)run->config.train.warmup)
            r[MEASURE_GRAD_NORM_MAX] = fmax(r[MEASURE_GRAD_NORM_MAX], table.column[METRICS_GRAD_NORM][row]);
    }
    r[MEASURE_TRAIN_LOSS] = log_last(&table, METRICS_TRAIN_LOSS);
    r[MEASURE_BEST_VAL_LOSS] = log_best(&table, &r[MEASURE_BEST_STEP]);
    r[MEASURE_TRAIN_LOSS_MEAN] = sum / count;
    r[MEASURE_VAL_LOSS] = log_last(&table, METRICS_VAL_LOSS);
    r[MEASURE_VAL_ACCURACY] = log_last(&table, METRICS_VAL_ACCURACY);
    if (isnan(r[MEASURE_STEPS])) r[MEASURE_STEPS] = last;
    if (isnan(r[MEASURE_SECONDS])) r[MEASURE_SECONDS] = log_last(&table, METRICS_SECONDS);
    r[MEASURE_GRAD_NORM_MEDIAN] = estimate_median(table.column[METRICS_GRAD_NORM], table.rows).value; /* sorts it */
}

/* Computes the means over all heads, at the first step that has a value and at the last step. */
static void read_attention(SweepRun *run) {
    const LogTable table = logs_read_any(run->directory, LOG_ATTENTION);
    const size_t heads = (size_t)(run->config.model.layers * run->config.model.heads),
                 steps = log_whole_steps(&table, run->directory, heads);
    double *r = run->measured, *norms = table.column[ATTENTION_W_Q_NORM];
    for (size_t row = 0; row < table.rows; row++) norms[row] *= table.column[ATTENTION_W_K_NORM][row];
    for (Measure first = MEASURE_ENTROPY_FIRST; first < MEASURE_QK_NORM_LAST; first += 2) {
        const int column = MEASURES[first].attention;
        for (size_t step = 0; step < steps && isnan(r[first]); step++) r[first] = log_mean(&table, column, step, heads);
        if (steps) r[first + 1] = log_mean(&table, column, steps - 1, heads);
    }
}

void sweep_read_measures(SweepRun *run) {
    const size_t mark = memory_mark();
    clear(run);
    read_description(run);
    if (run->state == RUN_FINISHED || run->state == RUN_DIVERGED) run_check_logs(run->directory);
    read_metrics(run);
    read_attention(run);
    memory_release(mark);
}

/* --- over seeds */

/* Lists one measure of each run of a setting, by seed; NaN for a run that did not finish, since its last step is no
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

static void read_measures(void *run) { sweep_read_measures(run); }

void sweep_read_back(Sweep *s) {
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        Error why;
        if (protect(read_measures, run, &why)) continue;
        if (why.status != STATUS_USAGE) error_raise_again(&why);
        clear(run);
        if (run->state == RUN_FAILED) continue;
        run->state = RUN_FAILED;
        run->damaged = true;
        text_clip(why.message, 1000, run->message, sizeof run->message);
    }
    sweep_summarize(s);
}
