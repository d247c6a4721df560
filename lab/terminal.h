/* Attention weights in a terminal, with its colours and in its width. */
#pragma once

#include <stdio.h>

#include "show/heatmap.h"

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

/* Shows the figure: panels in their order, as many side by side as fit. With colours two queries share a line. Without
   colours, weights are written in hundredths. A panel has at most `width` columns, and at most those of the terminal.
   If the text is longer, several characters share a cell, which shows the largest of their weights, and there are no
   axes. */
void attention_figure_show(const AttentionFigure *figure, const Terminal *terminal, size_t width);
