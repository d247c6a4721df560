/* A line chart: curves over steps, axes, ticks, a title, and the curves' labels right of the plot. */
#pragma once

#include "show/palette.h"

typedef struct {
    const char *label; /* UTF-8; NULL: none */
    const double *x;   /* (points): steps */
    const double *y;   /* (points); the curve has no points that are not finite, or beyond 1e100 */
    size_t points;
    Color color;
    double thickness; /* of the curve; 0: markers only */
    double dash;      /* length of the dashes; 0: a whole line */
    bool markers;     /* on every point, or on some where points are dense */
} Series;

enum { CHART_WIDTH = 1000, CHART_HEIGHT = 620 };
typedef struct {
    const char *title, *subtitle, *y_label; /* UTF-8 */
    const Series *series;                   /* (count) */
    size_t count;
    bool whole; /* the y axis runs from a whole number to another, so that charts of like values have the same axis */
    bool print; /* twice the pixels, for print at 200 dpi */
} Chart;

/* Saves the chart as a PNG of CHART_WIDTH x CHART_HEIGHT units. A single finite point is enough. Without any the chart
   says that there is nothing to draw. Labels are ordered by the ends of their curves, and a line leads from each end to
   its label. A curve without points has no label. */
void chart_save(const Chart *chart, const Directory *directory, const char *name);
