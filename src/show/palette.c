/* One table of styles for every picture, so that a divisor looks the same in all of them. tests/test_palette.c
   checks that they can be told apart. */
#include "show/palette.h"

#include <string.h>

/* The styles of the named divisors, then the styles for numbers. */
static const struct {
    const char *divisor;
    Color color;
    Marker marker;
} table[STYLE_COUNT] = {
    {"none", {220, 106, 20}, {.sides = 3, .turn = .25}},      /* triangle */
    {"sqrt_dk", {0, 114, 178}, {.sides = 0}},                 /* circle */
    {"dk", {80, 0, 136}, {.sides = 4, .turn = .125}},         /* diamond */
    {"2sqrt_dk", {40, 84, 0}, {.sides = 4}},                  /* square */
    {"sqrt_dmodel", {30, 30, 30}, {.sides = 3, .turn = .75}}, /* triangle upside down */
    {NULL, {180, 60, 72}, {.sides = 0, .open = true}},        /* open from here on */
    {NULL, {84, 144, 252}, {.sides = 4, .open = true}},
    {NULL, {48, 144, 120}, {.sides = 3, .turn = .25, .open = true}},
    {NULL, {108, 60, 84}, {.sides = 4, .turn = .125, .open = true}},
    {NULL, {252, 60, 120}, {.sides = 3, .turn = .75, .open = true}},
    {NULL, {96, 156, 168}, {.sides = 3}}, /* triangle to the left */
    {NULL, {36, 36, 0}, {.sides = 3, .open = true}},
};

Style style_at(size_t index) { return (Style){table[index % STYLE_COUNT].color, table[index % STYLE_COUNT].marker}; }

Style style_of_divisor(const char *divisor, size_t order) {
    for (size_t i = 0; i < STYLE_NAMED; i++)
        if (strcmp(divisor, table[i].divisor) == 0) return style_at(i);
    return style_at(STYLE_NAMED + order % (STYLE_COUNT - STYLE_NAMED));
}
