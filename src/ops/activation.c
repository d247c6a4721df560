#include "ops/activation.h"

#include "ops/elementary.h"

/* 2u = 2 sqrt(2/pi) (x + 0.044715 x^3) */
#define TWO_SQRT_2_OVER_PI ((real)1.5957691216057307117597842397375)
#define CUBIC ((real)0.044715)

HOT void gelu_forward(real *restrict y, const real *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        real two_u = TWO_SQRT_2_OVER_PI * (x[i] + CUBIC * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1 + exp_real(-two_u));
    }
}

HOT void gelu_backward(real *dx, const real *dy, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        real two_u = TWO_SQRT_2_OVER_PI * (x[i] + CUBIC * x[i] * x[i] * x[i]);
        real slope = TWO_SQRT_2_OVER_PI * (1 + 3 * CUBIC * x[i] * x[i]);
        real s = 1 / (1 + exp_real(-two_u));
        dx[i] = dy[i] * (s + x[i] * s * (1 - s) * slope);
    }
}

HOT void relu_forward(real *restrict y, const real *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

HOT void relu_backward(real *dx, const real *dy, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = x[i] <= 0 ? 0 : dy[i];
}
