/* A sweep's final losses, and their differences to √d_k, by divisor and by everything else. */
#include "sweep/parts.h"

/* The groups that stand for the rows and for the columns. The longer side goes down the page. */
typedef struct {
    const Sweep *sweep;
    size_t axis; /* the divisor's */
    size_t rows[ARMS_MAX], columns[ARMS_MAX], row_count, column_count;
    bool divisors_down;
} Matrix;

/* Whether two groups have the same divisor, or the same everything else. */
static bool same_side(const Matrix *m, bool divisor, size_t a, size_t b) {
    const Config *c = m->sweep->arms.config;
    return divisor ? arms_digit(c, a, m->axis) == arms_digit(c, b, m->axis) : arms_agree_but(c, m->axis, a, b);
}

static void add_new(const Matrix *m, bool divisor, size_t group, size_t *groups, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if (same_side(m, divisor, groups[i], group)) return;
    groups[(*count)++] = group;
}

static void write_label(const Matrix *m, bool divisor, size_t group, FILE *out) {
    char label[GROUP_LABEL];
    if (divisor)
        arms_divisor_label(&m->sweep->arms, group, label);
    else
        arms_label(&m->sweep->arms, group, m->axis, label);
    fprintf(out, " %s |", label);
}

static void write_loss(const Matrix *m, size_t row, size_t column, bool differences, FILE *out) {
    char text[64];
    size_t g = 0; /* every combination is a group */
    while (!same_side(m, m->divisors_down, g, row) || !same_side(m, !m->divisors_down, g, column)) g++;
    const GroupSummary summary = sweep_group(m->sweep, g);
    fprintf(out, " %s",
            differences ? sweep_interval_text(summary.difference, "%+.4f", text)
                        : sweep_interval_text(summary.val_loss, "%.4f", text));
    if (summary.diverged) fprintf(out, " (%zu diverged)", summary.diverged);
    fputs(" |", out);
}

static void write_matrix(const Matrix *m, bool differences, const char *title, FILE *out) {
    fprintf(out, "\n| %s |", title);
    for (size_t c = 0; c < m->column_count; c++) write_label(m, !m->divisors_down, m->columns[c], out);
    fputs("\n|---|", out);
    for (size_t c = 0; c < m->column_count; c++) fputs("---|", out);
    for (size_t r = 0; r < m->row_count; r++) {
        fputs("\n|", out);
        write_label(m, m->divisors_down, m->rows[r], out);
        for (size_t c = 0; c < m->column_count; c++) write_loss(m, m->rows[r], m->columns[c], differences, out);
    }
    fputc('\n', out);
}

static void find_sides(Matrix *m) {
    m->row_count = m->column_count = 0;
    for (size_t g = 0; g < m->sweep->arms.group_count; g++) {
        add_new(m, m->divisors_down, g, m->rows, &m->row_count);
        add_new(m, !m->divisors_down, g, m->columns, &m->column_count);
    }
}

void sweep_write_matrices(const Sweep *s, FILE *out) {
    Matrix m = {.sweep = s};
    while (m.axis < s->arms.config->sweep_count && !arms_axis_is(s->arms.config, m.axis, SCALE_KEY)) m.axis++;
    if (m.axis == s->arms.config->sweep_count) return;
    find_sides(&m);
    if (m.row_count < 2) return;
    if (m.row_count < m.column_count) {
        m.divisors_down = true;
        find_sides(&m);
    }
    write_matrix(&m, false, "validation loss", out);
    if (sweep_is_compared(s)) write_matrix(&m, true, "against ÷ √d_k", out);
}
