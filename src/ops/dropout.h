/* Inverted dropout (Srivastava et al. 2014): entries that are kept are divided by 1 - p. The mask is drawn by counter
   from (seed, step, site, row, column), so the backward pass draws the same mask again and nothing is stored. */
#pragma once

#include <stdbool.h>

#include "base/real.h"
#include "base/rng.h"

typedef struct {
    Rng rng;
    uint32_t threshold; /* an entry whose 16 random bits are below it is dropped; 0: no dropout */
    real scale;         /* 1 / (1 - p), with the rounded p */
} Dropout;

/* The probability p is in [0, 1), and rounded to the nearest of 1/65536 to 65535/65536 unless it is 0: a mask takes 16
   random bits an entry, since drawing them takes most of the time of dropout. Each `site` (below 4096) of the network
   and each `micro_step` (below 2^44) has its own masks. */
Dropout dropout_make(double probability, uint64_t seed, uint64_t micro_step, uint32_t site);
static inline bool dropout_is_on(const Dropout *dropout) { return dropout->threshold > 0; }

/* Masks are drawn in tiles of MASK_TILE columns, and have at most 2^23 of them. mask_room: how many numbers an array
   has for n columns of a mask. */
enum { MASK_TILE = 128 };
static inline size_t mask_room(size_t n) { return n == SIZE_MAX ? n : (n + MASK_TILE - 1) / MASK_TILE * MASK_TILE; }

/* Draws the mask of row `row` into mask (mask_room(n)). Overwrites all of it; the entries are 0 or scale. */
void dropout_mask(const Dropout *dropout, uint64_t row, real *mask, size_t n);

/* y (rows, n) = x mask, plus `residual` (rows, n) where it is not NULL; the first row's number is `row`. Overwrites y,
   which may be x or residual. With dropout off the mask is 1. The backward pass is the same function: dx = dy mask.
   Plain, for dropout off: plain_residual_forward. */
void dropout_rows(real *y, const real *x, const real *residual, const Dropout *d, uint64_t row, size_t rows, size_t n);

/* y (n) += x, for gradients: of a residual connection's two inputs, and of shards. Plain: plain_residual_backward. */
void residual_add(real *y, const real *x, size_t n);
