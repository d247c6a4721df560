/* Line charts: curves over steps, with bands around them, axes, ticks, labels, a legend and a title. */
#pragma once

#include <stddef.h>

#include "show/canvas.h"

typedef struct {
    const char *label;   /* UTF-8, for the legend; NULL keeps the series out of it */
    const double *x, *y; /* (count); points that are not finite, or beyond 1e100, are left out and bridged */
    size_t count;
    Color color;
    double thickness; /* pixels */
    bool dashed, markers;
    const double *low, *high; /* (count): a band around the curve, in its colour; NULL: none */
} Series;

typedef struct {
    const char *title, *subtitle; /* UTF-8; subtitle may be NULL */
    const char *x_label, *y_label;
    const Series *series;
    size_t count;
    /* Above 1: x, or y, are logarithms to this base; ticks are whole powers, labelled by what they stand for, and over
       a few decades also twice and five times the powers of ten. */
    double x_base, y_base;
} Chart;

/* A palette that people with colour-blindness can tell apart (Okabe and Ito 2008), repeating. */
Color chart_color(size_t index);

/* 1000 x 620 pixels. Works with no finite point at all (axes 0..1 and a line that says so) and with one. */
bool chart_draw(const Chart *chart, Canvas *canvas, Error *err); /* makes the canvas; the caller frees it */
bool chart_save(const Chart *chart, const char *path, Error *err);
