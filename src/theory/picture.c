#include "theory/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/chart.h"

enum { PANELS = 3, SERIES_MAX = 2 * THEORY_DIVISORS };
typedef enum { ENTROPY, LARGEST, GRADIENT } Panel;

static double value_of(const TheoryPoint *p, Panel panel, bool second) {
    const TheoryFigures *m = &p->measured;
    switch (panel) {
    case ENTROPY: return m->entropy.value;
    case LARGEST: return m->max_weight.value;
    case GRADIENT: return second ? m->grad_median.value : m->grad_mean.value;
    }
    return NAN;
}

static int compare_sizes(const void *a, const void *b) {
    const size_t x = ((const TheoryPoint *)a)->d_k, y = ((const TheoryPoint *)b)->d_k;
    return (x > y) - (x < y);
}

/* What the panel shows of the largest d_k: without a divisor, and divided by √d_k. */
static void write_title(const TheoryPoint *points, Panel panel, char *out, size_t capacity) {
    static const char *const formats[PANELS] = {
        "Entropy before training, at d_k = %zu: %.3g nats undivided, %.3g divided by √d_k",
        "Largest weight of a row, at d_k = %zu: %.3g undivided, %.3g divided by √d_k",
        "Median gradient of the query, at d_k = %zu: %.2g undivided, %.2g divided by √d_k"};
    double value[2] = {NAN, NAN};
    for (size_t i = 0; i < THEORY_DIVISORS; i++) {
        const double figure = value_of(&points[i], panel, panel == GRADIENT);
        if (points[i].divisor.mode == SCALE_NONE) value[0] = figure;
        if (points[i].divisor.mode == SCALE_SQRT_DK) value[1] = figure;
    }
    snprintf(out, capacity, formats[panel], points->d_k, value[0], value[1]);
}

/* x (count), y (SERIES_MAX, count) are room for the coordinates. */
static bool draw_panel(const TheoryPoint *points, size_t count, size_t keys, Panel panel, double *x, double *y,
                       Canvas *canvas, Error *err) {
    static const char *const y_labels[PANELS] = {"entropy (nats)", "mean of the largest weight",
                                                 "|dL/dq| (logarithmic)"};
    char title[256], subtitle[160], labels[THEORY_DIVISORS][64], name[64];
    Series series[SERIES_MAX];
    size_t curves = panel == GRADIENT ? SERIES_MAX : THEORY_DIVISORS;
    for (size_t i = 0; i < count; i++) x[i] = (double)points[i * THEORY_DIVISORS].d_k;
    for (size_t k = 0; k < curves; k++) {
        size_t divisor = k % THEORY_DIVISORS;
        bool second = k >= THEORY_DIVISORS;
        for (size_t i = 0; i < count; i++)
            y[k * count + i] = value_of(&points[i * THEORY_DIVISORS + divisor], panel, second);
        scale_text(points[divisor].divisor, name, sizeof name);
        snprintf(labels[divisor], sizeof *labels, "÷ ");
        scale_title(points[divisor].divisor, 0, labels[divisor] + strlen("÷ "), sizeof *labels - strlen("÷ "));
        series[k] = (Series){.label = second ? NULL : labels[divisor],
                             .x = x,
                             .y = y + k * count,
                             .count = count,
                             .style = style_of_divisor(name, 0),
                             .thickness = second ? 1.5 : 2.5,
                             .dash = second ? 6 : 0,
                             .markers = true};
    }
    write_title(points + (count - 1) * THEORY_DIVISORS, panel, title, sizeof title);
    if (panel == ENTROPY)
        snprintf(subtitle, sizeof subtitle,
                 "%zu key%s; q and k of independent N(0, 1) entries; uniform weights have %.2f", keys,
                 keys == 1 ? "" : "s", log((double)keys));
    else if (panel == LARGEST)
        snprintf(subtitle, sizeof subtitle, "mean over rows; uniform weights have %.3g", 1 / (double)keys);
    else
        snprintf(subtitle, sizeof subtitle, "L = <r, weights>, r ~ N(0, I); solid: mean, dashed: median");
    const Chart chart = {.title = title,
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
static bool draw_all(const TheoryPoint *points, size_t count, size_t keys, double *room, Canvas *all, Error *err) {
    for (int panel = 0; panel < PANELS; panel++) {
        Canvas one;
        if (!draw_panel(points, count, keys, (Panel)panel, room, room + count, &one, err)) return false;
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
    TheoryPoint *sorted = malloc(count * THEORY_DIVISORS * sizeof *sorted); /* by d_k */
    bool ok = (room && sorted) || error_set(err, STATUS_FAILED, "no memory for a picture");
    if (ok) {
        memcpy(sorted, points, count * THEORY_DIVISORS * sizeof *sorted);
        qsort(sorted, count, THEORY_DIVISORS * sizeof *sorted, compare_sizes);
        ok = draw_all(sorted, count, keys, room, &all, err) && canvas_save(&all, path, err);
    }
    canvas_free(&all);
    free(room);
    free(sorted);
    return ok;
}
