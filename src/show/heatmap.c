/* The attention figure. One layout, computed from T, layers and heads, places everything. Cells are as large as about
   2500 pixels of width allow, from 6 to 16 pixels. Each panel carries its characters, or every second one where cells
   are narrower than a character. */
#include "show/heatmap.h"

#include <math.h>

#include "base/memory.h"
#include "base/text.h"

enum {
    PANELS_ACROSS =
        4,       /* the least number, if there are so many heads; more where the picture would be higher than wide */
    WIDE = 2500, /* four panels of 48 characters, all labelled */
    MARGIN = 22,
    TITLES = 58,    /* height of title and subtitle */
    LABEL = 20,     /* height of the label above a panel */
    AXIS_NAME = 20, /* pixels for "query" and "key" */
    SLOT = 130,     /* least width for the label of a panel, also where the text is short */
    SLOT_MOST = 400,
    STRIP_SIDE = 190, /* approximate side of a strip's panel */
    ROW_NAME = 24,    /* pixels for the name of a strip's row */
    CORNER = 22,      /* height of the line below the panels */
    LEAST_CELL = 11,  /* in smaller cells, characters of LEAST_SIZE would touch */
    LEAST_SIZE = 13,  /* height of a character along the axes */
    SPELLED = 11,     /* height of a character that the font lacks: "U+4E2D" */
    BAR_WIDTH = 18,
    BAR_COLUMN = 124, /* width of the bar with ticks and label */
    BAR_KEY = 54,     /* height below the bar for the colour of the mask */
    BLANK = 0x2423,   /* the sign for a blank */
    SHADES = 52,
};

#define LABEL_SIZE 15.0
#define SMALL_SIZE 13.0
#define STRIP_SIZE 17.0
#define TITLE_SIZE 22.0
#define TITLE_LIMIT 1100.0 /* a title widens the picture up to this width; a longer title is drawn smaller */

static const Color ink = {34, 34, 34}, faint = {95, 95, 95}, edge = {150, 150, 150};

/* Every fifth of the 256 colours of viridis (Stéfan van der Walt and Nathaniel Smith 2015, for matplotlib; CC0),
   rounded to bytes. Colours between them are interpolated. The lightness rises steadily, so that the order can be read
   in grey and by the colour-blind. */
static const Color viridis[SHADES] = {
    {68, 1, 84},    {70, 8, 92},    {71, 16, 99},   {72, 23, 105},  {72, 29, 111},  {72, 36, 117},  {71, 42, 122},
    {70, 48, 126},  {69, 55, 129},  {67, 61, 132},  {65, 66, 135},  {63, 72, 137},  {61, 78, 138},  {58, 83, 139},
    {56, 89, 140},  {53, 94, 141},  {51, 99, 141},  {49, 104, 142}, {46, 109, 142}, {44, 113, 142}, {42, 118, 142},
    {41, 123, 142}, {39, 128, 142}, {37, 132, 142}, {35, 137, 142}, {33, 142, 141}, {32, 146, 140}, {31, 151, 139},
    {30, 156, 137}, {31, 161, 136}, {33, 165, 133}, {36, 170, 131}, {40, 174, 128}, {46, 179, 124}, {53, 183, 121},
    {61, 188, 116}, {70, 192, 111}, {80, 196, 106}, {90, 200, 100}, {101, 203, 94}, {112, 207, 87}, {124, 210, 80},
    {137, 213, 72}, {149, 216, 64}, {162, 218, 55}, {176, 221, 47}, {189, 223, 38}, {202, 225, 31}, {216, 226, 25},
    {229, 228, 25}, {241, 229, 29}, {253, 231, 37}};

const Color heatmap_masked = {228, 228, 228};
const Color heatmap_not_a_number = {220, 38, 38};

double heatmap_position(double weight) { return sqrt(fmax(0, fmin(1, weight))); }

double heatmap_weight(double position) { return position * position; }

static unsigned char mix(unsigned char a, unsigned char b, double share) {
    return (unsigned char)lround(a + share * (b - a));
}

Color heatmap_color(double weight) {
    if (isnan(weight)) return heatmap_not_a_number;
    const double shade = heatmap_position(weight) * (SHADES - 1), below = fmin(floor(shade), SHADES - 2);
    const Color a = viridis[(size_t)below], b = viridis[(size_t)below + 1];
    return (Color){mix(a.r, b.r, shade - below), mix(a.g, b.g, shade - below), mix(a.b, b.b, shade - below)};
}

uint32_t heatmap_character(uint32_t code) {
    if (code == ' ' || code == 0xa0) return BLANK;
    if (code == '\n') return 0x21b5;
    if (code == '\t') return 0x21e5;
    const bool shapeless = code < 0x20 || (code >= 0x7f && code < 0xa0) || code > 0x10ffff;
    return shapeless || (code >= 0xd800 && code < 0xe000) ? 0xfffd : code;
}

/* Encodes character i of the axes. Returns true if the font has it. */
static bool encode(const AttentionFigure *figure, size_t i, char text[5]) {
    utf8_encode(heatmap_character(figure->text[i]), text);
    return canvas_has(heatmap_character(figure->text[i]));
}

/* The places of all that is drawn, in units. */
typedef struct {
    size_t columns;      /* panels per line */
    size_t lines;        /* of a layer */
    size_t rows;         /* lines of all layers */
    int cell, side;      /* sides of a cell and of a panel */
    int size, every;     /* height of the characters along the axes; 2: every second character is shown */
    int axis;            /* width of these characters beside a panel, or height below it */
    int beside;          /* from the panels to "query": for these characters, or for the name of a strip's row */
    int left, top;       /* corner of the first panel */
    int across, down;    /* distance from one panel to the next */
    int slot;            /* width for the label of a panel */
    int width, height;   /* size of the picture */
    int bar, bar_height; /* left side of the colour bar; its height */
} Layout;

static int at_least(int value, int least) { return value > least ? value : least; }

/* Returns the width that all labels need to be drawn at their size. Those of a strip are fitted to its panels. */
static int label_slot(const AttentionFigure *figure) {
    double widest = SLOT;
    for (size_t i = 0; i < figure->layers * figure->heads && !figure->rows; i++)
        widest = fmax(widest, canvas_text_width(SMALL_SIZE + 1, figure->panels[i].label));
    return (int)fmin(widest, SLOT_MOST) + 1;
}

static int column_x(const Layout *l, size_t column) { return l->left + (int)column * l->across; }

static int row_y(const Layout *l, size_t row) { return l->top + (int)row * l->down; }

/* Finds the upper left corner of a panel. */
static void place_panel(const AttentionFigure *figure, const Layout *l, size_t panel, int *x, int *y) {
    const size_t layer = panel / figure->heads, head = panel % figure->heads;
    *x = column_x(l, head % l->columns);
    *y = row_y(l, layer * l->lines + head / l->columns);
}

static Layout layout_with(const AttentionFigure *figure, int cell) {
    Layout l = {.cell = cell, .side = cell * (int)figure->length, .every = cell < LEAST_CELL ? 2 : 1};
    size_t across = PANELS_ACROSS;
    while (across * across < figure->layers * figure->heads) across++;
    l.columns = figure->heads < across || figure->rows ? figure->heads : across;
    l.lines = (figure->heads + l.columns - 1) / l.columns;
    l.rows = l.lines * figure->layers;
    l.size = at_least(cell + 1, LEAST_SIZE);
    l.axis = l.size + 4;
    for (size_t i = 0; i < figure->length; i++) {
        char text[5];
        if (!encode(figure, i, text)) l.axis = at_least(l.axis, (int)canvas_text_width(SPELLED, text) + 6);
    }
    if (figure->rows) l.axis = 0;
    l.beside = figure->rows ? ROW_NAME : l.axis;
    l.left = MARGIN + AXIS_NAME + l.beside;
    l.top = MARGIN + TITLES + LABEL;
    l.slot = label_slot(figure);
    l.across = at_least(l.side, l.slot) + l.axis + 14;
    l.down = l.side + LABEL + l.axis + 12;
    int right = column_x(&l, l.columns) - l.axis - 14, bottom = row_y(&l, l.rows - 1) + l.side;
    l.bar = right + 28;
    l.bar_height = at_least(bottom - l.top - BAR_KEY, 190);
    if (l.bar_height > 420) l.bar_height = 420;
    l.width = l.bar + BAR_COLUMN + MARGIN;
    l.height = at_least(bottom + l.axis + AXIS_NAME, l.top + l.bar_height + BAR_KEY + 14) + MARGIN;
    l.height += figure->corner ? CORNER : 0;
    return l;
}

static Layout layout_make(const AttentionFigure *figure) {
    int cell = figure->rows ? at_least(STRIP_SIDE / (int)figure->length, 4) : figure->length > 32 ? 12 : 16;
    Layout l = layout_with(figure, cell);
    while ((l.width > WIDE || l.height > CANVAS_SIDE) && cell > 6) l = layout_with(figure, --cell);
    const double wanted =
        fmax(canvas_text_width(TITLE_SIZE, figure->title), canvas_text_width(LABEL_SIZE, figure->subtitle));
    l.width = at_least(l.width, (int)fmin(wanted, TITLE_LIMIT) + 1 + 2 * MARGIN);
    return l;
}

static void draw_characters(Canvas *canvas, const AttentionFigure *figure, const Layout *l, int x, int y) {
    char text[5];
    for (size_t i = 0; i < figure->length; i += (size_t)l->every) {
        double middle = (int)i * l->cell + l->cell / 2.0;
        if (!encode(figure, i, text)) {
            canvas_text(canvas, x - 4, y + middle + .35 * SPELLED, SPELLED, ALIGN_RIGHT, ink, text);
            canvas_text_upwards(canvas, x + middle + .35 * SPELLED, y + l->side + 4, SPELLED, ALIGN_RIGHT, ink, text);
            continue;
        }
        /* The sign for a blank hangs below the line. In a column it would touch the next character. */
        double lift = heatmap_character(figure->text[i]) == BLANK ? .22 * l->size : 0;
        canvas_text(canvas, x - 2 - l->size / 2.0, y + middle + .3 * l->size - lift, l->size, ALIGN_CENTER, ink, text);
        canvas_text(canvas, x + middle, y + l->side + 1 + l->size * .85, l->size, ALIGN_CENTER, ink, text);
    }
}

static void draw_panel(Canvas *canvas, const AttentionFigure *figure, const Layout *l, size_t panel) {
    const size_t length = figure->length;
    const float *weights = figure->panels[panel].weights;
    int x, y;
    place_panel(figure, l, panel, &x, &y);
    canvas_text_within(canvas, x, y - 7, figure->rows ? STRIP_SIZE : SMALL_SIZE + 1, at_least(l->side, l->slot),
                       figure->panels[panel].color, figure->panels[panel].label);
    for (size_t query = 0; query < length; query++)
        for (size_t key = 0; key < length; key++)
            canvas_rectangle(canvas, x + (int)key * l->cell, y + (int)query * l->cell, l->cell, l->cell,
                             key > query ? heatmap_masked : heatmap_color((double)weights[query * length + key]));
    canvas_frame(canvas, x - 1, y - 1, l->side + 2, l->side + 2, edge);
    if (!figure->rows) draw_characters(canvas, figure, l, x, y);
}

static void draw_titles(Canvas *canvas, const AttentionFigure *figure, const Layout *l) {
    double width = l->width - 2 * MARGIN;
    canvas_text_within(canvas, MARGIN, MARGIN + 17, TITLE_SIZE, width, ink, figure->title);
    canvas_text_within(canvas, MARGIN, MARGIN + 40, LABEL_SIZE, width, faint, figure->subtitle);
    if (figure->corner)
        canvas_text_within(canvas, MARGIN, l->height - MARGIN, SMALL_SIZE + 1, width, faint, figure->corner);
    for (size_t row = 0; figure->rows && row < figure->layers; row++)
        canvas_text_upwards(canvas, l->left - 9, row_y(l, row) + l->side / 2.0, STRIP_SIZE, ALIGN_CENTER, ink,
                            figure->rows[row]);
}

static void draw_axis_names(Canvas *canvas, const Layout *l) {
    const int bottom = row_y(l, l->rows - 1) + l->side;
    canvas_text_upwards(canvas, l->left - l->beside - 6, (l->top + bottom) / 2.0, SMALL_SIZE + 1, ALIGN_CENTER, faint,
                        "query");
    canvas_text(canvas, (l->left + column_x(l, l->columns) - l->axis) / 2.0, bottom + l->axis + 14, SMALL_SIZE + 1,
                ALIGN_CENTER, faint, "key");
}

static void draw_bar(Canvas *canvas, const Layout *l) {
    static const struct {
        double weight;
        const char *label;
    } ticks[] = {{0, "0"}, {.01, "0.01"}, {.05, "0.05"}, {.1, "0.1"}, {.25, "0.25"}, {.5, "0.5"}, {1, "1"}};
    const int top = l->top;
    for (int i = 0; i < l->bar_height; i++)
        canvas_rectangle(canvas, l->bar, top + i, BAR_WIDTH, 1,
                         heatmap_color(heatmap_weight(1 - (i + .5) / l->bar_height)));
    canvas_frame(canvas, l->bar - 1, top - 1, BAR_WIDTH + 2, l->bar_height + 2, edge);
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++) {
        int y = top + (int)lround((1 - heatmap_position(ticks[i].weight)) * (l->bar_height - 1));
        canvas_rectangle(canvas, l->bar + BAR_WIDTH + 1, y, 4, 1, edge);
        canvas_text(canvas, l->bar + BAR_WIDTH + 9, y + 4, SMALL_SIZE, ALIGN_LEFT, ink, ticks[i].label);
    }
    canvas_text_upwards(canvas, l->bar + BAR_WIDTH + 58, top + l->bar_height / 2.0, SMALL_SIZE + 1, ALIGN_CENTER, ink,
                        "attention weight (√ scale)");
    int x = l->bar, y = top + l->bar_height + 18;
    canvas_rectangle(canvas, x, y, BAR_WIDTH, 14, heatmap_masked);
    canvas_frame(canvas, x - 1, y - 1, BAR_WIDTH + 2, 16, edge);
    canvas_text(canvas, x + BAR_WIDTH + 9, y + 11, SMALL_SIZE, ALIGN_LEFT, ink, "masked:");
    canvas_text(canvas, x + BAR_WIDTH + 9, y + 26, SMALL_SIZE, ALIGN_LEFT, ink, "later characters");
}

void attention_figure_save(const AttentionFigure *figure, const Directory *directory, const char *name) {
    const size_t mark = memory_mark();
    const Layout l = layout_make(figure);
    const int scale = figure->rows ? 2 : 1;
    if (l.width * scale > CANVAS_SIDE || l.height * scale > CANVAS_SIDE)
        usage_error(
            "%zu heads take a picture of %d x %d pixels, and a side has at most %d: choose a layer (--layer) or "
            "a head",
            figure->layers * figure->heads, l.width, l.height, CANVAS_SIDE);
    Canvas canvas = canvas_make(l.width, l.height, scale);
    draw_titles(&canvas, figure, &l);
    draw_axis_names(&canvas, &l);
    for (size_t panel = 0; panel < figure->layers * figure->heads; panel++) draw_panel(&canvas, figure, &l, panel);
    draw_bar(&canvas, &l);
    canvas_save(&canvas, directory, name);
    memory_release(mark);
}
