/* Draws the attention figure with characters. Each line ends the colours that it began. */
#include "lab/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/text.h"

enum { GAP = 2 }; /* columns between panels */

Terminal terminal_make(FILE *out) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR"), *bits = getenv("COLORTERM");
    const bool plain = !isatty(fileno(out)) || (no_color && *no_color) || !terminal_is_capable() || !term ||
                       strncmp(term, "vt", 2) == 0;
    const bool all = bits && (strcmp(bits, "truecolor") == 0 || strcmp(bits, "24bit") == 0);
    return (Terminal){out, plain ? COLORS_NONE : all ? COLORS_24_BIT : COLORS_256, terminal_columns(fileno(out))};
}

static int distance(Color a, Color b) {
    return (a.r - b.r) * (a.r - b.r) + (a.g - b.g) * (a.g - b.g) + (a.b - b.b) * (a.b - b.b);
}

int terminal_color_256(Color color) {
    static const unsigned char levels[] = {0, 95, 135, 175, 215, 255};
    int nearest = 16, least = distance(color, (Color){0, 0, 0});
    for (int i = 16; i < 256; i++) {
        const unsigned char grey = (unsigned char)(8 + 10 * (i - 232));
        const Color c = i < 232 ? (Color){levels[(i - 16) / 36], levels[(i - 16) / 6 % 6], levels[(i - 16) % 6]}
                                : (Color){grey, grey, grey};
        if (distance(color, c) < least) nearest = i, least = distance(color, c);
    }
    return nearest;
}

/* --- the attention figure */

typedef struct {
    const AttentionFigure *figure;
    const Terminal *t;
    size_t queries;      /* queries in a line, one above the other */
    size_t shrink, side; /* queries, and keys, in a cell; cells per side */
    size_t axis, cell;   /* columns of the queries' characters (0: no axes); columns of a cell */
    size_t width, slot;  /* most columns of a panel; columns from one panel to the next */
} View;

/* Shows the sign of a character (heatmap_character). Shows U+FFFD instead if a terminal may show the sign in another
   width than one column, change the direction of writing, or execute it as a command. */
static void show_character(const Terminal *t, uint32_t character) {
    /* Ranges of letters and signs of one column that are written from left to right and do not combine (Unicode 15:
       EastAsianWidth, Bidi_Class and General_Category). */
    static const uint32_t narrow[][2] = {{0x20, 0x7e},     {0xa1, 0xac},     {0xae, 0x2ff},    {0x370, 0x482},
                                         {0x48a, 0x58a},   {0x10a0, 0x10ff}, {0x1e00, 0x1fff}, {0x2010, 0x2027},
                                         {0x2030, 0x205e}, {0x2070, 0x20c0}, {0x2100, 0x2319}, {0x2400, 0x25fc}};
    const uint32_t shown = heatmap_character(character);
    char text[5];
    bool known = false;
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        known = known || (shown >= narrow[i][0] && shown <= narrow[i][1]);
    utf8_encode(known ? shown : 0xfffd, text);
    fputs(text, t->out);
}

/* Returns the largest weight of a cell; a number below 0 if there is no such query. */
static double weight_of(const View *v, size_t panel, size_t row, size_t column) {
    const size_t T = v->figure->length;
    double largest = -1;
    for (size_t q = row * v->shrink; q < (row + 1) * v->shrink && q < T; q++)
        for (size_t k = column * v->shrink; k < (column + 1) * v->shrink && k <= q; k++) {
            const double weight = (double)v->figure->panels[panel].weights[q * T + k];
            if (isnan(weight) || weight > largest) largest = weight; /* a NaN stays */
        }
    return largest;
}

static void show_number(const Terminal *t, double weight) {
    if (weight < .995) fprintf(t->out, " %02ld", lround(100 * weight));
    else fputs(isnan(weight) ? " na" : " 1.", t->out);
}

/* Writes a parameter of the sequence that selects colours (ECMA-48, SGR). `ground` is 38 for the foreground, 48 for the
   background. */
static void select_color(const Terminal *t, int ground, double weight) {
    const Color c = heatmap_color(weight);
    if (t->colors == COLORS_24_BIT) fprintf(t->out, ";%d;2;%d;%d;%d", ground, c.r, c.g, c.b);
    else fprintf(t->out, ";%d;5;%d", ground, terminal_color_256(c));
}

/* Shows one column: a square above another. A weight below 0 has no square. */
static void show_squares(const Terminal *t, double upper, double lower) {
    fputs("\x1b[0", t->out);
    select_color(t, 38, upper < 0 ? lower : upper);
    if (!(upper < 0 || lower < 0)) select_color(t, 48, lower);
    fputs(upper < 0 ? "m▄" : "m▀", t->out);
}

static void show_legend(const Terminal *t) {
    static const char *const ticks[] = {"0", ".01", ".1", ".5", "1"};
    fputs(t->colors == COLORS_NONE ? "weights in hundredths: 07 is .07" : "weight", t->out);
    for (size_t i = 0; t->colors != COLORS_NONE && i < sizeof ticks / sizeof *ticks; i++) {
        const double weight = strtod(ticks[i], NULL);
        fputc(' ', t->out);
        for (int square = 0; square < 2; square++) show_squares(t, weight, weight);
        fprintf(t->out, "\x1b[0m %s", ticks[i]);
    }
    fputs("\n\n", t->out);
}

/* Shows one line of a panel and returns its number of columns. Line 0 is the label, cut to the panel's width; the line
   after the last cells has the keys' characters. */
static size_t show_line(const View *v, size_t panel, size_t line) {
    const size_t row = line * v->queries - v->queries;
    size_t key = 0;
    if (line == 0) return (size_t)fprintf(v->t->out, "%.*s", (int)v->width, v->figure->panels[panel].label);
    for (size_t query = row; v->axis && query < row + v->queries; query++)
        if (query < v->figure->length) show_character(v->t, v->figure->text[query]);
        else fputc(' ', v->t->out);
    if (v->axis) fputc(' ', v->t->out);
    for (; key < v->side && key < row + v->queries; key++)
        if (row >= v->side) {
            fprintf(v->t->out, "%*s", (int)v->cell - 1, "");
            show_character(v->t, v->figure->text[key]);
        } else if (v->t->colors == COLORS_NONE) show_number(v->t, weight_of(v, panel, row, key));
        else show_squares(v->t, weight_of(v, panel, row, key), weight_of(v, panel, row + 1, key));
    if (row < v->side && v->t->colors != COLORS_NONE) fputs("\x1b[0m", v->t->out);
    return v->axis + key * v->cell;
}

static View lay_out(const AttentionFigure *figure, const Terminal *t, size_t width) {
    const bool colored = t->colors != COLORS_NONE;
    View v = {figure, t, .queries = colored ? 2 : 1, .cell = colored ? 1 : 3};
    v.width = width < t->columns ? width : t->columns;
    do {
        v.axis = v.shrink++ ? 0 : v.queries + 1;
        v.side = (figure->length + v.shrink - 1) / v.shrink;
        v.slot = v.axis + v.side * v.cell;
    } while (v.slot > v.width && v.side > 1);
    for (size_t i = 0; i < figure->layers * figure->heads; i++) {
        const size_t label = strnlen(figure->panels[i].label, v.width);
        if (label > v.slot) v.slot = label;
    }
    v.slot += GAP;
    return v;
}

void attention_figure_show(const AttentionFigure *figure, const Terminal *t, size_t width) {
    const View v = lay_out(figure, t, width);
    const size_t panels = figure->layers * figure->heads,
                 lines = 1 + (v.side + v.queries - 1) / v.queries + (v.axis != 0),
                 across = t->columns + GAP > v.slot ? (t->columns + GAP) / v.slot : 1;
    fprintf(t->out, "%s\n", figure->title);
    show_legend(t);
    for (size_t i = 0; !v.axis && i < figure->length && i < t->columns; i++) show_character(t, figure->text[i]);
    if (!v.axis) fputs("\n\n", t->out);
    for (size_t first = 0; first < panels; first += across)
        for (size_t line = 0; line <= lines; line++) { /* the last is blank */
            size_t blank = 0;
            for (size_t panel = first; line < lines && panel < first + across && panel < panels; panel++) {
                fprintf(t->out, "%*s", (int)blank, "");
                blank = v.slot - show_line(&v, panel, line);
            }
            fputc('\n', t->out);
        }
}
