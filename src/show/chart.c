/* The chart is laid out first (ranges, ticks, levels, the plot's sides) and drawn from that layout: axes, levels,
   curves, labels. */
#include "show/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

enum {
    MARGIN = 24,
    TOP = 82, /* top of the plot, below the titles */
    BOTTOM = CHART_HEIGHT - 68,
    TICK_LENGTH = 5,
    TICK_TEXT = 40,
    TICKS = 7,   /* approximate number on an axis */
    GAP = 14,    /* from the plot to the labels */
    SAMPLE = 30, /* length of the line in front of a label */
    PAD = 8,
    LABEL_ROW = 20,
    LEVEL_ROW = 17,
    MARKERS = 12 /* approximate number on a curve of dense points */
};

#define TITLE_SIZE 23.0
#define TEXT_SIZE 15.0
#define LEVEL_SIZE 13.0
#define MARKER_RADIUS 4.5
#define HUGE_VALUE 1e100 /* differences of smaller values do not overflow; every float is smaller */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, grid = {230, 230, 230}, frame = {120, 120, 120},
                   level_line = {150, 150, 150};

/* A range of values, and its ticks (first + i) step, i < count, where step is 1, 2 or 5 times a power of ten. */
typedef struct {
    double low, high, step, first;
    int count;
} Axis;

typedef struct {
    Axis x, y;
    int left, right;                /* sides of the plot; `right` is the first pixel outside */
    bool empty;                     /* no point is finite */
    Level levels[CHART_LEVELS_MAX]; /* (level_count): the levels within the range of y, from the highest down */
    size_t level_count;
} Layout;

/* Makes the axis of the values `low` to `high`, with a margin of `margin` of this range on either side. `least` is the
   smallest step between ticks. A range without width, or one lost in rounding, is widened on both sides. */
static Axis axis_make(double low, double high, double margin, double least) {
    double size = fmax(fabs(low), fabs(high)), pad = (high - low) * margin;
    if (high - low <= fmax(size * 1e-9, 1e-30)) pad = fmax(size > 1e-30 ? size * .1 : .5, least);
    Axis axis = {.low = low - pad, .high = high + pad};
    /* The step is the nearest of 1, 2, 5, 10 by ratio. */
    const double raw = (axis.high - axis.low) / TICKS, power = pow(10, floor(log10(raw))), lead = raw / power;
    axis.step = fmax(power * (lead < 1.42 ? 1 : lead < 3.17 ? 2 : lead < 7.08 ? 5 : 10), least);
    axis.first = ceil(axis.low / axis.step);
    while (axis.count < 2 * TICKS && (axis.first + axis.count) * axis.step <= axis.high) axis.count++;
    return axis;
}

/* Returns the tick's value and writes it out. */
static double tick(const Axis *axis, int index, char out[TICK_TEXT]) {
    double value = (axis->first + index) * axis->step;
    if (fabs(value) < axis->step / 2) value = 0; /* never "-0" */
    if (fabs(value) >= 1e7 || axis->step < 1e-9) snprintf(out, TICK_TEXT, "%.4g", value);
    else snprintf(out, TICK_TEXT, "%.*f", axis->step < 1 ? (int)ceil(-log10(axis->step) - 1e-6) : 0, value);
    return value;
}

static double place_x(const Layout *layout, double value) {
    return layout->left + (value - layout->x.low) / (layout->x.high - layout->x.low) * (layout->right - layout->left);
}

static double place_y(const Layout *layout, double value) {
    return BOTTOM - (value - layout->y.low) / (layout->y.high - layout->y.low) * (BOTTOM - TOP);
}

static bool is_shown(const Chart *chart, const Series *series, size_t i) { /* false for NaN */
    return fabs(chart->x[i]) < HUGE_VALUE && fabs(series->y[i]) < HUGE_VALUE;
}

/* Orders levels from the highest down. */
static int compare_levels(const void *a, const void *b) {
    const double first = ((const Level *)a)->y, second = ((const Level *)b)->y;
    return (first < second) - (first > second);
}

/* Adds the levels within the range of y. Returns the width of their widest label. */
static double lay_out_levels(Layout *layout, const Chart *chart) {
    double widest = 0;
    for (size_t i = 0; i < chart->level_count && !layout->empty; i++) {
        const Level level = chart->levels[i];
        if (!(level.y >= layout->y.low && level.y <= layout->y.high)) continue;
        layout->levels[layout->level_count++] = level;
        widest = fmax(widest, canvas_text_width(LEVEL_SIZE, level.label));
    }
    qsort(layout->levels, layout->level_count, sizeof *layout->levels, compare_levels);
    return widest;
}

/* Computes the layout. The axes cover all points that are shown. Without any, both run from 0 to 1. */
static Layout lay_out(const Chart *chart) {
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY, widest = 0, widest_label = 0;
    char text[TICK_TEXT];
    for (size_t k = 0; k < chart->count; k++) {
        const Series *s = &chart->series[k];
        widest_label = fmax(widest_label, canvas_text_width(TEXT_SIZE, s->label));
        for (size_t i = 0; i < chart->points; i++) {
            if (!is_shown(chart, s, i)) continue;
            left = fmin(left, chart->x[i]);
            right = fmax(right, chart->x[i]);
            low = fmin(low, s->y[i]);
            high = fmax(high, s->y[i]);
        }
    }
    Layout layout = {.empty = left > right};
    layout.x = layout.empty ? axis_make(0, 1, .03, 1) : axis_make(left, right, .03, 1);
    layout.y = layout.empty ? axis_make(0, 1, .05, 0) : axis_make(low, high, .05, 0);
    for (int i = 0; i < layout.y.count; i++) {
        tick(&layout.y, i, text);
        widest = fmax(widest, canvas_text_width(TEXT_SIZE, text));
    }
    layout.left = MARGIN + 22 + (int)ceil(widest) + TICK_LENGTH + 4;
    const double labels = fmax(SAMPLE + PAD + widest_label, lay_out_levels(&layout, chart));
    layout.right = CHART_WIDTH - MARGIN - GAP - (int)ceil(labels);
    return layout;
}

static void draw_axes(Canvas *canvas, const Chart *chart, const Layout *layout) {
    const int left = layout->left, width = layout->right - left, height = BOTTOM - TOP;
    const double wide = CHART_WIDTH - left - MARGIN;
    char label[TICK_TEXT];
    canvas_text_within(canvas, left, 38, TITLE_SIZE, wide, ink, chart->title);
    canvas_text_within(canvas, left, 61, TEXT_SIZE, wide, faint, chart->subtitle);
    for (int i = 0; i < layout->x.count; i++) {
        const double x = floor(place_x(layout, tick(&layout->x, i, label)));
        canvas_rectangle(canvas, (int)x, TOP, 1, height, grid);
        canvas_rectangle(canvas, (int)x, BOTTOM, 1, TICK_LENGTH, frame);
        canvas_text(canvas, x + .5, BOTTOM + 21, TEXT_SIZE, ALIGN_CENTER, ink, label);
    }
    for (int i = 0; i < layout->y.count; i++) {
        const double y = floor(place_y(layout, tick(&layout->y, i, label)));
        canvas_rectangle(canvas, left, (int)y, width, 1, grid);
        canvas_rectangle(canvas, left - TICK_LENGTH, (int)y, TICK_LENGTH, 1, frame);
        canvas_text(canvas, left - TICK_LENGTH - 4, y + 5, TEXT_SIZE, ALIGN_RIGHT, ink, label);
    }
    canvas_rectangle(canvas, left, BOTTOM, width, 1, frame);
    canvas_rectangle(canvas, left, TOP, 1, height + 1, frame);
    canvas_text(canvas, left + width / 2.0, BOTTOM + 46, TEXT_SIZE + 1, ALIGN_CENTER, ink, "step");
    canvas_text_upwards(canvas, MARGIN + 6, (TOP + BOTTOM) / 2.0, TEXT_SIZE + 1, ALIGN_CENTER, ink, chart->y_label);
}

/* Draws the label of a series in row `index` right of the plot, behind a short line of its curve. */
static void draw_label(Canvas *canvas, const Layout *layout, const Series *series, size_t index) {
    const double left = layout->right + GAP, y = TOP + MARKER_RADIUS + (double)index * LABEL_ROW;
    const CurvePoint sample[2] = {{left, y}, {left + SAMPLE, y}};
    const Color color = series->color;
    if (series->thickness > 0) canvas_curve(canvas, sample, 2, series->thickness, color);
    if (series->markers) canvas_marker(canvas, left + SAMPLE / 2.0, y, MARKER_RADIUS, color);
    canvas_text(canvas, left + SAMPLE + PAD, y + TEXT_SIZE / 3, TEXT_SIZE, ALIGN_LEFT, ink, series->label);
}

/* Draws the lines of the levels. Each label stands at the end of its line, or lower if it would cover another label. */
static void draw_levels(Canvas *canvas, const Chart *chart, const Layout *layout) {
    const double right = layout->right, height = LEVEL_SIZE / 3;
    double lowest = TOP + (double)chart->count * LABEL_ROW; /* of the labels so far */
    for (size_t i = 0; i < layout->level_count; i++) {
        const double y = floor(place_y(layout, layout->levels[i].y)) + .5;
        lowest = fmax(y, lowest + (i ? LEVEL_ROW : 0));
        const CurvePoint line[3] = {{layout->left, y}, {right, y}, {right + GAP - 4, lowest}};
        canvas_curve(canvas, line, 3, 1, level_line);
        canvas_text(canvas, right + GAP, lowest + height, LEVEL_SIZE, ALIGN_LEFT, ink, layout->levels[i].label);
    }
}

/* Draws a series. A single point has no line, so it always has a marker. */
static void draw_series(Canvas *canvas, const Chart *chart, const Layout *layout, const Series *series) {
    const size_t mark = memory_mark();
    CurvePoint *points = memory_make(chart->points, sizeof *points, "the points of a curve"); /* in pixels */
    size_t shown = 0;
    for (size_t i = 0; i < chart->points; i++)
        if (is_shown(chart, series, i))
            points[shown++] = (CurvePoint){place_x(layout, chart->x[i]), place_y(layout, series->y[i])};
    const size_t every = shown > 3 * (size_t)MARKERS ? shown / MARKERS : 1;
    if (series->thickness > 0) canvas_curve(canvas, points, shown, series->thickness, series->color);
    for (size_t i = 0; i < shown && (series->markers || shown == 1); i += every)
        canvas_marker(canvas, points[i].x, points[i].y, MARKER_RADIUS, series->color);
    memory_release(mark);
}

void chart_save(const Chart *chart, const Directory *directory, const char *name) {
    const size_t mark = memory_mark();
    const Layout layout = lay_out(chart);
    Canvas canvas = canvas_make(CHART_WIDTH, CHART_HEIGHT);
    draw_axes(&canvas, chart, &layout);
    draw_levels(&canvas, chart, &layout);
    if (layout.empty)
        canvas_text(&canvas, (layout.left + layout.right) / 2.0, (TOP + BOTTOM) / 2.0, 18, ALIGN_CENTER, faint,
                    "no finite point to draw");
    for (size_t k = 0; k < chart->count; k++) {
        draw_series(&canvas, chart, &layout, &chart->series[k]);
        draw_label(&canvas, &layout, &chart->series[k], k);
    }
    canvas_save(&canvas, directory, name);
    memory_release(mark);
}
