/* The activation functions of the feed-forward network, entry by entry, and their table. */
#pragma once

#include <stddef.h>

#include "base/real.h"

/* GELU, tanh form (Hendrycks and Gimpel 2016): y = x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3). It is
   computed as x s(2u) with the logistic function s: (1 + tanh u)/2 equals s(2u), which does not cancel where tanh u is
   near -1. Overwrites y (n), which must not be x. Unless `derivative` (n) is NULL, it becomes dy/dx = s + x s (1 - s)
   2 du/dx, which takes no second exponential; it may be x. Plain: plain_gelu_forward. */
void gelu_forward(real *y, real *derivative, const real *x, size_t n);

/* ReLU (Nair and Hinton 2010): y = max(x, 0); its derivative at 0 is taken as 0. NaN stays NaN. Arrays as above.
   Plain: plain_relu_forward. */
void relu_forward(real *y, real *derivative, const real *x, size_t n);

/* The activation functions in the order of model.activation's choices. A new one is a row here, its formula, and the
   same formula in src/plain/plain.c and src/report/decoder.js. */
typedef struct {
    const char *gpt2; /* its name in a config of Hugging Face transformers */
    void (*forward)(real *y, real *derivative, const real *x, size_t n);
} ActivationRow;
extern const ActivationRow ACTIVATIONS[];

/* dL/dx = dL/dy dy/dx. Overwrites dx (n), which may be dy. Plain: plain_gelu_backward, plain_relu_backward. */
void activation_backward(real *dx, const real *dy, const real *derivative, size_t n);
