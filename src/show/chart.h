/* Line charts: curves over steps, axes, ticks and a title. Every curve that has a label is labelled at its end. */
#pragma once

#include <stddef.h>

#include "show/palette.h"

typedef struct {
    const char *label;   /* UTF-8, right of the plot at the height of the last point; NULL: none */
    const double *x, *y; /* (count); points that are not finite, or beyond 1e100, are left out and bridged */
    size_t count;
    Style style;
    double thickness; /* of the line, in pixels; 0: no line */
    double dash;      /* length of the dashes and of the gaps, in pixels; 0: none */
    bool markers;     /* on every point, or on some where points are dense */
} Series;

typedef struct {
    const char *title, *subtitle; /* UTF-8; subtitle may be NULL */
    const char *x_label, *y_label;
    const Series *series;
    size_t count;
    /* Above 1: x, or y, is shown by its logarithm, and values that have none are left out. Ticks are whole powers of
       this base, and over a few decades also twice and five times the powers of ten. */
    double x_base, y_base;
} Chart;

/* Into a white canvas of that size. Works with no finite point at all (axes 0..1 and a line that says so), with one. */
enum { CHART_WIDTH = 1000, CHART_HEIGHT = 620 };
bool chart_draw(const Chart *chart, Canvas *canvas, Error *err);
bool chart_save(const Chart *chart, const char *path, Error *err);
