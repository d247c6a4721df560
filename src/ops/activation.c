/* The activation functions, each with its derivative. The forward pass may overwrite its input with the derivative, so
   that the backward pass is one multiplication and needs no second exponential. */
#include "ops/activation.h"

#include "ops/lanes.h"

/* 2u = 2 sqrt(2/pi) (x + 0.044715 x^3) */
#define TWO_SQRT_2_OVER_PI ((real)1.5957691216057307117597842397375)
#define CUBIC ((real)0.044715)

static inline __attribute__((always_inline)) real logistic_2u(real x) {
    real two_u = TWO_SQRT_2_OVER_PI * (x + CUBIC * x * x * x);
    return 1 / (1 + exp_real(-two_u));
}

/* GELU, tanh form (Hendrycks and Gimpel 2016): y = x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3). It is
   computed as x s(2u) with the logistic function s: (1 + tanh u)/2 equals s(2u), which does not cancel where tanh u is
   near -1. dy/dx = s + x s (1 - s) 2 du/dx takes no second exponential. */
MULTIVERSIONED static void gelu_forward(real *restrict y, real *derivative, const real *x, size_t n) {
    if (!derivative) {
        for (size_t i = 0; i < n; i++) y[i] = x[i] * logistic_2u(x[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        real s = logistic_2u(x[i]), slope = TWO_SQRT_2_OVER_PI * (1 + 3 * CUBIC * x[i] * x[i]);
        y[i] = x[i] * s;
        derivative[i] = s + x[i] * s * (1 - s) * slope;
    }
}

/* ReLU (Nair and Hinton 2010): y = max(x, 0); its derivative at 0 is taken as 0. */
MULTIVERSIONED static void relu_forward(real *restrict y, real *derivative, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
    if (derivative)
        for (size_t i = 0; i < n; i++) derivative[i] = x[i] <= 0 ? 0 : (real)1;
}

const ActivationRow ACTIVATIONS[ACTIVATION_ROWS] = {{false, gelu_forward}, {true, relu_forward}};

MULTIVERSIONED void activation_backward(real *dx, const real *dy, const real *derivative, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * derivative[i];
}
