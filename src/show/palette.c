#include "show/palette.h"

#include <string.h>

static const char *const names[STYLE_NAMED] = {"none", "sqrt_dk", "dk", "2sqrt_dk", "sqrt_dmodel"};

/* The named divisors' first, then the numbers'. */
static const Style styles[STYLE_COUNT] = {
    {{220, 106, 20}, {.sides = 3, .turn = .25}}, /* triangle */
    {{0, 114, 178}, {.sides = 0}},               /* circle */
    {{80, 0, 136}, {.sides = 4, .turn = .125}},  /* diamond */
    {{40, 84, 0}, {.sides = 4}},                 /* square */
    {{30, 30, 30}, {.sides = 3, .turn = .75}},   /* triangle upside down */
    {{180, 60, 72}, {.sides = 0, .open = true}}, /* open from here on */
    {{84, 144, 252}, {.sides = 4, .open = true}},
    {{48, 144, 120}, {.sides = 3, .turn = .25, .open = true}},
    {{108, 60, 84}, {.sides = 4, .turn = .125, .open = true}},
    {{252, 60, 120}, {.sides = 3, .turn = .75, .open = true}},
    {{96, 156, 168}, {.sides = 3}}, /* triangle to the right */
    {{36, 36, 0}, {.sides = 3, .open = true}},
};

Style style_at(size_t index) {
    const size_t shift = index / STYLE_COUNT;
    return (Style){styles[index % STYLE_COUNT].color, styles[(index + shift) % STYLE_COUNT].marker};
}

Style style_of_divisor(const char *divisor, size_t order) {
    enum { NUMBERS = STYLE_COUNT - STYLE_NAMED };
    for (size_t i = 0; i < STYLE_NAMED; i++)
        if (strcmp(divisor, names[i]) == 0) return styles[i];
    const size_t shift = order / NUMBERS;
    return (Style){styles[STYLE_NAMED + order % NUMBERS].color, styles[STYLE_NAMED + (order + shift) % NUMBERS].marker};
}
