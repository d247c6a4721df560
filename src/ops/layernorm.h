/* Layer normalization (Ba, Kiros, Hinton 2016, equations 3 and 4) over the last dimension:
       xhat = (x - mean) rstd,   rstd = 1 / sqrt(variance + LAYERNORM_EPSILON),   y = xhat gamma + beta. */
#pragma once

#include "base/range.h"
#include "base/real.h"

#define LAYERNORM_EPSILON 1e-5

/* Computes y (rows, C) from x (rows, C), and keeps mean (rows) and rstd (rows) for the backward pass. beta may be NULL.
   Plain: plain_layernorm_forward. */
void layernorm_rows(real *y, real *mean, real *rstd, const real *x, const real *gamma, const real *beta, size_t rows,
                    size_t C);

/* With g = dL/dy gamma: dL/dx = rstd (g - mean(g) - xhat mean(g xhat)).
   Overwrites dx (rows, C) with that, plus `residual` (rows, C) where it is not NULL. dx may be residual.
   Plain: plain_layernorm_backward. */
void layernorm_rows_backward(real *dx, const real *residual, const real *dy, const real *x, const real *gamma,
                             const real *mean, const real *rstd, size_t rows, size_t C);

/* dL/dgamma = sum over rows of dL/dy xhat, dL/dbeta = sum over rows of dL/dy, for `columns` only. Adds to dgamma (C)
   and dbeta (C, may be NULL). Plain: plain_layernorm_backward. */
void layernorm_gain_backward(real *restrict dgamma, real *dbeta, const real *restrict dy, const real *restrict x,
                             const real *mean, const real *rstd, size_t rows, size_t C, Range columns);
