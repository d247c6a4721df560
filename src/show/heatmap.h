/* Attention weights as pictures: a panel for each head, queries down, keys across. */
#pragma once

#include "show/terminal.h"

typedef struct {
    const float *weights; /* (T, T), entry (query, key). Keys after the query are masked, whatever is there */
    char label[96];       /* UTF-8, above the panel */
} Panel;

typedef struct {
    const char *title, *subtitle; /* UTF-8 */
    const uint32_t *text;         /* (T) code points, along both axes; blanks and line ends are made visible */
    size_t length;                /* T, at least 1 */
    size_t layers, heads;         /* at least 1 */
    Panel *panels;                /* (layers, heads) */
} AttentionFigure;

/* The one mapping from a weight to its colour: viridis (van der Walt and Smith 2015), perceptually uniform, over the
   weight's square root. Why the root: uniform attention over 48 keys is 0.02 each, which a linear scale paints like 0
   (shade 5 of 255); the root gives it shade 37, plainly lighter, and leaves 1 the only bright yellow, so that one-hot
   rows still look one-hot. The colour bar carries the ticks. `weight` is clamped to [0, 1]; NaN is red. */
Color heatmap_color(double weight);
/* The position of a weight on the colour bar, 0 to 1, and its inverse. */
double heatmap_position(double weight);
double heatmap_weight(double position);

/* What stands for a character along the axes: blanks and line ends as signs, what has no shape as U+FFFD. */
uint32_t heatmap_character(uint32_t character);

extern const Color heatmap_masked;       /* light grey: not in viridis, so not taken for a weight */
extern const Color heatmap_not_a_number; /* red */

/* Saves the figure as PNG. Each layer has lines of its own, with four panels per line, or up to 16 if the figure would
   have too many lines. A picture that would be higher than CANVAS_SIDE is an error of status STATUS_USAGE. */
void attention_figure_save(const AttentionFigure *figure, const Directory *directory, const char *name);

/* Shows the figure in a terminal (terminal.c): panels in their order, as many side by side as fit. With colours two
   queries share a line, each in one half of it; without colours, weights are written in hundredths. A panel has at
   most `width` columns, and no more than the terminal. Where the text is longer, several characters share a cell,
   which shows the largest of their weights, and the axes are left out. */
void attention_figure_show(const AttentionFigure *figure, const Terminal *terminal, size_t width);

/* The middle of the cell (query, key) of a panel in the picture attention_figure_save makes, in pixels. */
void attention_figure_cell(const AttentionFigure *figure, size_t panel, size_t query, size_t key, int *x, int *y);
