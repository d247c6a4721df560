#include "show/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "show/heatmap.h"

enum { COLUMNS_MOST = 10000 };

size_t terminal_columns(FILE *out) {
    struct winsize size = {0};
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    const long number = columns ? strtol(columns, NULL, 10) : 0;
    return number > 0 && number < COLUMNS_MOST ? (size_t)number : 80;
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

Terminal terminal_make(FILE *out) {
    const char *term = environment("TERM"), *bits = environment("COLORTERM");
    const bool plain = !isatty(fileno(out)) || *environment("NO_COLOR") || !*term || strcmp(term, "dumb") == 0 ||
                       strncmp(term, "vt", 2) == 0;
    const bool all = strcmp(bits, "truecolor") == 0 || strcmp(bits, "24bit") == 0;
    return (Terminal){out, plain ? COLORS_NONE : all ? COLORS_24_BIT : COLORS_256, terminal_columns(out)};
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

/* A parameter of the sequence that selects colours (ECMA-48, SGR): 38 the foreground, 48 the background. */
static void select_color(const Terminal *t, int ground, Color c) {
    if (t->colors == COLORS_24_BIT)
        fprintf(t->out, ";%d;2;%d;%d;%d", ground, c.r, c.g, c.b);
    else
        fprintf(t->out, ";%d;5;%d", ground, terminal_color_256(c));
}

void terminal_squares(const Terminal *t, const Color *upper, const Color *lower) {
    fputs("\x1b[0", t->out);
    if (upper || lower) select_color(t, 38, upper ? *upper : *lower);
    if (upper && lower) select_color(t, 48, *lower);
    fprintf(t->out, "m%s", upper ? "▀" : lower ? "▄" : " ");
}

void terminal_reset(const Terminal *t) {
    if (t->colors != COLORS_NONE) fputs("\x1b[0m", t->out);
}

size_t terminal_character(const Terminal *t, uint32_t character) {
    /* Letters and signs of one column, written from left to right, that combine with nothing (Unicode 15,
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
    return 1;
}

void terminal_bars(const Terminal *t, const double *numbers, size_t count, size_t columns, double low, double high) {
    const size_t width = count < columns ? count : columns;
    for (size_t i = 0; i < width; i++) {
        double sum = 0, finite = 0;
        char bar[5] = " ";
        for (size_t j = i * count / width; j < (i + 1) * count / width; j++)
            if (isfinite(numbers[j])) sum += numbers[j], finite++;
        const double share = high > low ? (sum / finite - low) / (high - low) : 0;
        if (finite > 0) utf8_encode(0x2581 + (uint32_t)lround(7 * fmin(fmax(share, 0), 1)), bar);
        fputs(bar, t->out);
    }
}
