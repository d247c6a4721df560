/* The colours that distinguish curves, computed from the table itself: contrast against white, and
   distances as people with deuteranopia and protanopia see them. Prints both. */
#include "support.h"

#include "show/palette.h"

static double linear(unsigned char value) {
    double v = value / 255.0;
    return v <= .04045 ? v / 12.92 : pow((v + .055) / 1.055, 2.4);
}

/* WCAG 2: contrast against white, from the relative luminance. */
static double contrast(Color c) {
    return 1.05 / (.2126 * linear(c.r) + .7152 * linear(c.g) + .0722 * linear(c.b) + .05);
}

typedef struct {
    double l, a, b;
} Lab;

/* Colour blindness as a matrix in linear RGB, severity 1: Machado, Oliveira and Fernandes 2009, table 1. */
static const struct {
    const char *name;
    double matrix[3][3];
} visions[] = {
    {"full colour", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {"deuteranopia", {{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}}},
    {"protanopia", {{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}}},
};

static double lab_curve(double t) { return t > .008856 ? cbrt(t) : 7.787 * t + 16. / 116; }

/* CIE Lab under D65. */
static Lab seen(Color c, size_t vision) {
    const double rgb[3] = {linear(c.r), linear(c.g), linear(c.b)};
    double v[3];
    for (int i = 0; i < 3; i++) {
        const double *m = visions[vision].matrix[i];
        v[i] = fmax(0, fmin(1, m[0] * rgb[0] + m[1] * rgb[1] + m[2] * rgb[2]));
    }
    const double x = lab_curve((.4124564 * v[0] + .3575761 * v[1] + .1804375 * v[2]) / .95047),
                 y = lab_curve(.2126729 * v[0] + .7151522 * v[1] + .0721750 * v[2]),
                 z = lab_curve((.0193339 * v[0] + .1191920 * v[1] + .9503041 * v[2]) / 1.08883);
    return (Lab){116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

/* The distance of the two nearest of the first `count` colours, in Lab: 2.3 is just noticeable side by side. */
static double nearest(size_t count, size_t vision) {
    double least = INFINITY;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            const Lab a = seen(palette_color(i), vision), b = seen(palette_color(k), vision);
            least = fmin(least, hypot(hypot(a.l - b.l, a.a - b.a), a.b - b.b));
        }
    return least;
}

static void colors_stand_out_from_white(void **state) {
    (void)state;
    for (size_t i = 0; i < COLORS_COUNT; i++) {
        const Color c = palette_color(i);
        print_message("style %2zu: %3d %3d %3d, contrast %.2f, lightness %.0f\n", i, c.r, c.g, c.b, contrast(c),
                      seen(c, 0).l);
        assert_true(contrast(c) >= 3);
    }
}

static void colors_stay_apart(void **state) {
    (void)state;
    for (size_t vision = 0; vision < COUNT_OF(visions); vision++) {
        print_message("%s: nearest of the named divisors %.1f, of all %.1f\n", visions[vision].name,
                      nearest(COLORS_NAMED, vision), nearest(COLORS_COUNT, vision));
        assert_true(nearest(COLORS_NAMED, vision) >= 20 && nearest(COLORS_COUNT, vision) >= 12);
    }
    double least = INFINITY; /* in grey there is the lightness alone */
    for (size_t i = 0; i < COLORS_NAMED; i++)
        for (size_t k = 0; k < i; k++)
            least = fmin(least, fabs(seen(palette_color(i), 0).l - seen(palette_color(k), 0).l));
    print_message("grey: nearest of the named divisors %.1f\n", least);
    assert_true(least >= 8);
}

static bool same_color(Color a, Color b) { return memcmp(&a, &b, sizeof a) == 0; }

static void colors_are_of_one_divisor(void **state) {
    (void)state;
    static const char *const names[COLORS_NAMED] = {"none", "sqrt_dk", "dk", "2sqrt_dk", "sqrt_dmodel"};
    for (size_t i = 0; i < COLORS_NAMED; i++) assert_true(same_color(palette_divisor(names[i], 3), palette_color(i)));
    for (size_t i = 0; i < 3 * (COLORS_COUNT - COLORS_NAMED); i++)
        assert_true(
            same_color(palette_divisor("20", i), palette_color(COLORS_NAMED + i % (COLORS_COUNT - COLORS_NAMED))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colors_stand_out_from_white),
        cmocka_unit_test(colors_stay_apart),
        cmocka_unit_test(colors_are_of_one_divisor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
