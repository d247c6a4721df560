/* The chart is laid out first (ranges, ticks, where the legend harms nothing) and drawn from that layout: axes, bands,
   curves, legend. */
#include "show/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "show/chart_axis.h"

enum { WIDTH = 1000, HEIGHT = 620, MARGIN = 24, TICK_LENGTH = 5, LEGEND_LINE = 30, LEGEND_PAD = 10, LABEL_LIMIT = 280 };

#define TITLE_SIZE 23.0
#define TEXT_SIZE 15.0
#define BAND_COVER .2
#define HUGE_VALUE 1e100 /* differences of such values still do not overflow; a float never gets there */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, grid = {230, 230, 230}, frame = {120, 120, 120};

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

/* Of the band at a point whose curve is shown. */
static bool band_shown(const Series *series, size_t i) {
    return series->low && series->high && fabs(series->low[i]) < HUGE_VALUE && fabs(series->high[i]) < HUGE_VALUE;
}

/* Goes over all shown points; without any, both axes run from 0 to 1. */
static void find_ranges(const Chart *chart, Layout *layout) {
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
    bool whole = true;
    for (size_t k = 0; k < chart->count; k++)
        for (size_t i = 0; i < chart->series[k].count; i++) {
            const Series *s = &chart->series[k];
            if (!point_shown(s, i)) continue;
            bool band = band_shown(s, i);
            left = fmin(left, s->x[i]);
            right = fmax(right, s->x[i]);
            low = fmin(low, band ? fmin(s->low[i], s->y[i]) : s->y[i]);
            high = fmax(high, band ? fmax(s->high[i], s->y[i]) : s->y[i]);
            whole = whole && s->x[i] == floor(s->x[i]);
            layout->points++;
        }
    if (layout->points) {
        layout->x = chart->x_base > 1 ? axis_make_logarithmic(left, right, .01, chart->x_base, 9)
                                      : axis_make(left, right, .01, whole ? 1 : 0, 9);
        layout->y = chart->y_base > 1 ? axis_make_logarithmic(low, high, .05, chart->y_base, 7)
                                      : axis_make(low, high, .05, 0, 7);
    } else {
        layout->x = layout->y = (Axis){.high = 1, .step = .2};
    }
}

static double widest_tick(const Axis *axis) {
    char label[TICK_TEXT];
    double widest = 0;
    for (int i = 0; i < axis_tick_count(axis); i++) {
        axis_tick_text(axis, i, label);
        widest = fmax(widest, canvas_text_width(TEXT_SIZE, label));
    }
    return widest;
}

/* Fewer ticks on x until their labels stand apart; known only when the plot has its width. */
static void thin_out_x(Layout *layout) {
    double width = layout->plot.right - layout->plot.left;
    for (int ticks = 8; ticks > 1 && axis_tick_count(&layout->x) * (widest_tick(&layout->x) + 14) > width; ticks--)
        axis_thin_out(&layout->x, ticks);
}

static double place_x(const Layout *layout, double value) {
    const Box *plot = &layout->plot;
    return plot->left + axis_place(&layout->x, value) * (plot->right - plot->left);
}

static double place_y(const Layout *layout, double value) {
    const Box *plot = &layout->plot;
    return plot->bottom - axis_place(&layout->y, value) * (plot->bottom - plot->top);
}

/* A point of a curve with its band, in pixels; top <= y <= bottom. */
typedef struct {
    double x, y, top, bottom;
} Mark;

static Mark mark_at(const Layout *layout, const Series *series, size_t i) {
    double x = place_x(layout, series->x[i]), y = place_y(layout, series->y[i]);
    if (!band_shown(series, i)) return (Mark){x, y, y, y};
    return (Mark){x, y, fmin(y, place_y(layout, series->high[i])), fmax(y, place_y(layout, series->low[i]))};
}

static double between(double a, double b, double share) { return a + share * (b - a); }

/* How much of the curves and bands, looked at every few pixels, runs through the box. */
static size_t curves_in_box(const Chart *chart, const Layout *layout, Box box) {
    size_t hits = 0;
    for (size_t k = 0; k < chart->count; k++) {
        const Series *series = &chart->series[k];
        Mark last = {.x = NAN};
        for (size_t i = 0; i < series->count; i++) {
            if (!point_shown(series, i)) continue;
            Mark now = mark_at(layout, series, i);
            if (isnan(last.x)) last = now;
            int pieces = (int)fmin(500, 1 + hypot(now.x - last.x, now.y - last.y) / 3);
            for (int j = 1; j <= pieces; j++) {
                double share = (double)j / pieces, x = between(last.x, now.x, share);
                hits += x > box.left - 4 && x < box.right + 4 &&
                        between(last.bottom, now.bottom, share) > box.top - 4 &&
                        between(last.top, now.top, share) < box.bottom + 4;
            }
            last = now;
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
    char label[TICK_TEXT];
    for (int i = 0; i < axis_tick_count(&layout->x); i++) {
        double x = floor(place_x(layout, axis_tick(&layout->x, i)));
        axis_tick_text(&layout->x, i, label);
        canvas_rectangle(canvas, (int)x, plot->top, 1, height, grid);
        canvas_rectangle(canvas, (int)x, plot->bottom, 1, TICK_LENGTH, frame);
        canvas_text(canvas, x + .5, plot->bottom + 21, TEXT_SIZE, ALIGN_CENTER, ink, label);
    }
    for (int i = 0; i < axis_tick_count(&layout->y); i++) {
        double y = floor(place_y(layout, axis_tick(&layout->y, i)));
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

static double dash_length(const Series *series) { return series->dashed ? 3 + 2 * series->thickness : 0; }

static void draw_marker(Canvas *canvas, double x, double y, const Series *series) {
    canvas_line(canvas, x, y, x, y, 5 + series->thickness, series->color);
}

/* Room for the points of the longest series. */
typedef struct {
    double *x, *y, *top, *bottom;
} Points;

/* The shown points in pixels; returns how many. */
static size_t collect_points(const Layout *layout, const Series *series, const Points *p) {
    size_t shown = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!point_shown(series, i)) continue;
        Mark mark = mark_at(layout, series, i);
        p->x[shown] = mark.x;
        p->y[shown] = mark.y;
        p->top[shown] = mark.top;
        p->bottom[shown++] = mark.bottom;
    }
    return shown;
}

/* A point alone has no line, so it gets a marker in any case. */
static void draw_series(Canvas *canvas, const Layout *layout, const Series *series, const Points *p) {
    size_t shown = collect_points(layout, series, p);
    canvas_curve(canvas, p->x, p->y, shown, series->thickness, dash_length(series), series->color);
    for (size_t i = 0; i < shown && (series->markers || shown == 1); i++) draw_marker(canvas, p->x[i], p->y[i], series);
}

/* All bands lie below all curves. */
static bool draw_all_series(Canvas *canvas, const Chart *chart, const Layout *layout, Error *err) {
    size_t most = 1;
    for (size_t k = 0; k < chart->count; k++)
        if (most < chart->series[k].count) most = chart->series[k].count;
    double *room = calloc(most, 4 * sizeof *room);
    if (!room) return error_set(err, STATUS_FAILED, "no memory to draw a curve of %zu points", most);
    const Points p = {room, room + most, room + 2 * most, room + 3 * most};
    for (size_t k = 0; k < chart->count; k++)
        if (chart->series[k].low) {
            size_t shown = collect_points(layout, &chart->series[k], &p);
            canvas_band(canvas, p.x, p.top, p.bottom, shown, BAND_COVER, chart->series[k].color);
        }
    for (size_t k = 0; k < chart->count; k++) draw_series(canvas, layout, &chart->series[k], &p);
    free(room);
    return true;
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
        const double top[2] = {middle - size / 3, middle - size / 3},
                     bottom[2] = {middle + size / 3, middle + size / 3};
        if (series->low) canvas_band(canvas, x, top, bottom, 2, BAND_COVER, series->color);
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
