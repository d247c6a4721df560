/* Statistics of a setting over its seeds: means with their intervals, and the difference to the setting that divides by
   √d_k. */
#include <math.h>
#include <string.h>

#include "sweep/parts.h"

/* NaN for a run that did not finish: where it stopped is no result. */
static double measure(const SweepRun *run, Measure which) {
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
    for (size_t i = 0; i < setting->count; i++) values[i] = measure(&s->runs[setting->run[i]], which);
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

void sweep_describe_band(const char *what, size_t fewest, size_t most, bool range, char *out, size_t capacity) {
    char seeds[64];
    snprintf(seeds, sizeof seeds, fewest == most ? "%zu" : "%zu to %zu", fewest, most);
    if (most < 2)
        snprintf(out, capacity, "one run each, so no band");
    else
        snprintf(out, capacity, "%s: mean over %s seeds; band: %s", what, seeds,
                 range ? "from the lowest to the highest" : "95 % interval of the mean (Student's t)");
}
