/* The activation functions of the feed-forward network, entry by entry, in the order of ACTIVATION_TABLE (config.h). A
   new one is a row of the table, counted in ACTIVATION_ROWS, its formula, and the same formula in src/plain/plain.c and
   lab/report/decoder.js. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

typedef struct {
    bool has_kinks; /* where differences are no derivative */
    /* y = f(x). Overwrites y (n), which must not be x. Unless `derivative` (n) is NULL, it becomes dy/dx; it may be x.
       NaN stays NaN. Plain: plain_NAME_forward. */
    void (*forward)(real *restrict y, real *derivative, const real *x, size_t n);
} ActivationRow;
enum { ACTIVATION_ROWS = 2 };
extern const ActivationRow ACTIVATIONS[ACTIVATION_ROWS];

/* dL/dx = dL/dy dy/dx. Overwrites dx (n), which may be dy. Plain: plain_NAME_backward. */
void activation_backward(real *dx, const real *dy, const real *derivative, size_t n);
