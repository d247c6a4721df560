/* The elementary functions that float computes with, next to double's. */
#include "support.h"

#include <float.h>

#include "config/config.h"
#include "ops/activation.h"
#include "ops/lanes.h"

/* exp as the layers use it: in a loop that the compiler vectorizes, for each instruction set. */
MULTIVERSIONED static void exp_of(real *y, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = exp_real(x[i]);
}

/* Distance to `expected` in units of the last place of a real near it. */
static double ulps(real actual, double expected) {
    return fabs((double)actual - expected) /
           ldexp((double)(sizeof(real) == 4 ? FLT_EPSILON : DBL_EPSILON), ilogb(expected));
}

static void exp_within_two_ulp(void) {
    enum { COUNT = 1 << 20 };
    static const double bounds[][2] = {{-86, 88}, {-1, 1}, {-1e-3, 1e-3}, {88, 88.72}, {-86.59, -86}};
    for (size_t b = 0; b < COUNT_OF(bounds); b++) {
        real *x = reals(COUNT), *y = reals(COUNT);
        for (size_t i = 0; i < COUNT; i++)
            x[i] = (real)(bounds[b][0] + (bounds[b][1] - bounds[b][0]) * (double)i / (COUNT - 1));
        exp_of(y, x, COUNT);
        double worst[2] = {0};
        for (size_t i = 0; i < COUNT; i++) {
            worst[0] = fmax(worst[0], ulps(y[i], exp((double)x[i])));
            worst[1] = fmax(worst[1], ulps(exp_real(x[i]), exp((double)x[i]))); /* without fused multiply-add */
        }
        assert_that(worst[0] <= 2 && worst[1] <= 2, "exp on [%g, %g] is off by %.3g and %.3g ulp", bounds[b][0],
                    bounds[b][1], worst[0], worst[1]);
    }
}

static void exp_special_values(void) {
    static const struct {
        real x, y;
    } cases[] = {
        {0, 1},         {(real)-0.0, 1},  {-200, 0},           {-INFINITY, 0}, {INFINITY, INFINITY},
        {89, INFINITY}, {1000, INFINITY}, {FLT_MAX, INFINITY}, {-FLT_MAX, 0},  {-87, 0},
        {NAN, NAN},     {FLT_MIN, 1},     {(real)1e-45, 1},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        real x[16], y[16]; /* one among others, in each place of a vector */
        for (size_t place = 0; place < 16; place++) {
            for (size_t i = 0; i < 16; i++) x[i] = i == place ? cases[n].x : 1;
            exp_of(y, x, 16);
            bool same = isnan(cases[n].y) ? isnan(y[place]) : y[place] == cases[n].y;
            assert_that(same, "exp(%g) is %g, not %g", (double)cases[n].x, (double)y[place], (double)cases[n].y);
        }
    }
}

/* Relative to the size of the result 8 ulp, where the tail underflows 1e-37. The argument of exp grows like x^3, and an
   error of half a unit in it is one of |u| / 2 units in the result: hence the tolerance grows with |u| below zero. */
static void gelu_in_float(void) {
    enum { COUNT = 200001 };
    real *x = reals(COUNT), *y = reals(COUNT);
    for (size_t i = 0; i < COUNT; i++) x[i] = (real)(-12 + 24 * (double)i / (COUNT - 1));
    ACTIVATIONS[ACTIVATION_GELU].forward(y, NULL, x, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double v = (double)x[i], u2 = 2 * sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), expected = v / (1 + exp(-u2));
        double unit = FLT_EPSILON * fabs(expected);
        assert_close(y[i], expected, unit * (8 + 3 * fmax(0, -u2)) + 1e-37 * 12, "gelu(%.9g)", v);
        assert_close(y[i], expected, 1e-6 * fmax(1, fabs(v)), "gelu(%.9g)", v);
    }
}

int main(void) { return RUN_TESTS(TEST(exp_within_two_ulp), TEST(exp_special_values), TEST(gelu_in_float)); }
