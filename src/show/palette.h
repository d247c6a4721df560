/* The colours of curves and labels. A divisor has the same colour in every picture and on every page. */
#pragma once

#include "show/canvas.h"

/* Each colour has a contrast of 3:1 or more against white, and differs from the others under deuteranopia and
   protanopia. In grey the named divisors differ in lightness (tests/test_pictures.c). */
enum { COLORS_NAMED = 5, COLORS_COUNT = 12 };

/* Returns the colour of a divisor as a config writes it: "none", "sqrt_dk", ... Any other text is a number and has the
   `order`-th of the other colours; so does "", for settings that differ in something else. */
Color palette_divisor(const char *divisor, size_t order);
/* Returns the index-th colour of all. From COLORS_COUNT on they repeat. */
Color palette_color(size_t index);
