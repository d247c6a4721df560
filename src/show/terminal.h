/* The width and the colours of a terminal. */
#pragma once

#include <stdio.h>

#include "show/canvas.h"

typedef enum { COLORS_NONE, COLORS_256, COLORS_24_BIT } TerminalColors;

typedef struct {
    FILE *out;
    TerminalColors colors;
    size_t columns;
} Terminal;

/* Returns the terminal behind a stream. It has no colours if the stream is no terminal, NO_COLOR is set (no-color.org),
   or TERM says that there are none. It has colours of 24 bits if COLORTERM says so. */
Terminal terminal_make(FILE *out);
/* Returns the nearest of xterm's colours 16 to 255: a cube of 6 x 6 x 6, and 24 greys. */
int terminal_color_256(Color color);
