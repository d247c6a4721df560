/* A line chart: curves over steps, axes, ticks, a title, and labels right of the plot. */
#pragma once

#include "show/palette.h"

typedef struct {
    const char *label; /* UTF-8 */
    const double *y;   /* (points); the curve has no points that are not finite, or beyond 1e100 */
    Color color;
    double thickness; /* width of the curve in pixels; 0: markers only */
    bool markers;     /* on every point, or on some where points are dense */
} Series;

/* A thin line at a height to compare curves with, labelled at its right end. It is not drawn if it lies beyond the
   range of the curves. */
typedef struct {
    const char *label; /* UTF-8 */
    double y;
} Level;

enum { CHART_SERIES_MAX = 3, CHART_LEVELS_MAX = 4, CHART_WIDTH = 1000, CHART_HEIGHT = 620 };
typedef struct {
    const char *title, *subtitle, *y_label; /* UTF-8 */
    const double *x;                        /* (points): the steps of all series */
    size_t points;
    const Series *series; /* (count), at most CHART_SERIES_MAX */
    size_t count;
    const Level *levels; /* (level_count), at most CHART_LEVELS_MAX */
    size_t level_count;
} Chart;

/* Saves the chart as a PNG of CHART_WIDTH x CHART_HEIGHT. A single finite point is enough. Without any the chart says
   that there is nothing to draw. */
void chart_save(const Chart *chart, const Directory *directory, const char *name);
