#include "show/chart_axis.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* The nearest of 1, 2, 5, 10 by ratio: about `ticks` ticks, neither half nor twice as many. */
static double nice_step(double range, int ticks) {
    double raw = range / ticks, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.42 ? 1 : lead < 3.17 ? 2 : lead < 7.08 ? 5 : 10);
}

static void add_tick(Axis *axis, double value) {
    if (value >= axis->low && value <= axis->high && axis->count < TICKS_MAX) axis->ticks[axis->count++] = value;
}

/* By number, not by adding: a step lost in rounding must not loop for ever. */
static void add_multiples(Axis *axis) {
    const double first = ceil(axis->low / axis->step);
    for (int i = 0; i < TICKS_MAX; i++) add_tick(axis, (first + i) * axis->step);
}

Axis axis_make(double low, double high, double margin, double least, int ticks) {
    double size = fmax(fabs(low), fabs(high)), pad = (high - low) * margin;
    if (high - low <= fmax(size * 1e-9, 1e-30)) pad = fmax(size > 0 ? size * .1 : .5, least);
    Axis axis = {.low = low - pad, .high = high + pad};
    axis.step = fmax(nice_step(axis.high - axis.low, ticks), least);
    add_multiples(&axis);
    return axis;
}

/* One, two and five times the powers of ten. */
static void add_within_decades(Axis *axis) {
    axis->count = 0;
    for (int decade = (int)floor(axis->low); decade <= axis->high; decade++)
        for (int lead = 1; lead <= 5; lead += lead == 1 ? 1 : 3) add_tick(axis, decade + log10(lead));
}

Axis axis_make_logarithmic(double low, double high, double margin, double base, int ticks) {
    enum { DECADES = 4, ENOUGH = 3 }; /* beyond so many, powers of ten alone will do */
    const bool dense = base == 10;
    Axis axis = axis_make(low, high, margin, 1, ticks);
    if (dense && axis.high - axis.low <= DECADES) add_within_decades(&axis);
    if (axis.count < ENOUGH) {
        axis = axis_make(floor(low), ceil(high), 0, 1, ticks);
        if (dense && axis.high - axis.low <= 1) add_within_decades(&axis);
    }
    axis.base = base;
    return axis;
}

void axis_tick_text(const Axis *axis, int index, char out[TICK_TEXT]) {
    double value = axis->ticks[index], step = axis->step;
    if (fabs(value) < step / 2 && axis->base <= 1) value = 0; /* never "-0" */
    if (axis->base > 1)
        snprintf(out, TICK_TEXT, fabs(pow(axis->base, value)) < 1e6 ? "%.6g" : "%.4g", pow(axis->base, value));
    else if (fabs(value) >= 1e10 || step < 1e-9)
        snprintf(out, TICK_TEXT, "%.4g", value);
    else
        snprintf(out, TICK_TEXT, "%.*f", step < 1 ? (int)ceil(-log10(step) - 1e-6) : 0, value);
}

double axis_place(const Axis *axis, double value) { return (value - axis->low) / (axis->high - axis->low); }
