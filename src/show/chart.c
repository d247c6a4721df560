/* The chart is laid out first (ranges, ticks, where the legend harms nothing) and drawn from that layout. Ticks are 1,
   2 or 5 times a power of ten. */
#include "show/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 1000, HEIGHT = 620, MARGIN = 24, TICK_LENGTH = 5, LEGEND_LINE = 30, LEGEND_PAD = 10, LABEL_LIMIT = 280 };

#define TITLE_SIZE 23.0
#define TEXT_SIZE 15.0
#define HUGE_VALUE 1e100 /* differences of such values still do not overflow; a float never gets there */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, grid = {230, 230, 230}, frame = {120, 120, 120};

typedef struct {
    double low, high, step; /* ticks at the multiples of `step` */
    double base;            /* above 1: they stand for base^value */
} Axis;

typedef struct {
    int left, top, right, bottom; /* right and bottom are outside */
} Box;

typedef struct {
    Axis x, y;
    Box plot, legend;
    size_t points;     /* finite ones in all series */
    double legend_row; /* pixels */
} Layout;

Color chart_color(size_t index) {
    /* Okabe and Ito's eight; yellow, weak on white, comes last */
    static const Color palette[] = {{0, 114, 178}, {213, 94, 0},   {0, 158, 115}, {204, 121, 167},
                                    {230, 159, 0}, {86, 180, 233}, {0, 0, 0},     {240, 228, 66}};
    return palette[index % (sizeof palette / sizeof *palette)];
}

static bool point_shown(const Series *series, size_t i) {
    return fabs(series->x[i]) < HUGE_VALUE && fabs(series->y[i]) < HUGE_VALUE; /* false for NaN */
}

/* The nearest of 1, 2, 5, 10 by ratio: about `ticks` ticks, neither half nor twice as many. */
static double nice_step(double range, int ticks) {
    double raw = range / ticks, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.42 ? 1 : lead < 3.17 ? 2 : lead < 7.08 ? 5 : 10);
}

/* `margin` is a share of the range; `least` the smallest step (1 for whole numbers). A range without width, or one lost
   in rounding, is widened so that the value stands in the middle. */
static Axis axis_make(double low, double high, double margin, double least, int ticks) {
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
    return (Axis){low, high, fmax(nice_step(high - low, ticks), least), 0};
}

/* Goes over all shown points; without any, both axes run from 0 to 1. */
static void find_ranges(const Chart *chart, Layout *layout) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    bool whole = true;
    for (size_t k = 0; k < chart->count; k++)
        for (size_t i = 0; i < chart->series[k].count; i++) {
            if (!point_shown(&chart->series[k], i)) continue;
            double value[2] = {chart->series[k].x[i], chart->series[k].y[i]};
            for (int axis = 0; axis < 2; axis++) {
                low[axis] = fmin(low[axis], value[axis]);
                high[axis] = fmax(high[axis], value[axis]);
            }
            whole = whole && value[0] == floor(value[0]);
            layout->points++;
        }
    if (layout->points) {
        bool decades = chart->y_base > 1; /* from one power to another, as there may be none in between */
        layout->x = axis_make(low[0], high[0], .01, whole || chart->x_base > 1 ? 1 : 0, 9);
        layout->y = decades ? axis_make(floor(low[1]), ceil(high[1]), 0, 1, 7) : axis_make(low[1], high[1], .05, 0, 7);
        layout->x.base = chart->x_base;
        layout->y.base = chart->y_base;
    } else {
        layout->x = layout->y = (Axis){0, 1, .2, 0};
    }
}

static void tick_label(char out[40], double value, const Axis *axis) {
    double step = axis->step;
    if (fabs(value) < step / 2) value = 0; /* never "-0" */
    if (axis->base > 1)
        snprintf(out, 40, "%.4g", pow(axis->base, value));
    else if (fabs(value) >= 1e10 || step < 1e-9)
        snprintf(out, 40, "%.4g", value);
    else
        snprintf(out, 40, "%.*f", step < 1 ? (int)ceil(-log10(step) - 1e-6) : 0, value);
}

/* Ticks by count, not by adding: a step lost in rounding must not loop for ever. */
static int tick_count(const Axis *axis) {
    return (int)fmin(100, floor(axis->high / axis->step) - ceil(axis->low / axis->step) + 1);
}

static double tick_value(const Axis *axis, int index) { return (ceil(axis->low / axis->step) + index) * axis->step; }

static double widest_tick(const Axis *axis) {
    char label[40];
    double widest = 0;
    for (int i = 0; i < tick_count(axis); i++) {
        tick_label(label, tick_value(axis, i), axis);
        widest = fmax(widest, canvas_text_width(TEXT_SIZE, label));
    }
    return widest;
}

/* Fewer ticks on x until their labels stand apart; known only when the plot has its width. */
static void thin_out_x(Layout *layout) {
    double range = layout->x.high - layout->x.low, width = layout->plot.right - layout->plot.left;
    for (int ticks = 8; ticks > 1 && tick_count(&layout->x) * (widest_tick(&layout->x) + 14) > width; ticks--)
        layout->x.step = fmax(layout->x.step, nice_step(range, ticks));
}

static double place_x(const Layout *layout, double value) {
    const Box *plot = &layout->plot;
    return plot->left + (value - layout->x.low) / (layout->x.high - layout->x.low) * (plot->right - plot->left);
}

static double place_y(const Layout *layout, double value) {
    const Box *plot = &layout->plot;
    return plot->bottom - (value - layout->y.low) / (layout->y.high - layout->y.low) * (plot->bottom - plot->top);
}

/* How much of the curves, looked at every few pixels, runs through the box. */
static size_t curves_in_box(const Chart *chart, const Layout *layout, Box box) {
    size_t hits = 0;
    for (size_t k = 0; k < chart->count; k++) {
        const Series *series = &chart->series[k];
        double last_x = NAN, last_y = NAN;
        for (size_t i = 0; i < series->count; i++) {
            if (!point_shown(series, i)) continue;
            double x = place_x(layout, series->x[i]), y = place_y(layout, series->y[i]);
            int pieces = isnan(last_x) ? 1 : (int)fmin(500, 1 + hypot(x - last_x, y - last_y) / 3);
            for (int j = 1; j <= pieces; j++) {
                double share = (double)j / pieces;
                double at_x = pieces == 1 ? x : last_x + share * (x - last_x);
                double at_y = pieces == 1 ? y : last_y + share * (y - last_y);
                hits += at_x > box.left - 4 && at_x < box.right + 4 && at_y > box.top - 4 && at_y < box.bottom + 4;
            }
            last_x = x;
            last_y = y;
        }
    }
    return hits;
}

/* In the first corner that no curve enters, else to the right of a plot that makes room. */
static void place_legend(const Chart *chart, Layout *layout) {
    size_t rows = 0;
    double widest = 0;
    for (size_t k = 0; k < chart->count; k++)
        if (chart->series[k].label) {
            rows++;
            widest = fmax(widest, canvas_text_width(TEXT_SIZE, chart->series[k].label));
        }
    if (!rows) return;
    Box *plot = &layout->plot;
    layout->legend_row = fmin(22, (plot->bottom - plot->top - 2 * LEGEND_PAD) / (double)rows);
    int width = (int)ceil(fmin(widest, LABEL_LIMIT)) + LEGEND_LINE + 3 * LEGEND_PAD;
    int height = (int)ceil(layout->legend_row * (double)rows) + LEGEND_PAD;
    int left[2] = {plot->right - width - 10, plot->left + 10}, top[2] = {plot->top + 10, plot->bottom - height - 10};
    for (int corner = 0; corner < 4; corner++) {
        int x = left[corner == 1 || corner == 3], y = top[corner == 1 || corner == 2];
        layout->legend = (Box){x, y, x + width, y + height};
        if (height + 20 <= plot->bottom - plot->top && curves_in_box(chart, layout, layout->legend) == 0) return;
    }
    plot->right = WIDTH - MARGIN - width - 10;
    layout->legend = (Box){WIDTH - MARGIN - width, plot->top, WIDTH - MARGIN, plot->top + height};
}

static void draw_heading(Canvas *canvas, const Chart *chart, const Layout *layout) {
    double room = WIDTH - layout->plot.left - MARGIN;
    if (chart->title)
        canvas_text(canvas, layout->plot.left, 38, canvas_text_fit(TITLE_SIZE, room, chart->title), ALIGN_LEFT, ink,
                    chart->title);
    if (chart->subtitle)
        canvas_text(canvas, layout->plot.left, 61, canvas_text_fit(TEXT_SIZE, room, chart->subtitle), ALIGN_LEFT, faint,
                    chart->subtitle);
}

static void draw_axes(Canvas *canvas, const Chart *chart, const Layout *layout) {
    const Box *plot = &layout->plot;
    int width = plot->right - plot->left, height = plot->bottom - plot->top;
    char label[40];
    for (int i = 0; i < tick_count(&layout->x); i++) {
        double value = tick_value(&layout->x, i), x = floor(place_x(layout, value));
        tick_label(label, value, &layout->x);
        canvas_rectangle(canvas, (int)x, plot->top, 1, height, grid);
        canvas_rectangle(canvas, (int)x, plot->bottom, 1, TICK_LENGTH, frame);
        canvas_text(canvas, x + .5, plot->bottom + 21, TEXT_SIZE, ALIGN_CENTER, ink, label);
    }
    for (int i = 0; i < tick_count(&layout->y); i++) {
        double value = tick_value(&layout->y, i), y = floor(place_y(layout, value));
        tick_label(label, value, &layout->y);
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

static double dash_length(const Series *series) { return series->dashed ? 3 + 2 * series->thickness : 0; }

static void draw_marker(Canvas *canvas, double x, double y, const Series *series) {
    canvas_line(canvas, x, y, x, y, 5 + series->thickness, series->color);
}

/* `x`, `y` have room for the series' points. A point alone has no line, so it gets a marker in any case. */
static void draw_series(Canvas *canvas, const Layout *layout, const Series *series, double *x, double *y) {
    size_t shown = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!point_shown(series, i)) continue;
        x[shown] = place_x(layout, series->x[i]);
        y[shown++] = place_y(layout, series->y[i]);
    }
    canvas_curve(canvas, x, y, shown, series->thickness, dash_length(series), series->color);
    for (size_t i = 0; i < shown && (series->markers || shown == 1); i++) draw_marker(canvas, x[i], y[i], series);
}

static bool draw_all_series(Canvas *canvas, const Chart *chart, const Layout *layout, Error *err) {
    size_t most = 1;
    for (size_t k = 0; k < chart->count; k++)
        if (most < chart->series[k].count) most = chart->series[k].count;
    double *x = calloc(most, sizeof *x), *y = calloc(most, sizeof *y);
    bool ok = x && y;
    if (ok)
        for (size_t k = 0; k < chart->count; k++) draw_series(canvas, layout, &chart->series[k], x, y);
    else
        error_set(err, STATUS_FAILED, "no memory to draw a curve of %zu points", most);
    free(x);
    free(y);
    return ok;
}

static void draw_legend(Canvas *canvas, const Chart *chart, const Layout *layout) {
    const Box *box = &layout->legend;
    if (box->right <= box->left) return;
    canvas_rectangle(canvas, box->left, box->top, box->right - box->left, box->bottom - box->top,
                     (Color){255, 255, 255});
    canvas_frame(canvas, box->left, box->top, box->right - box->left, box->bottom - box->top, grid);
    double size = fmin(TEXT_SIZE, layout->legend_row), middle = box->top + LEGEND_PAD / 2.0 + layout->legend_row / 2;
    for (size_t k = 0; k < chart->count; k++) {
        const Series *series = &chart->series[k];
        if (!series->label) continue;
        double x[2] = {box->left + LEGEND_PAD, box->left + LEGEND_PAD + LEGEND_LINE}, y[2] = {middle, middle};
        canvas_curve(canvas, x, y, 2, series->thickness, dash_length(series), series->color);
        if (series->markers) draw_marker(canvas, (x[0] + x[1]) / 2, middle, series);
        canvas_text(canvas, x[1] + LEGEND_PAD, middle + size / 3, canvas_text_fit(size, LABEL_LIMIT, series->label),
                    ALIGN_LEFT, ink, series->label);
        middle += layout->legend_row;
    }
}

bool chart_draw(const Chart *chart, Canvas *canvas, Error *err) {
    Layout layout = {0};
    find_ranges(chart, &layout);
    int left = MARGIN + 22 + (int)ceil(widest_tick(&layout.y)) + TICK_LENGTH + 4;
    layout.plot = (Box){left, chart->subtitle ? 82 : 62, WIDTH - MARGIN - 10, HEIGHT - 68};
    place_legend(chart, &layout);
    thin_out_x(&layout);
    if (!canvas_make(canvas, WIDTH, HEIGHT, err)) return false;
    draw_heading(canvas, chart, &layout);
    draw_axes(canvas, chart, &layout);
    bool ok = draw_all_series(canvas, chart, &layout, err);
    draw_legend(canvas, chart, &layout);
    if (!layout.points)
        canvas_text(canvas, (layout.plot.left + layout.plot.right) / 2.0, (layout.plot.top + layout.plot.bottom) / 2.0,
                    18, ALIGN_CENTER, faint, "no finite point to draw");
    if (!ok) canvas_free(canvas);
    return ok;
}

bool chart_save(const Chart *chart, const char *path, Error *err) {
    Canvas canvas;
    if (!chart_draw(chart, &canvas, err)) return false;
    bool ok = canvas_save(&canvas, path, err);
    canvas_free(&canvas);
    return ok;
}
