/* One table of colours for every picture, so that a divisor has the same colour in all of them. tests/test_pictures.c
   checks that the colours can be distinguished. */
#include "show/palette.h"

#include <string.h>

/* The named divisors, then the colours for numbers. */
static const struct {
    const char *divisor;
    Color color;
} TABLE[COLORS_COUNT] = {
    {"none", {220, 106, 20}},      {"sqrt_dk", {0, 114, 178}}, {"dk", {80, 0, 136}},   {"2sqrt_dk", {40, 84, 0}},
    {"sqrt_dmodel", {30, 30, 30}}, {NULL, {180, 60, 72}},      {NULL, {84, 144, 252}}, {NULL, {48, 144, 120}},
    {NULL, {108, 60, 84}},         {NULL, {252, 60, 120}},     {NULL, {96, 156, 168}}, {NULL, {36, 36, 0}},
};

Color palette_color(size_t index) { return TABLE[index % COLORS_COUNT].color; }

Color palette_divisor(const char *divisor, size_t order) {
    for (size_t i = 0; i < COLORS_NAMED; i++)
        if (strcmp(divisor, TABLE[i].divisor) == 0) return TABLE[i].color;
    return palette_color(COLORS_NAMED + order % (COLORS_COUNT - COLORS_NAMED));
}
