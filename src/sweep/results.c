/* What a run left on disk, read back: run.json, metrics.csv, attention.csv. The tables and pictures of a sweep are made
   from this (and attention_compare.png from the runs' snapshots), so that a sweep that was resumed gives the same files
   as one that was never stopped. Then statistics of a setting over its seeds: means with their intervals, and the
   difference to the setting that divides by √d_k. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "sweep/parts.h"
#include "train/logs.h"

const char *const SWEEP_RUN_STATES[] = {"not finished", "finished", "diverged", "failed"};

double curve_first(const Curve *curve) { return curve->count ? curve->value[0] : NAN; }
double curve_last(const Curve *curve) { return curve->count ? curve->value[curve->count - 1] : NAN; }

double curve_last_step(const Curve *curve) { return curve->count ? curve->step[curve->count - 1] : NAN; }

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

static bool curve_make(Curve *curve, size_t most, Error *err) {
    curve->step = calloc(most + 1, sizeof *curve->step);
    curve->value = calloc(most + 1, sizeof *curve->value);
    return (curve->step && curve->value) || error_set(err, STATUS_FAILED, "no memory for a curve of %zu points", most);
}

static void curve_add(Curve *curve, double step, double value) {
    curve->step[curve->count] = step;
    curve->value[curve->count++] = value;
}

static bool take_metrics(RunResults *r, const LogTable *table, double warmup, Error *err) {
    const double last = table->rows ? table->column[METRICS_STEP][table->rows - 1] : NAN;
    double sum = 0, count = 0;
    Curve *losses = &r->curves[CURVE_TRAIN_LOSS], *validations = &r->curves[CURVE_VAL_LOSS];
    if (!curve_make(losses, table->rows, err) || !curve_make(validations, table->rows, err)) return false;
    for (size_t row = 0; row < table->rows; row++) {
        const double step = table->column[METRICS_STEP][row], loss = table->column[METRICS_VAL_LOSS][row];
        curve_add(losses, step, table->column[METRICS_TRAIN_LOSS][row]);
        if (step >= 0.9 * last) sum += table->column[METRICS_TRAIN_LOSS][row], count++;
        if (step >= warmup) r->grad_norm_max = fmax(r->grad_norm_max, table->column[METRICS_GRAD_NORM][row]);
        if (isnan(loss)) continue;
        curve_add(validations, step, loss);
        if (loss < r->best_val_loss || isnan(r->best_val_loss)) r->best_val_loss = loss, r->best_step = step;
    }
    r->train_loss_mean = sum / count;
    r->val_accuracy = log_last(table, METRICS_VAL_ACCURACY);
    if (isnan(r->steps)) r->steps = last;
    if (table->rows && isnan(r->seconds)) r->seconds = table->column[METRICS_SECONDS][table->rows - 1];
    r->grad_norm_median = median_of(table->column[METRICS_GRAD_NORM], table->rows); /* sorts them */
    return true;
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
    const double *steps = table->column[ATTENTION_STEP], *layers = table->column[ATTENTION_LAYER];
    size_t all = 0; /* heads of all layers */
    while (all < table->rows && steps[all] == steps[0]) r->heads += layers[all++] == 0;
    const size_t measured = all ? table->rows / all : 0; /* steps; the last one may have been cut off */
    r->entropy = calloc(measured * r->heads + 1, sizeof *r->entropy);
    r->score_std = calloc(measured * r->heads + 1, sizeof *r->score_std);
    if (!r->entropy || !r->score_std) return error_set(err, STATUS_FAILED, "no memory for %zu numbers", table->rows);
    for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++)
        if (!curve_make(&r->curves[kind], measured, err)) return false;
    for (size_t n = 0; n < measured; n++) {
        double sums[CURVE_COUNT] = {0};
        for (size_t i = 0; i < all; i++) {
            const size_t row = n * all + i;
            if (steps[row] != steps[n * all])
                return error_set(err, STATUS_USAGE, "%s/%s:%zu: step %g does not have the %zu rows of the first step",
                                 directory, LOG_NAMES[LOG_ATTENTION], row + 2, steps[n * all], all);
            for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++)
                sums[kind] += measure(table, (CurveKind)kind, row);
            if (i >= r->heads) continue;
            r->entropy[n * r->heads + i] = measure(table, CURVE_ENTROPY, row);
            r->score_std[n * r->heads + i] = measure(table, CURVE_SCORE_STD, row);
        }
        for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++)
            curve_add(&r->curves[kind], steps[n * all], sums[kind] / (double)all);
    }
    return true;
}

static bool read_log(SweepRun *run, Log log, Error *err) {
    LogTable table = {0};
    bool there, ok = logs_find(run->directory, log, &there, err);
    if (ok && there) ok = logs_read(run->directory, log, &table, err);
    if (ok && there && log == LOG_METRICS)
        ok = take_metrics(&run->results, &table, (double)run->config.train.warmup, err);
    if (ok && there && log == LOG_ATTENTION) ok = take_heads(&run->results, &table, run->directory, err);
    log_table_free(&table);
    return ok;
}

bool sweep_read_logs(SweepRun *run, Error *err) {
    return read_log(run, LOG_METRICS, err) && read_log(run, LOG_ATTENTION, err);
}

void run_results_clear(RunResults *r) {
    for (int kind = 0; kind < CURVE_COUNT; kind++) {
        free(r->curves[kind].step);
        free(r->curves[kind].value);
    }
    free(r->entropy);
    free(r->score_std);
    *r = (RunResults){.train_loss_mean = NAN,
                      .grad_norm_median = NAN,
                      .grad_norm_max = NAN,
                      .best_val_loss = NAN,
                      .best_step = NAN,
                      .val_accuracy = NAN,
                      .steps = NAN,
                      .seconds = NAN,
                      .threads = NAN};
}

/* --- over seeds */

/* NaN for a run that did not finish: where it stopped is no result. */
static double measure_of(const SweepRun *run, Measure which) {
    const RunResults *r = &run->results;
    if (run->state != RUN_FINISHED) return NAN;
    switch (which) {
    case MEASURE_VAL_LOSS: return curve_last(&r->curves[CURVE_VAL_LOSS]);
    case MEASURE_BEST_VAL_LOSS: return r->best_val_loss;
    case MEASURE_ENTROPY_FIRST: return curve_first(&r->curves[CURVE_ENTROPY]);
    case MEASURE_ENTROPY_LAST: return curve_last(&r->curves[CURVE_ENTROPY]);
    case MEASURE_SCORE_STD_FIRST: return curve_first(&r->curves[CURVE_SCORE_STD]);
    case MEASURE_SCORE_STD_LAST: return curve_last(&r->curves[CURVE_SCORE_STD]);
    case MEASURE_GRAD_NORM: return r->grad_norm_median;
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

Band sweep_band(const double *values, size_t count, bool range) {
    const Interval mean = interval_of_mean(values, count);
    Band band = {mean.mean, mean.mean - mean.half, mean.mean + mean.half};
    if (range) band.low = INFINITY, band.high = -INFINITY;
    for (size_t i = 0; range && i < count; i++) {
        band.low = fmin(band.low, values[i]);
        band.high = fmax(band.high, values[i]);
    }
    return band;
}

size_t sweep_setting_losses(const Sweep *s, size_t setting, double losses[SWEEP_VALUES_MAX]) {
    double values[SWEEP_VALUES_MAX];
    size_t count = 0;
    measure_all(s, &s->settings[setting], MEASURE_VAL_LOSS, values);
    for (size_t i = 0; i < s->settings[setting].count; i++)
        if (isfinite(values[i])) losses[count++] = values[i];
    return count;
}

void seeds_add(Seeds *seeds, size_t runs) {
    if (runs == 0) return;
    if (seeds->most == 0 || runs < seeds->fewest) seeds->fewest = runs;
    if (runs > seeds->most) seeds->most = runs;
    seeds->range = seeds->range || (runs > 1 && runs <= SWEEP_FEW_SEEDS);
}

Seeds sweep_seeds(const Sweep *s) {
    Seeds seeds = {0};
    for (size_t i = 0; i < s->setting_count; i++) seeds_add(&seeds, s->settings[i].finished);
    return seeds;
}

void sweep_describe_band(const char *what, Seeds seeds, char *out, size_t capacity) {
    char count[64];
    snprintf(count, sizeof count, seeds.fewest == seeds.most ? "%zu" : "%zu to %zu", seeds.fewest, seeds.most);
    if (seeds.most < 2)
        snprintf(out, capacity, "%s", seeds.most ? "one run each, so no band" : "no run has come to this");
    else
        snprintf(out, capacity, "%s: mean over %s seeds; band: %s", what, count,
                 seeds.range ? "from the lowest to the highest" : "95 % interval of the mean (Student's t)");
}
