/* What a terminal can show: its width, its colours, and characters that take one column. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "show/canvas.h"

typedef enum { COLORS_NONE, COLORS_256, COLORS_24_BIT } TerminalColors;

typedef struct {
    FILE *out;
    TerminalColors colors;
    size_t columns;
} Terminal;

/* No colours where the stream is no terminal, where NO_COLOR is set (no-color.org), and where TERM says that there are
   none; 24 bits where COLORTERM says so. */
Terminal terminal_make(FILE *out);
/* As wide as it is now, at least 1; where it does not say, COLUMNS, or 80. */
size_t terminal_columns(FILE *out);

/* One column: the square `upper` above the square `lower`, either of them the background where it is NULL. Only with
   colours, and terminal_reset after the last of a line. */
void terminal_squares(const Terminal *terminal, const Color *upper, const Color *lower);
void terminal_reset(const Terminal *terminal);

/* The nearest of xterm's colours 16 to 255: a cube of 6 x 6 x 6, and 24 greys. */
int terminal_color_256(Color color);

/* A character of a text as heatmap_character shows it, or U+FFFD where a terminal may give it another width than one
   column, turn the direction of writing by it, or obey it. Returns its columns, 1. */
size_t terminal_character(const Terminal *terminal, uint32_t character);

/* Numbers as bars one line high, `low` an eighth of it and `high` all, in at most `columns` columns: each the mean of
   the finite ones among its share of the numbers, or blank. */
void terminal_bars(const Terminal *terminal, const double *numbers, size_t count, size_t columns, double low,
                   double high);
