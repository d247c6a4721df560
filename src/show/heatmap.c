/* The attention figure. Everything is placed by one layout, computed from T and the grid: cells as large as about 2100
   pixels of width allow, 16 at most, 6 at least. From 9 pixels up each panel carries its characters; below, only the
   outer panels do, and neighbours take turns in two lanes, since a cell is then narrower than a character. */
#include "show/heatmap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    MAX_LENGTH = 48,
    MAX_GRID = 64,
    WIDE = 2100, /* four panels of 48 characters at 9 pixels */
    MARGIN = 22,
    LINE = 19,      /* from a line of a label to the next */
    AXIS_NAME = 20, /* pixels for "query" and "key" */
    SLOT = 130,     /* a panel of a short text still leaves its labels this much */
    BAR_WIDTH = 18,
    BAR_COLUMN = 124, /* with ticks and label */
    BAR_KEY = 54,     /* pixels below the bar for the swatch of the mask */
    BLANK = 0x2423,
};

#define LABEL_SIZE 15.0
#define SMALL_SIZE 13.0
#define TITLE_SIZE 22.0
#define TITLE_LIMIT 1100.0 /* up to here a title widens the picture, beyond it shrinks */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, edge = {150, 150, 150};

/* Pixels. */
typedef struct {
    int cell, side;    /* a cell, a panel */
    int size, lanes;   /* of the characters along the axes */
    int axis;          /* what they take beside a panel */
    int left, top;     /* of the first panel */
    int across, down;  /* from one panel to the next */
    int width, height; /* of the picture */
    int bar, bar_height;
} Layout;

static int at_least(int value, int least) { return value > least ? value : least; }

/* Lines of the longest column label. */
static int label_lines(const AttentionFigure *figure) {
    int most = 0;
    for (size_t column = 0; figure->column_labels && column < figure->columns; column++) {
        int lines = 1;
        for (const char *c = figure->column_labels[column]; c && *c; c++) lines += *c == '\n';
        most = at_least(most, lines);
    }
    return most;
}

static Layout layout_with(const AttentionFigure *figure, int cell) {
    int rows = (int)figure->rows, columns = (int)figure->columns;
    Layout l = {.cell = cell, .side = cell * (int)figure->length, .lanes = cell < 9 ? 2 : 1};
    bool outer = l.lanes == 2;
    int label = figure->panel_labels ? 20 : 0, slot = at_least(l.side, SLOT);
    l.size = outer ? 11 : cell + 1;
    l.axis = l.lanes * l.size + 4;
    l.left = MARGIN + (figure->row_labels ? 24 : 0) + AXIS_NAME + l.axis;
    l.top = MARGIN + 34 + (figure->subtitle ? 24 : 0) +
            (figure->column_labels ? 24 + (label_lines(figure) - 1) * LINE : 0) + label;
    l.across = slot + (outer ? 16 : l.axis + 14);
    l.down = l.side + label + (outer ? 14 : l.axis + 12);
    int right = l.left + (columns - 1) * l.across + slot, bottom = l.top + (rows - 1) * l.down + l.side;
    l.bar = right + 28;
    l.bar_height = at_least(bottom - l.top - BAR_KEY, 190);
    if (l.bar_height > 420) l.bar_height = 420;
    l.width = l.bar + BAR_COLUMN + MARGIN;
    l.height = at_least(bottom + l.axis + AXIS_NAME, l.top + l.bar_height + BAR_KEY + 14) + MARGIN;
    return l;
}

static Layout layout_make(const AttentionFigure *figure) {
    int cell = figure->length > 32 ? 12 : 16;
    Layout l = layout_with(figure, cell);
    while (l.width > WIDE && cell > 6) l = layout_with(figure, --cell);
    double wanted = canvas_text_width(TITLE_SIZE, figure->title);
    if (figure->subtitle) wanted = fmax(wanted, canvas_text_width(LABEL_SIZE, figure->subtitle));
    l.width = at_least(l.width, (int)fmin(wanted, TITLE_LIMIT) + 1 + 2 * MARGIN);
    return l;
}

void attention_figure_cell(const AttentionFigure *figure, size_t row, size_t column, size_t query, size_t key, int *x,
                           int *y) {
    Layout l = layout_make(figure);
    *x = l.left + (int)column * l.across + (int)key * l.cell + l.cell / 2;
    *y = l.top + (int)row * l.down + (int)query * l.cell + l.cell / 2;
}

/* Blanks and line ends as signs; what has no shape as U+FFFD. */
static uint32_t visible(uint32_t code) {
    if (code == ' ' || code == 0xa0) return BLANK;
    if (code == '\n') return 0x21b5;
    if (code == '\t') return 0x21e5;
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 0xfffd;
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0xfffd;
    return code;
}

static size_t stride_of(const AttentionFigure *figure, size_t column) {
    return figure->strides ? figure->strides[column] : figure->length;
}

static const float *panel_at(const AttentionFigure *figure, size_t row, size_t column) {
    return figure->panels[row * figure->columns + column];
}

/* The characters go to every panel, or with two lanes to those with nothing to the left (below). */
static bool is_leftmost(const AttentionFigure *figure, size_t row, size_t column) {
    while (column-- > 0)
        if (panel_at(figure, row, column)) return false;
    return true;
}

static bool is_lowest(const AttentionFigure *figure, size_t row, size_t column) {
    while (++row < figure->rows)
        if (panel_at(figure, row, column)) return false;
    return true;
}

static void draw_characters(Canvas *canvas, const AttentionFigure *figure, const Layout *l, int x, int y, bool queries,
                            bool keys) {
    char text[5];
    for (size_t i = 0; i < figure->length; i++) {
        int lane = (int)(i % (size_t)l->lanes) * l->size;
        double middle = (int)i * l->cell + l->cell / 2.0;
        utf8_encode(visible(figure->text[i]), text);
        /* the sign for a blank hangs below the line: in a column it would lie on the next character */
        double lift = visible(figure->text[i]) == BLANK ? .22 * l->size : 0;
        if (queries)
            canvas_text(canvas, x - 2 - lane - l->size / 2.0, y + middle + .3 * l->size - lift, l->size, ALIGN_CENTER,
                        ink, text);
        if (keys)
            canvas_text(canvas, x + middle, y + l->side + 1 + lane + l->size * .85, l->size, ALIGN_CENTER, ink, text);
    }
}

static void draw_panel(Canvas *canvas, const AttentionFigure *figure, const Layout *l, size_t row, size_t column) {
    const float *weights = panel_at(figure, row, column);
    int x = l->left + (int)column * l->across, y = l->top + (int)row * l->down;
    const char *label = figure->panel_labels ? figure->panel_labels[row * figure->columns + column] : NULL;
    if (!weights) return;
    if (label)
        canvas_text(canvas, x, y - 7, canvas_text_fit(SMALL_SIZE + 1, at_least(l->side, SLOT), label), ALIGN_LEFT, ink,
                    label);
    for (size_t query = 0; query < figure->length; query++)
        for (size_t key = 0; key < figure->length; key++) {
            Color color =
                key > query ? heatmap_masked : heatmap_color((double)weights[query * stride_of(figure, column) + key]);
            canvas_rectangle(canvas, x + (int)key * l->cell, y + (int)query * l->cell, l->cell, l->cell, color);
        }
    canvas_frame(canvas, x - 1, y - 1, l->side + 2, l->side + 2, edge);
    draw_characters(canvas, figure, l, x, y, l->lanes == 1 || is_leftmost(figure, row, column),
                    l->lanes == 1 || is_lowest(figure, row, column));
}

static void draw_heading(Canvas *canvas, const AttentionFigure *figure, const Layout *l) {
    double room = l->width - 2 * MARGIN;
    canvas_text(canvas, MARGIN, MARGIN + 17, canvas_text_fit(TITLE_SIZE, room, figure->title), ALIGN_LEFT, ink,
                figure->title);
    if (figure->subtitle)
        canvas_text(canvas, MARGIN, MARGIN + 40, canvas_text_fit(LABEL_SIZE, room, figure->subtitle), ALIGN_LEFT, faint,
                    figure->subtitle);
}

/* The last line stands right above the panel. */
static void draw_column_label(Canvas *canvas, const AttentionFigure *figure, const Layout *l, int column, int slot,
                              const char *label) {
    char line[256];
    int below = 0;
    for (const char *c = label; *c; c++) below += *c == '\n';
    for (; below >= 0; below--) {
        int length = (int)strcspn(label, "\n");
        snprintf(line, sizeof line, "%.*s", length, label);
        canvas_text(canvas, l->left + column * l->across + l->side / 2.0,
                    l->top - (figure->panel_labels ? 29 : 9) - below * LINE,
                    canvas_text_fit(LABEL_SIZE + 1, slot, line), ALIGN_CENTER, ink, line);
        label += length + (label[length] == '\n');
    }
}

static void draw_grid_labels(Canvas *canvas, const AttentionFigure *figure, const Layout *l) {
    int slot = at_least(l->side, SLOT), rows = (int)figure->rows, columns = (int)figure->columns;
    for (int column = 0; figure->column_labels && column < columns; column++) {
        const char *label = figure->column_labels[column];
        if (label) draw_column_label(canvas, figure, l, column, slot, label);
    }
    for (int row = 0; figure->row_labels && row < rows; row++) {
        const char *label = figure->row_labels[row];
        if (!label) continue;
        canvas_text_upwards(canvas, MARGIN + 14, l->top + row * l->down + l->side / 2.0,
                            canvas_text_fit(LABEL_SIZE + 1, l->down - 6, label), ALIGN_CENTER, ink, label);
    }
    double height = (rows - 1) * l->down + l->side, width = (columns - 1) * l->across + l->side;
    canvas_text_upwards(canvas, l->left - l->axis - 6, l->top + height / 2, SMALL_SIZE + 1, ALIGN_CENTER, faint,
                        "query");
    canvas_text(canvas, l->left + width / 2, l->top + height + l->axis + 14, SMALL_SIZE + 1, ALIGN_CENTER, faint,
                "key");
}

static void draw_swatch(Canvas *canvas, int x, int y, Color color) {
    canvas_rectangle(canvas, x, y, BAR_WIDTH, 14, color);
    canvas_frame(canvas, x - 1, y - 1, BAR_WIDTH + 2, 16, edge);
}

static bool has_nan(const AttentionFigure *figure) {
    for (size_t i = 0; i < figure->rows * figure->columns; i++)
        for (size_t q = 0; figure->panels[i] && q < figure->length; q++)
            for (size_t k = 0; k <= q; k++)
                if (isnan(figure->panels[i][q * stride_of(figure, i % figure->columns) + k])) return true;
    return false;
}

static void draw_bar(Canvas *canvas, const AttentionFigure *figure, const Layout *l) {
    static const struct {
        double weight;
        const char *label;
    } ticks[] = {{0, "0"}, {.01, "0.01"}, {.05, "0.05"}, {.1, "0.1"}, {.25, "0.25"}, {.5, "0.5"}, {1, "1"}};
    for (int i = 0; i < l->bar_height; i++)
        canvas_rectangle(canvas, l->bar, l->top + i, BAR_WIDTH, 1,
                         heatmap_color(heatmap_weight(1 - (i + .5) / l->bar_height)));
    canvas_frame(canvas, l->bar - 1, l->top - 1, BAR_WIDTH + 2, l->bar_height + 2, edge);
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++) {
        int y = l->top + (int)lround((1 - heatmap_position(ticks[i].weight)) * (l->bar_height - 1));
        canvas_rectangle(canvas, l->bar + BAR_WIDTH + 1, y, 4, 1, edge);
        canvas_text(canvas, l->bar + BAR_WIDTH + 9, y + 4, SMALL_SIZE, ALIGN_LEFT, ink, ticks[i].label);
    }
    canvas_text_upwards(canvas, l->bar + BAR_WIDTH + 58, l->top + l->bar_height / 2.0, SMALL_SIZE + 1, ALIGN_CENTER,
                        ink, "attention weight (√ scale)");
    int x = l->bar, y = l->top + l->bar_height + 18;
    draw_swatch(canvas, x, y, heatmap_masked);
    canvas_text(canvas, x + BAR_WIDTH + 9, y + 11, SMALL_SIZE, ALIGN_LEFT, ink, "masked:");
    canvas_text(canvas, x + BAR_WIDTH + 9, y + 26, SMALL_SIZE, ALIGN_LEFT, ink, "later characters");
    if (!has_nan(figure)) return;
    draw_swatch(canvas, x, y + 36, heatmap_not_a_number);
    canvas_text(canvas, x + BAR_WIDTH + 9, y + 47, SMALL_SIZE, ALIGN_LEFT, ink, "not a number");
}

bool attention_figure_save(const AttentionFigure *figure, const char *path, Error *err) {
    Canvas canvas;
    if (figure->length < 1 || figure->length > MAX_LENGTH)
        return error_set(err, STATUS_FAILED, "an attention figure of %zu characters: 1 to %d can be shown",
                         figure->length, MAX_LENGTH);
    if (figure->rows < 1 || figure->rows > MAX_GRID || figure->columns < 1 || figure->columns > MAX_GRID)
        return error_set(err, STATUS_FAILED, "an attention figure of %zu x %zu panels: 1 to %d each way can be shown",
                         figure->rows, figure->columns, MAX_GRID);
    Layout l = layout_make(figure);
    if (!canvas_make(&canvas, l.width, l.height, err)) return false;
    draw_heading(&canvas, figure, &l);
    draw_grid_labels(&canvas, figure, &l);
    for (size_t row = 0; row < figure->rows; row++)
        for (size_t column = 0; column < figure->columns; column++) draw_panel(&canvas, figure, &l, row, column);
    draw_bar(&canvas, figure, &l);
    bool ok = canvas_save(&canvas, path, err);
    canvas_free(&canvas);
    return ok;
}
