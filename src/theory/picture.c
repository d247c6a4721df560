#include "theory/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/chart.h"

enum { PANELS = 3, SERIES_MAX = 2 * THEORY_DIVISORS };
typedef enum { ENTROPY, LARGEST, GRADIENT } Panel;

static const char *divisor_label(ScaleMode mode) {
    switch (mode) {
    case SCALE_NONE: return "÷ 1 (none)";
    case SCALE_SQRT_DK: return "÷ √d_k";
    case SCALE_DK: return "÷ d_k";
    case SCALE_2SQRT_DK: return "÷ 2√d_k";
    case SCALE_NUMBER: break;
    }
    return "a number";
}

static double value_of(const TheoryPoint *p, Panel panel, bool second) {
    const TheoryFigures *m = &p->measured;
    switch (panel) {
    case ENTROPY: return m->entropy.value;
    case LARGEST: return m->max_weight.value;
    case GRADIENT: return log10(second ? m->grad_median.value : m->grad_mean.value);
    }
    return NAN;
}

/* Which points, by d_k, whatever the order they were asked for in. */
static void sort_by_size(const TheoryPoint *points, size_t count, size_t *order) {
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && points[order[at - 1] * THEORY_DIVISORS].d_k > points[i * THEORY_DIVISORS].d_k; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* x (count), y (SERIES_MAX, count) are room for the coordinates. */
static bool draw_panel(const TheoryPoint *points, size_t count, size_t keys, Panel panel, const size_t *order,
                       double *x, double *y, Canvas *canvas, Error *err) {
    static const char *const titles[PANELS] = {"Entropy of a row of attention before training",
                                               "Largest weight of a row",
                                               "Length of the gradient of the query, |dL/dq|"};
    static const char *const y_labels[PANELS] = {"entropy (nats)", "mean of the largest weight",
                                                 "|dL/dq| (logarithmic)"};
    char subtitle[160];
    Series series[SERIES_MAX];
    size_t curves = panel == GRADIENT ? SERIES_MAX : THEORY_DIVISORS;
    for (size_t i = 0; i < count; i++) x[i] = log2((double)points[order[i] * THEORY_DIVISORS].d_k);
    for (size_t k = 0; k < curves; k++) {
        size_t divisor = k % THEORY_DIVISORS;
        bool second = k >= THEORY_DIVISORS;
        for (size_t i = 0; i < count; i++)
            y[k * count + i] = value_of(&points[order[i] * THEORY_DIVISORS + divisor], panel, second);
        series[k] = (Series){.label = second ? NULL : divisor_label(points[divisor].divisor.mode),
                             .x = x,
                             .y = y + k * count,
                             .count = count,
                             .color = chart_color(divisor),
                             .thickness = second ? 1.5 : 2.5,
                             .dashed = second,
                             .markers = !second};
    }
    if (panel == ENTROPY)
        snprintf(subtitle, sizeof subtitle,
                 "%zu key%s; q and k of independent N(0, 1) entries; uniform weights have %.2f", keys,
                 keys == 1 ? "" : "s", log((double)keys));
    else if (panel == LARGEST)
        snprintf(subtitle, sizeof subtitle, "mean over rows; uniform weights have %.3g", 1 / (double)keys);
    else
        snprintf(subtitle, sizeof subtitle, "L = <r, weights>, r ~ N(0, I); solid: mean, dashed: median");
    const Chart chart = {.title = titles[panel],
                         .subtitle = subtitle,
                         .x_label = "d_k (logarithmic)",
                         .y_label = y_labels[panel],
                         .x_base = 2,
                         .y_base = panel == GRADIENT ? 10 : 0,
                         .series = series,
                         .count = curves};
    return chart_draw(&chart, canvas, err);
}

/* The charts are drawn by themselves and put below each other. */
static bool draw_all(const TheoryPoint *points, size_t count, size_t keys, const size_t *order, double *room,
                     Canvas *all, Error *err) {
    for (int panel = 0; panel < PANELS; panel++) {
        Canvas one;
        if (!draw_panel(points, count, keys, (Panel)panel, order, room, room + count, &one, err)) return false;
        bool ok = all->rgb || canvas_make(all, one.width, PANELS * one.height, err);
        size_t size = (size_t)one.width * (size_t)one.height * 3;
        if (ok) memcpy(all->rgb + (size_t)panel * size, one.rgb, size);
        all->failed = all->failed || one.failed;
        canvas_free(&one);
        if (!ok) return false;
    }
    return true;
}

bool theory_picture_save(const TheoryPoint *points, size_t count, size_t keys, const char *path, Error *err) {
    Canvas all = {0};
    double *room = malloc((1 + SERIES_MAX) * count * sizeof *room);
    size_t *order = malloc(count * sizeof *order);
    bool ok = room && order;
    if (ok) {
        sort_by_size(points, count, order);
        ok = draw_all(points, count, keys, order, room, &all, err) && canvas_save(&all, path, err);
    } else {
        error_set(err, STATUS_FAILED, "no memory for a picture");
    }
    canvas_free(&all);
    free(room);
    free(order);
    return ok;
}
