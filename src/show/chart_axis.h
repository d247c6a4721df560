/* An axis of a chart: its range, its ticks, and where a value stands. Ticks are at 1, 2 or 5 times a power of ten,
   evenly spaced; on a logarithmic axis, whose values are logarithms, at whole powers of the base. Nothing but chart.c
   and its test includes this. */
#pragma once

enum { TICK_TEXT = 40, TICKS_MAX = 100 };

typedef struct {
    double low, high;
    double step; /* between ticks, but for those at 2 and 5 times the powers of 10 */
    double base; /* above 1: values stand for base^value */
    double ticks[TICKS_MAX];
    int count;
} Axis;

/* The range of the values low to high with `margin` of its width around it, about `ticks` ticks; `least` is the
   smallest step between them (1 for whole numbers). A range without width, or one lost in rounding, is widened so that
   the value stands in the middle. */
Axis axis_make(double low, double high, double margin, double least, int ticks);
/* The same for logarithms to this base: with several powers of it in the range, or several of 1, 2, 5, 10, ..., or else
   from one power to another. */
Axis axis_make_logarithmic(double low, double high, double margin, double base, int ticks);

/* What a tick stands for. */
void axis_tick_text(const Axis *axis, int index, char out[TICK_TEXT]);

/* 0 at the low end, 1 at the high one. */
double axis_place(const Axis *axis, double value);
