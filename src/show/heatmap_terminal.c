/* The attention figure in a terminal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/range.h"
#include "base/text.h"
#include "show/heatmap.h"

enum { GAP = 2 }; /* columns between panels */

/* A cell is one weight, or the largest of a square of `shrink` queries and keys. */
typedef struct {
    const AttentionFigure *figure;
    const Terminal *t;
    size_t shrink, side;     /* of a panel, in cells */
    size_t queries;          /* cells that share a line, one above the other */
    size_t axis, cell, slot; /* columns of the queries' characters, of a cell, from one panel to the next */
    Range keys;              /* the cells of a line that are shown */
} View;

/* Below 0 where all of the cell is masked. */
static double weight_of(const View *v, const float *weights, size_t row, size_t column) {
    const size_t T = v->figure->length;
    double largest = -1;
    for (size_t q = row * v->shrink; q < (row + 1) * v->shrink && q < T; q++)
        for (size_t k = column * v->shrink; k < (column + 1) * v->shrink && k <= q; k++) {
            const double weight = (double)weights[q * T + k];
            if (isnan(weight) || weight > largest) largest = weight; /* nothing is larger than a NaN */
        }
    return largest;
}

static void show_number(const Terminal *t, double weight) {
    if (weight < .995)
        fprintf(t->out, " %02ld", lround(100 * weight));
    else
        fputs(isnan(weight) ? " na" : " 1.", t->out);
}

static void show_squares(const Terminal *t, double upper, double lower) {
    const Color colors[] = {heatmap_color(upper), heatmap_color(lower)};
    terminal_squares(t, upper < 0 ? NULL : &colors[0], lower < 0 ? NULL : &colors[1]);
}

static size_t columns_of(const View *v) { return v->axis + range_size(v->keys) * v->cell; }

/* Parts of a panel; each returns the columns it took. */
typedef size_t Part(const View *view, size_t panel, size_t row);

static size_t show_label(const View *v, size_t panel, size_t row) {
    (void)row;
    const char *label = v->figure->panel_labels ? v->figure->panel_labels[panel] : "";
    if (v->keys.begin > 0) return (size_t)fprintf(v->t->out, "keys from %zu on", v->keys.begin);
    return (size_t)fprintf(v->t->out, "%.*s", (int)v->t->columns, label);
}

static size_t show_cells(const View *v, size_t panel, size_t row) {
    for (size_t query = row; v->axis && query < row + v->queries; query++)
        if (query < v->figure->length)
            terminal_character(v->t, v->figure->text[query]);
        else
            fputc(' ', v->t->out);
    if (v->axis) fputc(' ', v->t->out);
    size_t key = v->keys.begin;
    for (; key < v->keys.end && key < row + v->queries; key++) {
        const double weight = weight_of(v, v->figure->panels[panel], row, key);
        if (v->queries == 1)
            show_number(v->t, weight);
        else
            show_squares(v->t, weight, weight_of(v, v->figure->panels[panel], row + 1, key));
    }
    terminal_reset(v->t);
    return v->axis + (key - v->keys.begin) * v->cell;
}

static size_t show_keys(const View *v, size_t panel, size_t row) {
    (void)panel, (void)row;
    fprintf(v->t->out, "%*s", (int)v->axis, "");
    for (size_t key = v->keys.begin; key < v->keys.end; key++) {
        fprintf(v->t->out, "%*s", (int)v->cell - 1, "");
        terminal_character(v->t, v->figure->text[key]);
    }
    return columns_of(v);
}

/* The same part of panels side by side. */
static void show_part(const View *v, Range panels, Part *part, size_t row) {
    size_t blank = 0;
    for (size_t panel = panels.begin; panel < panels.end; panel++) {
        if (!v->figure->panels[panel]) continue;
        fprintf(v->t->out, "%*s", (int)blank, "");
        const size_t taken = part(v, panel, row);
        blank = taken < v->slot ? v->slot - taken : GAP;
    }
    fputc('\n', v->t->out);
}

static void show_panels(const View *v, Range panels) {
    show_part(v, panels, show_label, 0);
    for (size_t row = v->keys.begin / v->queries * v->queries; row < v->side; row += v->queries)
        show_part(v, panels, show_cells, row);
    if (v->axis) show_part(v, panels, show_keys, 0);
    fputc('\n', v->t->out);
}

static void show_legend(const Terminal *t) {
    static const char *const ticks[] = {"0", ".01", ".1", ".5", "1"};
    fputs(t->colors == COLORS_NONE ? "weights in hundredths: 07 is .07" : "weight", t->out);
    for (size_t i = 0; t->colors != COLORS_NONE && i < sizeof ticks / sizeof *ticks; i++) {
        const Color color = heatmap_color(strtod(ticks[i], NULL));
        fputc(' ', t->out);
        terminal_squares(t, &color, &color);
        terminal_squares(t, &color, &color);
        terminal_reset(t);
        fprintf(t->out, " %s", ticks[i]);
    }
    fputs("\n\n", t->out);
}

/* As much as fits in a line. */
static void show_text(const View *v) {
    for (size_t i = 0; i < v->figure->length && i < v->t->columns; i++) terminal_character(v->t, v->figure->text[i]);
    fputs("\n\n", v->t->out);
}

static View lay_out(const AttentionFigure *figure, const Terminal *t, size_t most) {
    const bool colored = t->colors != COLORS_NONE;
    View v = {.figure = figure, .t = t, .queries = colored ? 2 : 1, .cell = colored ? 1 : 3};
    v.shrink = (figure->length + most - 1) / most;
    v.side = (figure->length + v.shrink - 1) / v.shrink;
    v.axis = v.shrink == 1 ? v.queries + 1 : 0;
    const size_t fit = t->columns > v.axis + v.cell ? (t->columns - v.axis) / v.cell : 1;
    v.keys.end = fit < v.side ? fit : v.side;
    v.slot = columns_of(&v);
    for (size_t i = 0; figure->panel_labels && i < figure->rows * figure->columns; i++) {
        const size_t label = figure->panel_labels[i] ? strlen(figure->panel_labels[i]) : 0;
        if (label > v.slot) v.slot = label;
    }
    v.slot += GAP;
    return v;
}

void attention_figure_show(const AttentionFigure *figure, const Terminal *t, size_t most) {
    View v = lay_out(figure, t, most);
    const size_t panels = figure->rows * figure->columns, fit = v.keys.end,
                 across = t->columns + GAP > v.slot ? (t->columns + GAP) / v.slot : 1;
    fprintf(t->out, "%s\n", figure->title);
    show_legend(t);
    if (!v.axis) show_text(&v);
    for (Range row = {0, 0}; row.begin < panels; row.begin = row.end) {
        size_t shown = 0;
        for (; row.end < panels && shown < across; row.end++) shown += figure->panels[row.end] != NULL;
        for (v.keys.begin = 0; shown && v.keys.begin < v.side; v.keys.begin = v.keys.end) {
            v.keys.end = v.keys.begin + fit < v.side ? v.keys.begin + fit : v.side;
            show_panels(&v, row);
        }
    }
}
