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
    if (panel == ENTROPY) return m->entropy.value;
    if (panel == LARGEST) return m->max_weight.value;
    return second ? m->grad_median.value : m->grad_mean.value;
}

static int compare_sizes(const void *a, const void *b) {
    const size_t x = ((const TheoryPoint *)a)->d_k, y = ((const TheoryPoint *)b)->d_k;
    return (x > y) - (x < y);
}

/* What the panel shows of one d_k: without a divisor, and divided by √d_k. */
static void write_title(const TheoryPoint *points, Panel panel, char *out, size_t capacity) {
    static const char *const formats[PANELS] = {
        "Entropy before training, at d_k = %zu: %.3g nats undivided, %.3g divided by √d_k",
        "Largest weight of a row, at d_k = %zu: %.3g undivided, %.3g divided by √d_k",
        "Median gradient of the query, at d_k = %zu: %.2g undivided, %.2g divided by √d_k"};
    double value[SCALE_NUMBER];
    for (size_t i = 0; i < THEORY_DIVISORS; i++) value[points[i].divisor.mode] = value_of(&points[i], panel, true);
    snprintf(out, capacity, formats[panel], points->d_k, value[SCALE_NONE], value[SCALE_SQRT_DK]);
}

/* x (count), y (SERIES_MAX, count) hold the coordinates. */
static bool draw_panel(const TheoryPoint *points, size_t count, size_t keys, Panel panel, double *x, double *y,
                       Canvas *canvas, Error *err) {
    static const char *const y_labels[PANELS] = {"entropy (nats)", "mean of the largest weight",
                                                 "|dL/dq| (logarithmic)"};
    char title[256], subtitles[PANELS][160], labels[THEORY_DIVISORS][80], name[64];
    Series series[SERIES_MAX];
    const size_t curves = panel == GRADIENT ? SERIES_MAX : THEORY_DIVISORS;
    for (size_t i = 0; i < count; i++) x[i] = (double)points[i * THEORY_DIVISORS].d_k;
    for (size_t k = 0; k < curves; k++) {
        const size_t divisor = k % THEORY_DIVISORS;
        const bool second = k >= THEORY_DIVISORS;
        for (size_t i = 0; i < count; i++)
            y[k * count + i] = value_of(&points[i * THEORY_DIVISORS + divisor], panel, second);
        scale_title(points[divisor].divisor, 0, name, sizeof name);
        snprintf(labels[divisor], sizeof *labels, "÷ %s", name);
        scale_text(points[divisor].divisor, name, sizeof name);
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
    snprintf(subtitles[ENTROPY], sizeof *subtitles,
             "%zu key%s; q and k of independent N(0, 1) entries; uniform weights have %.2f", keys, keys == 1 ? "" : "s",
             log((double)keys));
    snprintf(subtitles[LARGEST], sizeof *subtitles, "mean over rows; uniform weights have %.3g", 1 / (double)keys);
    snprintf(subtitles[GRADIENT], sizeof *subtitles, "L = <r, weights>, r ~ N(0, I); solid: mean, dashed: median");
    const Chart chart = {.title = title,
                         .subtitle = subtitles[panel],
                         .x_label = "d_k (logarithmic)",
                         .y_label = y_labels[panel],
                         .x_base = 2,
                         .y_base = panel == GRADIENT ? 10 : 0,
                         .series = series,
                         .count = curves};
    return chart_draw(&chart, canvas, err);
}

bool theory_picture_save(const TheoryPoint *points, size_t count, size_t keys, const char *path, Error *err) {
    Canvas all;
    if (!canvas_make(&all, CHART_WIDTH, PANELS * CHART_HEIGHT, err)) return false;
    double *coordinates = malloc((1 + SERIES_MAX) * count * sizeof *coordinates);
    TheoryPoint *sorted = malloc(count * THEORY_DIVISORS * sizeof *sorted); /* by d_k */
    bool ok = (coordinates && sorted) || error_set(err, STATUS_FAILED, "no memory for a picture");
    if (ok) {
        memcpy(sorted, points, count * THEORY_DIVISORS * sizeof *sorted);
        qsort(sorted, count, THEORY_DIVISORS * sizeof *sorted, compare_sizes);
    }
    for (int panel = 0; ok && panel < PANELS; panel++) {
        Canvas part = {CHART_WIDTH, CHART_HEIGHT, all.rgb + (size_t)panel * CHART_HEIGHT * CHART_WIDTH * 3, all.cover};
        ok = draw_panel(sorted, count, keys, (Panel)panel, coordinates, coordinates + count, &part, err);
    }
    ok = ok && canvas_save(&all, path, err);
    canvas_free(&all);
    free(coordinates);
    free(sorted);
    return ok;
}
