/* The chart is laid out first (ranges, ticks, the plot's sides, the places of the labels) and drawn from that layout:
   axes, curves, labels. */
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
    LABEL_ROW = 20, /* from one label to the next, or less where there are many */
    MARKERS = 12    /* approximate number on a curve of dense points */
};

#define TITLE_SIZE 23.0
#define TEXT_SIZE 15.0
#define MARKER_RADIUS 4.5
#define HUGE_VALUE 1e100 /* differences of smaller values do not overflow; every float is smaller */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, grid = {230, 230, 230}, frame = {120, 120, 120};

/* A range of values, and its ticks (first + i) step, i < count, where step is 1, 2 or 5 times a power of ten. */
typedef struct {
    double low, high, step, first;
    int count;
} Axis;

/* A label, at the height `y` of its curve's end. */
typedef struct {
    const Series *series;
    double x, y; /* the end of the curve */
    double place;
} Label;

typedef struct {
    Axis x, y;
    int left, right; /* sides of the plot; `right` is the first pixel outside */
    bool empty;      /* no point is finite */
    Label *labels;   /* (label_count), from the highest down */
    size_t label_count;
    double size; /* of the labels */
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

static bool is_shown(const Series *series, size_t i) { /* false for NaN */
    return fabs(series->x[i]) < HUGE_VALUE && fabs(series->y[i]) < HUGE_VALUE;
}

/* Orders labels from the highest down, and at one height as their series are. */
static int compare_labels(const void *a, const void *b) {
    const Label *first = a, *second = b;
    if (first->y != second->y) return first->y < second->y ? -1 : 1;
    return (first->series > second->series) - (first->series < second->series);
}

/* Places each label beside the end of its curve, or else as near as the others let it, within the plot's height. */
static void place_labels(Layout *layout) {
    const double row = fmin(LABEL_ROW, (BOTTOM - TOP) / fmax(1, (double)layout->label_count - 1));
    double place = TOP - row;
    qsort(layout->labels, layout->label_count, sizeof *layout->labels, compare_labels);
    layout->size = fmin(TEXT_SIZE, .75 * row);
    for (size_t i = 0; i < layout->label_count; i++) {
        place = fmax(layout->labels[i].y, place + row);
        layout->labels[i].place = place;
    }
    place = BOTTOM + row;
    for (size_t i = layout->label_count; i-- > 0;) {
        place = fmin(layout->labels[i].place, place - row);
        layout->labels[i].place = place;
    }
}

/* Lists the labels of the curves that have points. */
static void lay_out_labels(Layout *layout, const Chart *chart) {
    layout->labels = memory_make(chart->count, sizeof *layout->labels, "the labels of a chart");
    for (const Series *s = chart->series; s < chart->series + chart->count; s++) {
        size_t last = s->points;
        while (last > 0 && !is_shown(s, last - 1)) last--;
        if (last == 0 || !s->label) continue;
        layout->labels[layout->label_count++] =
            (Label){s, place_x(layout, s->x[last - 1]), place_y(layout, s->y[last - 1]), 0};
    }
    place_labels(layout);
}

/* Computes the layout. The axes cover all points that are shown. Without any, both run from 0 to 1. */
static Layout layout_of(const Chart *chart) {
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY, widest = 0, widest_label = 0;
    char text[TICK_TEXT];
    for (const Series *s = chart->series; s < chart->series + chart->count; s++) {
        if (s->label) widest_label = fmax(widest_label, canvas_text_width(TEXT_SIZE, s->label));
        for (size_t i = 0; i < s->points; i++) {
            if (!is_shown(s, i)) continue;
            left = fmin(left, s->x[i]);
            right = fmax(right, s->x[i]);
            low = fmin(low, s->y[i]);
            high = fmax(high, s->y[i]);
        }
    }
    Layout layout = {.empty = left > right};
    layout.x = layout.empty ? axis_make(0, 1, .03, 1) : axis_make(left, right, .03, 1);
    layout.y = layout.empty   ? axis_make(0, 1, .05, 0)
               : chart->whole ? axis_make(floor(low), fmax(ceil(high), floor(low) + 1), 0, 0)
                              : axis_make(low, high, .05, 0);
    for (int i = 0; i < layout.y.count; i++) {
        tick(&layout.y, i, text);
        widest = fmax(widest, canvas_text_width(TEXT_SIZE, text));
    }
    layout.left = MARGIN + 22 + (int)ceil(widest) + TICK_LENGTH + 4;
    layout.right = CHART_WIDTH - MARGIN - GAP - SAMPLE - PAD - (int)ceil(widest_label);
    lay_out_labels(&layout, chart);
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

/* Draws the label of a curve right of the plot, behind a short line of the curve and a thin one from the curve's
   end. */
static void draw_label(Canvas *canvas, const Layout *layout, const Label *label) {
    const Series *s = label->series;
    const double left = layout->right + GAP, y = label->place;
    const CurvePoint lead[2] = {{label->x, label->y}, {left, y}}, sample[2] = {{left, y}, {left + SAMPLE, y}};
    canvas_curve(canvas, lead, 2, fmin(1, s->thickness), 0, s->color);
    if (s->thickness > 0) canvas_curve(canvas, sample, 2, s->thickness, s->dash, s->color);
    if (s->markers) canvas_marker(canvas, left + SAMPLE / 2.0, y, MARKER_RADIUS, s->color);
    canvas_text(canvas, left + SAMPLE + PAD, y + layout->size / 3, layout->size, ALIGN_LEFT, ink, s->label);
}

/* Draws a series. A single point has no line, so it always has a marker. */
static void draw_series(Canvas *canvas, const Layout *layout, const Series *series) {
    const size_t mark = memory_mark();
    CurvePoint *points = memory_make(series->points, sizeof *points, "the points of a curve"); /* in units */
    size_t shown = 0;
    for (size_t i = 0; i < series->points; i++)
        if (is_shown(series, i))
            points[shown++] = (CurvePoint){place_x(layout, series->x[i]), place_y(layout, series->y[i])};
    const size_t every = shown > 3 * (size_t)MARKERS ? shown / MARKERS : 1;
    if (series->thickness > 0) canvas_curve(canvas, points, shown, series->thickness, series->dash, series->color);
    for (size_t i = 0; i < shown && (series->markers || shown == 1); i += every)
        canvas_marker(canvas, points[i].x, points[i].y, MARKER_RADIUS, series->color);
    memory_release(mark);
}

void chart_save(const Chart *chart, const Directory *directory, const char *name) {
    const size_t mark = memory_mark();
    const Layout layout = layout_of(chart);
    Canvas canvas = canvas_make(CHART_WIDTH, CHART_HEIGHT, chart->print ? 2 : 1);
    draw_axes(&canvas, chart, &layout);
    if (layout.empty)
        canvas_text(&canvas, (layout.left + layout.right) / 2.0, (TOP + BOTTOM) / 2.0, 18, ALIGN_CENTER, faint,
                    "no finite point to draw");
    for (size_t i = 0; i < chart->count; i++) draw_series(&canvas, &layout, &chart->series[i]);
    for (size_t i = 0; i < layout.label_count; i++) draw_label(&canvas, &layout, &layout.labels[i]);
    canvas_save(&canvas, directory, name);
    memory_release(mark);
}
