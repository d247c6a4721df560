/* The colours of curves and labels: one for each divisor, the same in every picture and on every page. */
#pragma once

#include "show/canvas.h"

/* Every colour has a contrast of 3:1 or more against white, and stays apart from the others under deuteranopia and
   protanopia; in grey the named divisors differ in lightness (tests/test_palette.c). */
enum { COLORS_NAMED = 5, COLORS_COUNT = 12 };

/* The colour of a divisor as a config writes it: "none", "sqrt_dk", ... Any other text is a number, which gets the
   `order`-th of the colours that no name has; so does "", for settings that differ in something else. */
Color palette_divisor(const char *divisor, size_t order);
/* The index-th colour of all. From COLORS_COUNT on they repeat. */
Color palette_color(size_t index);
