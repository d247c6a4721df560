/* The chart is laid out first (ranges, ticks, labels) and drawn from that layout: axes, curves, labels. */
#include "show/chart.h"

#include <math.h>
#include <stdlib.h>

#include "show/chart_axis.h"

enum {
    WIDTH = CHART_WIDTH,
    HEIGHT = CHART_HEIGHT,
    MARGIN = 24,
    TICK_LENGTH = 5,
    LEADER = 22, /* from the plot to the labels: a line from a curve's end to its label */
    SAMPLE = 30, /* of the curve's line, in front of its label */
    PAD = 8,
    LABEL_LIMIT = 300,
    LABEL_ROW = 20,
    TOGETHER = 4, /* pixels: ends in the same few are one to the eye */
    MARKERS = 12, /* on a curve of dense points */
    X_TICKS = 7   /* about so many, fewer where their numbers are long */
};

#define TITLE_SIZE 23.0
#define TEXT_SIZE 15.0
#define MARKER_RADIUS 4.5
#define HUGE_VALUE 1e100 /* differences of such values still do not overflow; a float never gets there */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, grid = {230, 230, 230}, frame = {120, 120, 120};

typedef struct {
    int left, top, right, bottom; /* right and bottom are outside */
} Box;

typedef struct {
    Axis x, y;
    Box plot;
    size_t points; /* finite ones in all series */
} Layout;

/* The position of a value on an axis of this base. */
static double axis_value(double value, double base) { return base > 1 ? log(value) / log(base) : value; }

static bool value_shown(double value, double base) { return fabs(axis_value(value, base)) < HUGE_VALUE; } /* not NaN */

static bool point_shown(const Chart *chart, const Series *series, size_t i) {
    return value_shown(series->x[i], chart->x_base) && value_shown(series->y[i], chart->y_base);
}

/* Goes over all shown points; without any, both axes run from 0 to 1. */
static void find_ranges(const Chart *chart, int x_ticks, Layout *layout) {
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
    bool whole = true;
    layout->points = 0;
    for (size_t k = 0; k < chart->count; k++)
        for (size_t i = 0; i < chart->series[k].count; i++) {
            const Series *s = &chart->series[k];
            if (!point_shown(chart, s, i)) continue;
            const double x = axis_value(s->x[i], chart->x_base), y = axis_value(s->y[i], chart->y_base);
            left = fmin(left, x);
            right = fmax(right, x);
            low = fmin(low, y);
            high = fmax(high, y);
            whole = whole && x == floor(x);
            layout->points++;
        }
    if (layout->points) {
        layout->x = chart->x_base > 1 ? axis_make_logarithmic(left, right, .03, chart->x_base, x_ticks)
                                      : axis_make(left, right, .03, whole ? 1 : 0, x_ticks);
        layout->y = chart->y_base > 1 ? axis_make_logarithmic(low, high, .05, chart->y_base, 7)
                                      : axis_make(low, high, .05, 0, 7);
    } else {
        layout->x = layout->y = axis_make(0, 1, 0, 0, 5);
    }
}

static double widest_tick(const Axis *axis) {
    char label[TICK_TEXT];
    double widest = 0;
    for (int i = 0; i < axis->count; i++) {
        axis_tick_text(axis, i, label);
        widest = fmax(widest, canvas_text_width(TEXT_SIZE, label));
    }
    return widest;
}

/* Whether the numbers below the x axis have a gap between them. */
static bool ticks_fit(const Layout *layout) {
    return layout->x.count * (widest_tick(&layout->x) + 14) < layout->plot.right - layout->plot.left;
}

static double place_x(const Layout *layout, double value) {
    const Box *plot = &layout->plot;
    return plot->left + axis_place(&layout->x, value) * (plot->right - plot->left);
}

static double place_y(const Layout *layout, double value) {
    const Box *plot = &layout->plot;
    return plot->bottom - axis_place(&layout->y, value) * (plot->bottom - plot->top);
}

/* Sets the plot's right side so that the labels have their place beside it. */
static void leave_room_for_labels(const Chart *chart, Layout *layout) {
    double widest = 0;
    for (size_t k = 0; k < chart->count; k++)
        if (chart->series[k].label)
            widest = fmax(widest, fmin(LABEL_LIMIT, canvas_text_width(TEXT_SIZE, chart->series[k].label)));
    layout->plot.right = WIDTH - MARGIN - 10;
    if (widest > 0) layout->plot.right = WIDTH - MARGIN - LEADER - SAMPLE - PAD - (int)ceil(widest);
}

static void draw_heading(Canvas *canvas, const Chart *chart, const Layout *layout) {
    double width = WIDTH - layout->plot.left - MARGIN;
    if (chart->title)
        canvas_text(canvas, layout->plot.left, 38, canvas_text_fit(TITLE_SIZE, width, chart->title), ALIGN_LEFT, ink,
                    chart->title);
    if (chart->subtitle)
        canvas_text(canvas, layout->plot.left, 61, canvas_text_fit(TEXT_SIZE, width, chart->subtitle), ALIGN_LEFT,
                    faint, chart->subtitle);
}

static void draw_axes(Canvas *canvas, const Chart *chart, const Layout *layout) {
    const Box *plot = &layout->plot;
    int width = plot->right - plot->left, height = plot->bottom - plot->top;
    char label[TICK_TEXT];
    for (int i = 0; i < layout->x.count; i++) {
        double x = floor(place_x(layout, layout->x.ticks[i]));
        axis_tick_text(&layout->x, i, label);
        canvas_rectangle(canvas, (int)x, plot->top, 1, height, grid);
        canvas_rectangle(canvas, (int)x, plot->bottom, 1, TICK_LENGTH, frame);
        canvas_text(canvas, x + .5, plot->bottom + 21, TEXT_SIZE, ALIGN_CENTER, ink, label);
    }
    for (int i = 0; i < layout->y.count; i++) {
        double y = floor(place_y(layout, layout->y.ticks[i]));
        axis_tick_text(&layout->y, i, label);
        canvas_rectangle(canvas, plot->left, (int)y, width, 1, grid);
        canvas_rectangle(canvas, plot->left - TICK_LENGTH, (int)y, TICK_LENGTH, 1, frame);
        canvas_text(canvas, plot->left - TICK_LENGTH - 4, y + 5, TEXT_SIZE, ALIGN_RIGHT, ink, label);
    }
    canvas_rectangle(canvas, plot->left, plot->bottom, width, 1, frame);
    canvas_rectangle(canvas, plot->left, plot->top, 1, height + 1, frame);
    if (chart->x_label)
        canvas_text(canvas, (plot->left + plot->right) / 2.0, plot->bottom + 46,
                    canvas_text_fit(TEXT_SIZE + 1, width, chart->x_label), ALIGN_CENTER, ink, chart->x_label);
    if (chart->y_label)
        canvas_text_upwards(canvas, MARGIN + 6, (plot->top + plot->bottom) / 2.0,
                            canvas_text_fit(TEXT_SIZE + 1, height, chart->y_label), ALIGN_CENTER, ink, chart->y_label);
}

typedef struct {
    const Series *series;
    double x, end; /* of the curve's end, in pixels; x NaN: it has none */
    double y;      /* of the label */
} Label;

/* In its place from the top, those that end together in the order of the series; those without an end come last. */
static void add_label(const Layout *layout, const Series *series, const CurvePoint *end, Label *labels, size_t count) {
    const double bottom = layout->plot.bottom, y = end ? end->y : bottom;
    for (; count > 0 && floor(labels[count - 1].y / TOGETHER) > floor(y / TOGETHER); count--)
        labels[count] = labels[count - 1];
    labels[count] = (Label){series, end ? end->x : NAN, y, y};
}

/* Moves labels apart until each has a row: overlapping neighbours by half of it each, over and over, and at last those
   that still overlap, or would stand outside the plot. */
static void spread_labels(const Layout *layout, Label *labels, size_t count, double row) {
    for (int round = 0; round < 300; round++)
        for (size_t i = 1; i < count; i++) {
            const double overlap = fmax(0, row - (labels[i].y - labels[i - 1].y));
            labels[i - 1].y -= overlap / 2;
            labels[i].y += overlap / 2;
        }
    for (size_t i = 0; i < count; i++) labels[i].y = fmax(labels[i].y, i ? labels[i - 1].y + row : layout->plot.top);
    for (size_t i = count; i-- > 0;)
        labels[i].y = fmin(labels[i].y, i + 1 < count ? labels[i + 1].y - row : layout->plot.bottom);
}

/* A curve that ends early has no leader: it could be taken for a part of the curve. */
static void draw_label(Canvas *canvas, const Layout *layout, const Label *label, double size) {
    const Series *series = label->series;
    const Color color = series->style.color,
                pale = {(unsigned char)(128 + color.r / 2), (unsigned char)(128 + color.g / 2),
                        (unsigned char)(128 + color.b / 2)};
    const double right = layout->plot.right, left = right + LEADER;
    const CurvePoint leader[2] = {{label->x + MARKER_RADIUS + 3, label->end}, {left - 3, label->y}},
                     sample[2] = {{left, label->y}, {left + SAMPLE, label->y}};
    if (right - label->x < (right - layout->plot.left) / 12.0) canvas_curve(canvas, leader, 2, 1, 0, pale);
    if (series->thickness > 0) canvas_curve(canvas, sample, 2, series->thickness, series->dash, color);
    if (series->markers)
        canvas_marker(canvas, left + SAMPLE / 2.0, label->y, MARKER_RADIUS, series->style.marker, color);
    canvas_text(canvas, left + SAMPLE + PAD, label->y + size / 3, canvas_text_fit(size, LABEL_LIMIT, series->label),
                ALIGN_LEFT, ink, series->label);
}

static void draw_labels(Canvas *canvas, const Layout *layout, Label *labels, size_t count) {
    const double height = layout->plot.bottom - layout->plot.top, row = fmin(LABEL_ROW, height / (double)(count + 1));
    spread_labels(layout, labels, count, row);
    for (size_t i = 0; i < count; i++) draw_label(canvas, layout, &labels[i], fmin(TEXT_SIZE, row));
}

/* The shown points in pixels; returns how many. */
static size_t collect_points(const Chart *chart, const Layout *layout, const Series *series, CurvePoint *points) {
    size_t shown = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!point_shown(chart, series, i)) continue;
        points[shown++] = (CurvePoint){place_x(layout, axis_value(series->x[i], chart->x_base)),
                                       place_y(layout, axis_value(series->y[i], chart->y_base))};
    }
    return shown;
}

/* A point alone has no line, so it gets a marker in any case. */
static void draw_series(Canvas *canvas, const Series *series, const CurvePoint *points, size_t shown) {
    const size_t every = shown > 3 * (size_t)MARKERS ? shown / MARKERS : 1;
    const Color color = series->style.color;
    if (series->thickness > 0) canvas_curve(canvas, points, shown, series->thickness, series->dash, color);
    for (size_t i = 0; i < shown && (series->markers || shown == 1); i += every)
        canvas_marker(canvas, points[i].x, points[i].y, MARKER_RADIUS, series->style.marker, color);
}

/* The curves, then the labels, from the curves' ends. */
static bool draw_all_series(Canvas *canvas, const Chart *chart, const Layout *layout, Error *err) {
    size_t most = 1, label_count = 0;
    for (size_t k = 0; k < chart->count; k++)
        if (most < chart->series[k].count) most = chart->series[k].count;
    CurvePoint *points = calloc(most, sizeof *points);
    Label *labels = calloc(chart->count + 1, sizeof *labels);
    const bool ok = (points && labels) || error_set(err, STATUS_FAILED, "no memory to draw %zu points", most);
    for (size_t k = 0; ok && k < chart->count; k++) {
        const Series *series = &chart->series[k];
        const size_t shown = collect_points(chart, layout, series, points);
        draw_series(canvas, series, points, shown);
        if (series->label) add_label(layout, series, shown ? &points[shown - 1] : NULL, labels, label_count++);
    }
    if (ok) draw_labels(canvas, layout, labels, label_count);
    free(points);
    free(labels);
    return ok;
}

bool chart_draw(const Chart *chart, Canvas *canvas, Error *err) {
    Layout layout = {0};
    find_ranges(chart, X_TICKS, &layout);
    int left = MARGIN + 22 + (int)ceil(widest_tick(&layout.y)) + TICK_LENGTH + 4;
    layout.plot = (Box){left, chart->subtitle ? 82 : 62, WIDTH, HEIGHT - 68};
    leave_room_for_labels(chart, &layout);
    for (int ticks = X_TICKS - 1; ticks > 1 && !ticks_fit(&layout); ticks--) find_ranges(chart, ticks, &layout);
    draw_heading(canvas, chart, &layout);
    draw_axes(canvas, chart, &layout);
    bool ok = draw_all_series(canvas, chart, &layout, err);
    if (!layout.points)
        canvas_text(canvas, (layout.plot.left + layout.plot.right) / 2.0, (layout.plot.top + layout.plot.bottom) / 2.0,
                    18, ALIGN_CENTER, faint, "no finite point to draw");
    return ok;
}

bool chart_save(const Chart *chart, const char *path, Error *err) {
    Canvas canvas;
    if (!canvas_make(&canvas, WIDTH, HEIGHT, err)) return false;
    bool ok = chart_draw(chart, &canvas, err) && canvas_save(&canvas, path, err);
    canvas_free(&canvas);
    return ok;
}
