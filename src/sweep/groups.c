/* Groups of arms that differ in the seed alone: their means, and how each differs from the one that divides by √d_k. */
#include <math.h>
#include <string.h>

#include "sweep/parts.h"

typedef enum { VAL_LOSS, BEST, ENTROPY_FIRST, ENTROPY_LAST, STD_FIRST, STD_LAST, GRAD_NORM, MEASURES } Measure;

/* NaN for an arm that did not finish: where it stopped is no result. */
static double measure(const ArmRun *run, Measure which) {
    const ArmResults *r = &run->results;
    if (run->state != ARM_FINISHED) return NAN;
    switch (which) {
    case VAL_LOSS: return curve_last(&r->curves[CURVE_VAL_LOSS]);
    case BEST: return r->best_val_loss;
    case ENTROPY_FIRST: return curve_first(&r->curves[CURVE_ENTROPY]);
    case ENTROPY_LAST: return curve_last(&r->curves[CURVE_ENTROPY]);
    case STD_FIRST: return curve_first(&r->curves[CURVE_SCORE_STD]);
    case STD_LAST: return curve_last(&r->curves[CURVE_SCORE_STD]);
    case GRAD_NORM: return r->grad_norm_median;
    case MEASURES: break;
    }
    return NAN;
}

GroupSummary sweep_group(const Sweep *s, size_t g) {
    const Group *group = &s->arms.groups[g];
    GroupSummary summary = {0};
    double values[MEASURES][SWEEP_VALUES_MAX], reference[SWEEP_VALUES_MAX];
    for (size_t i = 0; i < group->count; i++) {
        const ArmRun *run = sweep_run_of(s, group->arm[i]);
        summary.finished += run->state == ARM_FINISHED;
        summary.diverged += run->state == ARM_DIVERGED;
        for (Measure which = 0; which < MEASURES; which++) values[which][i] = measure(run, which);
    }
    Interval *const means[MEASURES] = {&summary.val_loss,     &summary.best_val_loss,   &summary.entropy_first,
                                       &summary.entropy_last, &summary.score_std_first, &summary.score_std_last,
                                       &summary.grad_norm};
    for (Measure which = 0; which < MEASURES; which++) *means[which] = interval_of_mean(values[which], group->count);
    if (group->reference == NO_GROUP || group->reference == g || group->reference == group->same_as) return summary;
    for (size_t i = 0; i < group->count; i++)
        reference[i] = measure(sweep_run_of(s, s->arms.groups[group->reference].arm[i]), VAL_LOSS);
    summary.difference = interval_of_difference(values[VAL_LOSS], reference, group->count);
    return summary;
}

bool sweep_is_compared(const Sweep *s) {
    for (size_t g = 0; g < s->arms.group_count; g++)
        if (s->arms.groups[g].reference != NO_GROUP && s->arms.groups[g].reference != g) return true;
    return false;
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

size_t sweep_group_losses(const Sweep *s, size_t g, double losses[SWEEP_VALUES_MAX]) {
    const Group *group = &s->arms.groups[g];
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++) {
        double loss = measure(sweep_run_of(s, group->arm[i]), VAL_LOSS);
        if (isfinite(loss)) losses[count++] = loss;
    }
    return count;
}

const char *sweep_interval_text(Interval interval, const char *format, char out[64]) {
    char text[32];
    snprintf(out, 64, "-");
    if (interval.count == 0) return out;
    snprintf(out, 64, format, interval.mean);
    if (interval.count == 1) return out;
    snprintf(text, sizeof text, *format == '%' && format[1] == '+' ? "%.4f" : format, interval.half);
    snprintf(out + strlen(out), 64 - strlen(out), " ± %s", text);
    return out;
}

void sweep_describe_band(const char *what, Seeds seeds, char *out, size_t capacity) {
    char count[64];
    snprintf(count, sizeof count, seeds.fewest == seeds.most ? "%zu" : "%zu to %zu", seeds.fewest, seeds.most);
    if (seeds.most < 2)
        snprintf(out, capacity, "one run each, so no band");
    else
        snprintf(out, capacity, "%s: mean over %s seeds; band: %s", what, count,
                 seeds.range ? "from the lowest to the highest" : "95 % interval of the mean (Student's t)");
}
