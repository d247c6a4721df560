/* What distinguishes lines and labels: one colour and one marker for each divisor, the same in every picture. */
#pragma once

#include "show/canvas.h"

typedef struct {
    Color color;
    Marker marker;
} Style;

/* Every colour has a contrast of 3:1 or more against white, and stays apart from the others under deuteranopia and
   protanopia; in grey the named divisors differ in lightness, and all in their markers (tests/test_palette.c). */
enum { STYLE_NAMED = 5, STYLE_COUNT = 12 };

/* The style of a divisor as a config writes it: "none", "sqrt_dk", ... Any other text is a number, which gets the
   `order`-th of the styles that no name has; so does "", for settings that differ in something else. */
Style style_of_divisor(const char *divisor, size_t order);
/* The index-th style of all. From STYLE_COUNT on they repeat. */
Style style_at(size_t index);
