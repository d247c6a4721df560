/* Dropout (Srivastava et al. 2014), inverted: what is kept is divided by 1 - p. The mask is drawn by counter from
   (seed, step, site, row, column), so the backward pass draws the same one again and nothing is stored. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/real.h"
#include "base/rng.h"

typedef struct {
    Rng rng;
    uint32_t threshold; /* a word below it is dropped; 0: no dropout */
    real scale;         /* 1 / (1 - p) */
} Dropout;

/* probability in [0, 1); `site` (below 4096) tells apart the places in the network, `micro_step` (below 2^44) the
   passes through it. */
Dropout dropout_make(double probability, uint64_t seed, uint64_t micro_step, uint32_t site);
static inline bool dropout_is_on(const Dropout *dropout) { return dropout->threshold > 0; }

/* mask (n) of row `row`: 0 or scale. n at most 2^22. */
void dropout_mask(const Dropout *dropout, uint64_t row, real *mask, size_t n);

/* y (rows, n) = x mask, plus `residual` (rows, n) where it is not NULL; rows numbered from `row`. y may be x, or
   residual. With dropout off the mask is 1. */
void dropout_rows(real *y, const real *x, const real *residual, const Dropout *dropout, uint64_t row, size_t rows,
                  size_t n);

/* y (n) += x: where the two gradients of a residual connection meet. */
void residual_add(real *y, const real *x, size_t n);
