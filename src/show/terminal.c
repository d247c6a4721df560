#include "show/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

enum { COLUMNS_MOST = 10000 };

size_t terminal_columns(FILE *out) {
    struct winsize size = {0};
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    const long number = columns ? strtol(columns, NULL, 10) : 0;
    return number > 0 && number < COLUMNS_MOST ? (size_t)number : 80;
}

Terminal terminal_make(FILE *out) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR"), *bits = getenv("COLORTERM");
    const bool plain = !isatty(fileno(out)) || (no_color && *no_color) || !term || !*term ||
                       strcmp(term, "dumb") == 0 || strncmp(term, "vt", 2) == 0;
    const bool all = bits && (strcmp(bits, "truecolor") == 0 || strcmp(bits, "24bit") == 0);
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
