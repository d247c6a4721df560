/* What a run left on disk, read back: run.json, metrics.csv, attention.csv. The tables of a sweep are made from this,
   so that a sweep that was resumed gives the same ones as one that was never stopped. Then statistics of a setting over
   its seeds: means with their intervals, and the difference to the setting that divides by √d_k. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "sweep/parts.h"
#include "train/logs.h"

const char *const SWEEP_RUN_STATES[] = {"not finished", "finished", "diverged", "failed"};

static bool is_text(const Json *value, const char *text) {
    return js_as_text(value) && strcmp(js_as_text(value), text) == 0;
}

bool sweep_read_run(SweepRun *run, Error *err) {
    RunResults *r = &run->results;
    char path[4096];
    bool there;
    Json *json = NULL;
    r->steps = r->seconds = r->threads = NAN;
    run->state = RUN_NOT_FINISHED;
    *run->message = 0;
    bool ok = path_join(path, sizeof path, run->directory, "run.json", err) && path_find(path, &there, err) &&
              (!there || run_description_load(&json, run->directory, err));
    const Json *result = js_get(json, "result"); /* no run.json has no entries */
    if (is_text(result, "finished")) run->state = RUN_FINISHED;
    if (is_text(result, "diverged")) {
        const char *error = js_as_text(js_get(json, "error"));
        run->state = RUN_DIVERGED;
        snprintf(run->message, sizeof run->message, "%s", error ? error : "diverged");
    }
    js_as_number(js_get(json, "steps"), &r->steps);
    js_as_number(js_get(json, "seconds"), &r->seconds);
    js_as_number(js_get(json, "threads"), &r->threads);
    js_free(json);
    return ok;
}

/* The next value of a curve. */
static void add(RunResults *r, CurveKind kind, double value) {
    if (isnan(r->first[kind])) r->first[kind] = value;
    r->last[kind] = value;
}

static void take_metrics(RunResults *r, const LogTable *table, double warmup) {
    const double last = table->rows ? table->column[METRICS_STEP][table->rows - 1] : NAN;
    double sum = 0, count = 0;
    for (size_t row = 0; row < table->rows; row++) {
        const double step = table->column[METRICS_STEP][row], loss = table->column[METRICS_VAL_LOSS][row];
        add(r, CURVE_TRAIN_LOSS, table->column[METRICS_TRAIN_LOSS][row]);
        if (step >= 0.9 * last) sum += table->column[METRICS_TRAIN_LOSS][row], count++;
        if (step >= warmup) r->grad_norm_max = fmax(r->grad_norm_max, table->column[METRICS_GRAD_NORM][row]);
        if (isnan(loss)) continue;
        add(r, CURVE_VAL_LOSS, loss);
        if (loss < r->best_val_loss || isnan(r->best_val_loss)) r->best_val_loss = loss, r->best_step = step;
    }
    r->train_loss_mean = sum / count;
    r->val_accuracy = log_last(table, METRICS_VAL_ACCURACY);
    if (isnan(r->steps)) r->steps = last;
    if (table->rows && isnan(r->seconds)) r->seconds = table->column[METRICS_SECONDS][table->rows - 1];
    r->grad_norm_median = median_of(table->column[METRICS_GRAD_NORM], table->rows); /* sorts them */
}

/* What a head's row of attention.csv gives to a curve. */
static double measure(const LogTable *table, CurveKind kind, size_t row) {
    static const int columns[CURVE_COUNT] = {[CURVE_ENTROPY] = ATTENTION_ENTROPY,
                                             [CURVE_SCORE_STD] = ATTENTION_SCORE_STD,
                                             [CURVE_SATURATED] = ATTENTION_SATURATED,
                                             [CURVE_GRAD_Q] = ATTENTION_GRAD_Q_MEDIAN,
                                             [CURVE_GRAD_SCORES] = ATTENTION_GRAD_SCORES_MEDIAN,
                                             [CURVE_QK_NORM] = ATTENTION_W_Q_NORM};
    const double value = table->column[columns[kind]][row];
    return kind == CURVE_QK_NORM ? value * table->column[ATTENTION_W_K_NORM][row] : value;
}

/* Rows come step by step, in each layer by layer and head by head. */
static bool take_heads(RunResults *r, const LogTable *table, const char *directory, Error *err) {
    const double *steps = table->column[ATTENTION_STEP];
    size_t all = 0; /* heads of all layers */
    while (all < table->rows && steps[all] == steps[0]) all++;
    const size_t measured = all ? table->rows / all : 0; /* steps; the last one may have been cut off */
    for (size_t n = 0; n < measured; n++) {
        double sums[CURVE_COUNT] = {0};
        for (size_t row = n * all; row < (n + 1) * all; row++) {
            if (steps[row] != steps[n * all])
                return rejected(err, "%s/%s:%zu: step %g does not have the %zu rows of the first step", directory,
                                LOG_NAMES[LOG_ATTENTION], row + 2, steps[n * all], all);
            for (CurveKind kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++) sums[kind] += measure(table, kind, row);
        }
        for (CurveKind kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++) add(r, kind, sums[kind] / (double)all);
    }
    return true;
}

static bool read_log(SweepRun *run, Log log, Error *err) {
    LogTable table = {0};
    bool there, ok = logs_find(run->directory, log, &there, err);
    if (ok && there) ok = logs_read(run->directory, log, &table, err);
    if (ok && there && log == LOG_METRICS) take_metrics(&run->results, &table, (double)run->config.train.warmup);
    if (ok && there && log == LOG_ATTENTION) ok = take_heads(&run->results, &table, run->directory, err);
    log_table_free(&table);
    return ok;
}

bool sweep_read_logs(SweepRun *run, Error *err) {
    return read_log(run, LOG_METRICS, err) && read_log(run, LOG_ATTENTION, err);
}

void run_results_clear(RunResults *r) {
    *r = (RunResults){.train_loss_mean = NAN,
                      .grad_norm_median = NAN,
                      .grad_norm_max = NAN,
                      .best_val_loss = NAN,
                      .best_step = NAN,
                      .val_accuracy = NAN,
                      .steps = NAN,
                      .seconds = NAN,
                      .threads = NAN};
    for (int kind = 0; kind < CURVE_COUNT; kind++) r->first[kind] = r->last[kind] = NAN;
}

/* --- over seeds */

/* NaN for a run that did not finish: where it stopped is no result. */
static double measure_of(const SweepRun *run, Measure which) {
    const RunResults *r = &run->results;
    if (run->state != RUN_FINISHED) return NAN;
    switch (which) {
    case MEASURE_VAL_LOSS: return r->last[CURVE_VAL_LOSS];
    case MEASURE_BEST_VAL_LOSS: return r->best_val_loss;
    case MEASURE_ENTROPY_FIRST: return r->first[CURVE_ENTROPY];
    case MEASURE_ENTROPY_LAST: return r->last[CURVE_ENTROPY];
    case MEASURE_SCORE_STD_FIRST: return r->first[CURVE_SCORE_STD];
    case MEASURE_SCORE_STD_LAST: return r->last[CURVE_SCORE_STD];
    case MEASURE_COUNT: break;
    }
    return NAN;
}

/* A measure of each of a setting's runs, by seed. */
static void measure_all(const Sweep *s, const SweepSetting *setting, Measure which, double values[SWEEP_VALUES_MAX]) {
    for (size_t i = 0; i < setting->count; i++) values[i] = measure_of(&s->runs[setting->run[i]], which);
}

static void summarize(Sweep *s, SweepSetting *setting) {
    double values[SWEEP_VALUES_MAX], reference[SWEEP_VALUES_MAX];
    setting->finished = setting->diverged = 0;
    for (size_t i = 0; i < setting->count; i++) {
        setting->finished += s->runs[setting->run[i]].state == RUN_FINISHED;
        setting->diverged += s->runs[setting->run[i]].state == RUN_DIVERGED;
    }
    for (Measure which = 0; which < MEASURE_COUNT; which++) {
        measure_all(s, setting, which, values);
        setting->mean[which] = interval_of_mean(values, setting->count);
    }
    if (setting->reference == NO_SETTING || &s->settings[setting->reference] == setting) return;
    measure_all(s, setting, MEASURE_VAL_LOSS, values);
    measure_all(s, &s->settings[setting->reference], MEASURE_VAL_LOSS, reference);
    setting->difference = interval_of_difference(values, reference, setting->count);
}

void sweep_summarize(Sweep *s) {
    for (size_t i = 0; i < s->setting_count; i++) summarize(s, &s->settings[i]);
}

void sweep_read_back(Sweep *s) {
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        Error unreadable;
        if (sweep_read_logs(run, &unreadable)) continue;
        run_results_clear(&run->results);
        if (run->state == RUN_FAILED) continue;
        run->state = RUN_FAILED;
        snprintf(run->message, sizeof run->message, "%s", unreadable.message);
    }
    sweep_summarize(s);
}
