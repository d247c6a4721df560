#include "show/chart_axis.h"

#include <math.h>
#include <stdio.h>

/* The nearest of 1, 2, 5, 10 by ratio: about `ticks` ticks, neither half nor twice as many. */
static double nice_step(double range, int ticks) {
    double raw = range / ticks, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.42 ? 1 : lead < 3.17 ? 2 : lead < 7.08 ? 5 : 10);
}

Axis axis_make(double low, double high, double margin, double least, int ticks) {
    double size = fmax(fabs(low), fabs(high));
    if (high - low <= fmax(size * 1e-9, 1e-30)) {
        double half = size > 0 ? size * .1 : .5;
        if (least > 0) half = fmax(half, least);
        low -= half;
        high += half;
    } else {
        double pad = (high - low) * margin;
        low -= pad;
        high += pad;
    }
    return (Axis){.low = low, .high = high, .step = fmax(nice_step(high - low, ticks), least)};
}

Axis axis_make_logarithmic(double low, double high, double margin, double base, int ticks) {
    enum { DECADES = 4, ENOUGH = 3 }; /* beyond so many, powers of ten alone will do */
    Axis axis = axis_make(low, high, margin, 1, ticks);
    axis.base = base;
    axis.between = base == 10 && axis.high - axis.low <= DECADES;
    if (axis_tick_count(&axis) >= ENOUGH) return axis;
    axis = axis_make(floor(low), ceil(high), 0, 1, ticks);
    axis.base = base;
    return axis;
}

/* Counts from the power of ten at or below the low end. */
static double tick_between(const Axis *axis, int index) {
    static const double leads[] = {1, 2, 5};
    int decade = index / 3;
    return floor(axis->low) + decade + log10(leads[index % 3]);
}

/* Below the low end there are at most three. */
static int first_between(const Axis *axis) {
    int first = 0;
    while (first < 3 && tick_between(axis, first) < axis->low) first++;
    return first;
}

/* By count, not by adding: a step lost in rounding must not loop for ever. */
int axis_tick_count(const Axis *axis) {
    int count = 0;
    if (!axis->between) return (int)fmin(TICKS_MAX, floor(axis->high / axis->step) - ceil(axis->low / axis->step) + 1);
    while (count < TICKS_MAX && tick_between(axis, first_between(axis) + count) <= axis->high) count++;
    return count;
}

double axis_tick(const Axis *axis, int index) {
    if (axis->between) return tick_between(axis, first_between(axis) + index);
    return (ceil(axis->low / axis->step) + index) * axis->step;
}

void axis_tick_text(const Axis *axis, int index, char out[TICK_TEXT]) {
    double value = axis_tick(axis, index), step = axis->step;
    if (fabs(value) < step / 2 && axis->base <= 1) value = 0; /* never "-0" */
    if (axis->base > 1)
        snprintf(out, TICK_TEXT, "%.4g", pow(axis->base, value));
    else if (fabs(value) >= 1e10 || step < 1e-9)
        snprintf(out, TICK_TEXT, "%.4g", value);
    else
        snprintf(out, TICK_TEXT, "%.*f", step < 1 ? (int)ceil(-log10(step) - 1e-6) : 0, value);
}

double axis_place(const Axis *axis, double value) { return (value - axis->low) / (axis->high - axis->low); }
