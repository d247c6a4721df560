/* Attention weights as pictures: a panel for each head, queries down, keys across. */
#pragma once

#include "show/canvas.h"

typedef struct {
    const float *weights; /* (T, T), entry (query, key). Keys after the query are drawn as masked */
    char label[96];       /* UTF-8, above the panel */
    Color color;          /* of the label */
} Panel;

typedef struct {
    const char *title, *subtitle; /* UTF-8 */
    const char *corner;           /* UTF-8, below on the left; NULL: nothing */
    const uint32_t *text;         /* (T) code points, along both axes; blanks and line ends are made visible */
    size_t length;                /* T, at least 1 */
    size_t layers, heads;         /* at least 1 */
    Panel *panels;                /* (layers, heads) */
    const char *const *rows;      /* (layers) the names of the rows of a strip; NULL: the figure is no strip */
} AttentionFigure;

/* Returns the colour of a weight, which is clamped to [0, 1]: viridis (van der Walt and Smith 2015), perceptually
   uniform, over the square root of the weight; NaN is red. Uniform attention over 48 keys has the weight 0.02. A
   linear scale would paint this like 0 (shade 5 of 255). The root paints it visibly lighter (shade 37), and only
   weights near 1 are bright yellow. */
Color heatmap_color(double weight);
/* Return the position of a weight on the colour bar, 0 to 1, and the weight at a position. */
double heatmap_position(double weight);
double heatmap_weight(double position);

/* Returns the sign that is drawn for a character: blanks and line ends have their signs, characters without a shape are
   U+FFFD. */
uint32_t heatmap_character(uint32_t character);

extern const Color heatmap_masked;       /* light grey, which viridis does not have */
extern const Color heatmap_not_a_number; /* red */

/* Saves the figure as PNG. Each layer begins a line of panels. A line has four panels, or more if the picture would be
   higher than wide. In a strip a line has all panels of a layer, which are small and without characters, and the
   picture has twice the pixels, for print at 200 dpi. */
void attention_figure_save(const AttentionFigure *figure, const Directory *directory, const char *name);
