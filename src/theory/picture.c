#include "theory/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/chart.h"

enum { PANELS = 3, COLUMNS = 2, CURVES_MAX = 6, SERIES_MAX = 2 * CURVES_MAX };

/* The scorings that a column shows: those of its subject, and in the second two divisors for comparison. */
static const struct {
    size_t count, scorings[CURVES_MAX];
} SHOWN[COLUMNS] = {{4, {0, 1, 2, 3}}, {6, {0, 1, 4, 5, 6, 7}}};
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
    for (size_t i = 0; i < THEORY_DIVISORS; i++)
        value[points[i].scoring.divisor.mode] = value_of(&points[i], panel, true);
    snprintf(out, capacity, formats[panel], points->d_k, value[SCALE_NONE], value[SCALE_SQRT_DK]);
}

/* In the second column every other way to score. */
static void write_second_title(const TheoryPoint *points, Panel panel, char *out, size_t capacity) {
    static const char *const figures[PANELS] = {"Entropy", "Largest weight", "Median gradient"};
    int length = snprintf(out, capacity, "%s at d_k = %zu:", figures[panel], points->d_k);
    for (size_t i = THEORY_DIVISORS; i < THEORY_SCORINGS; i++)
        length += snprintf(out + length, capacity - (size_t)length, "%s %s %.3g", i > THEORY_DIVISORS ? "," : "",
                           THEORY_SCORES[points[i].scoring.score], value_of(&points[i], panel, true));
}

static void write_label(TheoryScoring scoring, char *out, size_t capacity) {
    static const char *const labels[THEORY_SCORE_COUNT] = {NULL, "additive", "cosine · √d_k", "sink", "softcap 30"};
    char divisor[64];
    scale_title(scoring.divisor, 0, divisor, sizeof divisor);
    snprintf(out, capacity, "%s%s", scoring.score ? "" : "÷ ", scoring.score ? labels[scoring.score] : divisor);
}

/* x (count), y (SERIES_MAX, count) hold the coordinates. */
static bool draw_panel(const TheoryPoint *points, size_t count, size_t keys, Panel panel, size_t column, double *x,
                       double *y, Canvas *canvas, Error *err) {
    static const char *const y_labels[PANELS] = {"entropy (nats)", "mean of the largest weight",
                                                 "|dL/dq| (logarithmic)"};
    char title[256], subtitles[PANELS][160], labels[CURVES_MAX][80], name[64];
    Series series[SERIES_MAX];
    const size_t shown = SHOWN[column].count, curves = panel == GRADIENT ? 2 * shown : shown;
    for (size_t i = 0; i < count; i++) x[i] = (double)points[i * THEORY_SCORINGS].d_k;
    for (size_t k = 0; k < curves; k++) {
        const size_t of = SHOWN[column].scorings[k % shown];
        const TheoryScoring scoring = points[of].scoring;
        const bool second = k >= shown;
        for (size_t i = 0; i < count; i++)
            y[k * count + i] = value_of(&points[i * THEORY_SCORINGS + of], panel, second);
        if (!second) write_label(scoring, labels[k], sizeof *labels);
        scale_text(scoring.divisor, name, sizeof name);
        series[k] = (Series){.label = second ? NULL : labels[k],
                             .x = x,
                             .y = y + k * count,
                             .count = count,
                             .style = style_of_divisor(scoring.score == THEORY_DOT ? name : "", of % THEORY_DIVISORS),
                             .thickness = second ? 1.5 : 2.5,
                             .dash = second ? 6 : 0,
                             .markers = true};
    }
    (column ? write_second_title : write_title)(points + (count - 1) * THEORY_SCORINGS, panel, title, sizeof title);
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

/* Charts are drawn one by one: a canvas has no part that is narrower than itself. */
bool theory_picture_save(const TheoryPoint *points, size_t count, size_t keys, const char *path, Error *err) {
    Canvas all, part = {0};
    if (!canvas_make(&all, COLUMNS * CHART_WIDTH, PANELS * CHART_HEIGHT, err)) return false;
    double *coordinates = malloc((1 + SERIES_MAX) * count * sizeof *coordinates);
    TheoryPoint *sorted = malloc(count * THEORY_SCORINGS * sizeof *sorted); /* by d_k */
    bool ok = (coordinates && sorted) || error_set(err, STATUS_FAILED, "no memory for a picture");
    if (ok) {
        memcpy(sorted, points, count * THEORY_SCORINGS * sizeof *sorted);
        qsort(sorted, count, THEORY_SCORINGS * sizeof *sorted, compare_sizes);
    }
    for (size_t i = 0; ok && i < (size_t)PANELS * COLUMNS; i++) {
        const size_t column = i % COLUMNS, line = (size_t)CHART_WIDTH * 3;
        unsigned char *to = all.rgb + (i / COLUMNS * CHART_HEIGHT * COLUMNS + column) * line;
        ok =
            canvas_make(&part, CHART_WIDTH, CHART_HEIGHT, err) &&
            draw_panel(sorted, count, keys, (Panel)(i / COLUMNS), column, coordinates, coordinates + count, &part, err);
        for (size_t row = 0; ok && row < CHART_HEIGHT; row++)
            memcpy(to + row * COLUMNS * line, part.rgb + row * line, line);
        canvas_free(&part);
    }
    ok = ok && canvas_save(&all, path, err);
    canvas_free(&all);
    free(coordinates);
    free(sorted);
    return ok;
}
