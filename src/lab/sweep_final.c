/* A sweep's final losses. Against a swept number (the learning rate, d_k, the divisor itself), as a picture: a line for
   each combination of the other keys. By divisor and by everything else, as a table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "lab/sweep_parts.h"
#include "show/chart.h"

/* Values that make a curve; of the divisor more, which is mostly swept as a choice of four. */
enum { LINES_MAX = 16, COLORS = 8, NUMBERS = 3, DIVISORS = 5 };

typedef struct {
    char label[GROUP_LABEL + 64];
    size_t count, diverged;
    double x[SWEEP_VALUES_MAX], mean[SWEEP_VALUES_MAX], low[SWEEP_VALUES_MAX], high[SWEEP_VALUES_MAX];
} Line;

static const Arm *first_arm(const Sweep *s, size_t group) { return &s->arms.arms[s->arms.groups[group].arm[0]]; }

/* Where a group stands on an axis; NaN where that is no number. The divisor counts in √d_k. */
static double place(const Sweep *s, size_t axis, size_t group) {
    const Config *c = &first_arm(s, group)->config;
    char text[CONFIG_VALUE_MAX], *end;
    if (arms_axis_is(s->arms.config, axis, SCALE_KEY))
        return scale_value(c->attention.scale_divisor, (size_t)c->model.d_k) / sqrt((double)c->model.d_k);
    config_value_text(c, s->arms.config->sweep[axis].setting, text, sizeof text);
    double number = strtod(text, &end);
    return end == text || *end ? NAN : number;
}

/* The swept number with the most values, the divisor only where there is no other; sweep_count: none. */
static size_t choose_axis(const Sweep *s) {
    const Config *c = s->arms.config;
    size_t best = c->sweep_count, divisor = c->sweep_count;
    for (size_t a = 0; a < c->sweep_count; a++) {
        bool numbers = !arms_axis_is(c, a, "train.seed");
        for (size_t g = 0; numbers && g < s->arms.group_count; g++) numbers = isfinite(place(s, a, g));
        if (!numbers) continue;
        if (arms_axis_is(c, a, SCALE_KEY))
            divisor = c->sweep[a].count >= DIVISORS ? a : divisor;
        else if (c->sweep[a].count >= NUMBERS && (best == c->sweep_count || c->sweep[a].count > c->sweep[best].count))
            best = a;
    }
    return best < c->sweep_count ? best : divisor;
}

/* How many runs the points have that have any. */
typedef struct {
    size_t fewest, most;
    bool range; /* of a band, in place of an interval */
} Seeds;

static Seeds count_seeds(const Sweep *s) {
    Seeds seeds = {SIZE_MAX, 0, false};
    for (size_t g = 0; g < s->arms.group_count; g++) {
        size_t finished = sweep_group(s, g).finished;
        if (finished == 0) continue;
        if (finished < seeds.fewest) seeds.fewest = finished;
        if (finished > seeds.most) seeds.most = finished;
        seeds.range = seeds.range || (finished > 1 && finished <= SWEEP_FEW_SEEDS);
    }
    return seeds;
}

/* In its place by x. */
static void add_point(const Sweep *s, size_t group, double x, bool range, Line *line) {
    double losses[SWEEP_VALUES_MAX], low = INFINITY, high = -INFINITY;
    size_t count = sweep_group_losses(s, group, losses), at = line->count++;
    const Interval mean = interval_of_mean(losses, count);
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, losses[i]);
        high = fmax(high, losses[i]);
    }
    for (; at > 0 && line->x[at - 1] > x; at--) {
        line->x[at] = line->x[at - 1];
        line->mean[at] = line->mean[at - 1];
        line->low[at] = line->low[at - 1];
        line->high[at] = line->high[at - 1];
    }
    line->x[at] = x;
    line->mean[at] = count ? mean.mean : NAN;
    line->low[at] = count < 2 ? NAN : range ? low : mean.mean - mean.half;
    line->high[at] = count < 2 ? NAN : range ? high : mean.mean + mean.half;
    line->diverged += sweep_group(s, group).diverged;
}

/* The line of that label, a new one if there is none; NULL when there are too many. */
static Line *line_of(Line *lines, size_t *count, const char *label) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(lines[i].label, label) == 0) return &lines[i];
    if (*count == LINES_MAX) return NULL;
    snprintf(lines[*count].label, sizeof lines->label, "%s", label);
    return &lines[(*count)++];
}

/* Whole powers of which base all x are, or over how much of which they spread: that of the axis, 0 for a linear one. */
static double base_of(const Line *lines, size_t count) {
    double low = INFINITY, high = 0;
    bool twos = true;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < lines[i].count; k++) {
            double x = lines[i].x[k], power = 2 * log2(x);
            low = fmin(low, x);
            high = fmax(high, x);
            twos = twos && fabs(power - round(power)) < .02; /* halves too: 5.66 is 8 / √2 */
        }
    return !(low > 0) || high < 4 * low ? 0 : twos ? 2 : 10;
}

static bool draw_lines(const Sweep *s, size_t axis, Line *lines, size_t count, bool left_out, Seeds seeds, Error *err) {
    Series series[LINES_MAX] = {0};
    char path[4096], title[512], subtitle[256], x_label[64];
    const double base = base_of(lines, count);
    for (size_t i = 0; i < count; i++) {
        Line *line = &lines[i];
        size_t used = strlen(line->label);
        if (line->diverged)
            snprintf(line->label + used, sizeof line->label - used, "%s%zu diverged", used ? ": " : "", line->diverged);
        for (size_t k = 0; k < line->count && base > 0; k++) line->x[k] = log(line->x[k]) / log(base);
        series[i] = (Series){.label = *line->label ? line->label : NULL,
                             .x = line->x,
                             .y = line->mean,
                             .count = line->count,
                             .color = chart_color(i),
                             .thickness = 2.5,
                             .dashed = i >= COLORS,
                             .markers = true,
                             .low = line->low,
                             .high = line->high};
    }
    size_t used = sweep_describe_band("point", seeds.fewest, seeds.most, seeds.range, subtitle, sizeof subtitle);
    if (left_out && used < sizeof subtitle)
        snprintf(subtitle + used, sizeof subtitle - used, "; the first %zu lines", count);
    snprintf(title, sizeof title, "%s: final validation loss", s->arms.config->name);
    snprintf(x_label, sizeof x_label, "%s",
             arms_axis_is(s->arms.config, axis, SCALE_KEY) ? "divisor / √d_k" : arms_key(s->arms.config, axis));
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = x_label,
                         .y_label = "loss (nats a character)",
                         .series = series,
                         .count = count,
                         .x_base = base};
    return path_join(path, sizeof path, s->directory, "final.png", err) && chart_save(&chart, path, err);
}

bool sweep_has_final(const Sweep *s) { return choose_axis(s) < s->arms.config->sweep_count; }

bool sweep_draw_final(const Sweep *s, Error *err) {
    const size_t axis = choose_axis(s);
    if (axis == s->arms.config->sweep_count) return true;
    const bool divisor = arms_axis_is(s->arms.config, axis, SCALE_KEY);
    const Seeds seeds = count_seeds(s);
    size_t count = 0;
    bool left_out = false;
    Line *lines = calloc(LINES_MAX, sizeof *lines);
    if (!lines) return error_set(err, STATUS_FAILED, "no memory for the lines of final.png");
    for (size_t g = 0; g < s->arms.group_count; g++) {
        char label[GROUP_LABEL];
        if (divisor && s->arms.groups[g].same_as != g) continue; /* the same point */
        arms_label(&s->arms, g, axis, label);
        Line *line = line_of(lines, &count, label);
        if (line)
            add_point(s, g, place(s, axis, g), seeds.range, line);
        else
            left_out = true;
    }
    bool ok = draw_lines(s, axis, lines, count, left_out, seeds, err);
    free(lines);
    return ok;
}

/* Groups by divisor and by everything else: the first group of each row and of each column stands for it. The longer
   side goes down the page. */
typedef struct {
    const Sweep *sweep;
    size_t axis; /* the divisor's */
    size_t rows[ARMS_MAX], columns[ARMS_MAX], row_count, column_count;
    bool divisors_down;
} Matrix;

static void side_label(const Matrix *m, bool divisor, size_t group, char label[GROUP_LABEL]) {
    if (!divisor) {
        arms_label(&m->sweep->arms, group, m->axis, label);
        return;
    }
    char title[64];
    bool one_d_k = true;
    const Config *c = &first_arm(m->sweep, group)->config;
    for (size_t g = 0; g < m->sweep->arms.group_count; g++)
        one_d_k = one_d_k && first_arm(m->sweep, g)->config.model.d_k == c->model.d_k;
    scale_title(c->attention.scale_divisor, one_d_k ? (size_t)c->model.d_k : 0, title, sizeof title);
    snprintf(label, GROUP_LABEL, "÷ %s", title);
}

static bool same_side(const Matrix *m, bool divisor, size_t a, size_t b) {
    char one[GROUP_LABEL], other[GROUP_LABEL];
    side_label(m, divisor, a, one);
    side_label(m, divisor, b, other);
    return strcmp(one, other) == 0;
}

static void add_new(const Matrix *m, bool divisor, size_t group, size_t *groups, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if (same_side(m, divisor, groups[i], group)) return;
    groups[(*count)++] = group;
}

static void write_cell(const Matrix *m, size_t row, size_t column, bool differences, FILE *out) {
    char text[64] = "";
    size_t diverged = 0;
    for (size_t g = 0; g < m->sweep->arms.group_count; g++) {
        if (!same_side(m, m->divisors_down, g, row) || !same_side(m, !m->divisors_down, g, column)) continue;
        const GroupSummary summary = sweep_group(m->sweep, g);
        sweep_interval_text(differences ? summary.difference : summary.val_loss, differences ? "%+.4f" : "%.4f", text);
        diverged = summary.diverged;
    }
    fprintf(out, " %s", text);
    if (diverged) fprintf(out, " (%zu diverged)", diverged);
    fputs(" |", out);
}

static void write_matrix(const Matrix *m, bool differences, const char *title, FILE *out) {
    char label[GROUP_LABEL];
    fprintf(out, "\n| %s |", title);
    for (size_t c = 0; c < m->column_count; c++) {
        side_label(m, !m->divisors_down, m->columns[c], label);
        fprintf(out, " %s |", label);
    }
    fputs("\n|---|", out);
    for (size_t c = 0; c < m->column_count; c++) fputs("---|", out);
    for (size_t r = 0; r < m->row_count; r++) {
        side_label(m, m->divisors_down, m->rows[r], label);
        fprintf(out, "\n| %s |", label);
        for (size_t c = 0; c < m->column_count; c++) write_cell(m, m->rows[r], m->columns[c], differences, out);
    }
    fputc('\n', out);
}

void sweep_write_matrices(const Sweep *s, FILE *out) {
    Matrix m = {.sweep = s};
    bool compared = false;
    while (m.axis < s->arms.config->sweep_count && !arms_axis_is(s->arms.config, m.axis, SCALE_KEY)) m.axis++;
    if (m.axis == s->arms.config->sweep_count) return;
    for (int pass = 0; pass < 2; pass++) {
        m.row_count = m.column_count = 0;
        for (size_t g = 0; g < s->arms.group_count; g++) {
            const Group *group = &s->arms.groups[g];
            add_new(&m, m.divisors_down, g, m.rows, &m.row_count);
            add_new(&m, !m.divisors_down, g, m.columns, &m.column_count);
            compared = compared || (group->reference != NO_GROUP && group->reference != g);
        }
        if (m.row_count < 2) return;
        if (m.row_count >= m.column_count) break;
        m.divisors_down = true;
    }
    write_matrix(&m, false, "validation loss", out);
    if (compared) write_matrix(&m, true, "against ÷ √d_k", out);
}
