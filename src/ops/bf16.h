/* bf16: the upper half of a float, with 8 significant bits. Under precision = bf16 the model keeps activations in this
   form, and two gradients, that matrix products read: rounded once, where products would round them each time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/real.h"

typedef uint16_t Bf16 __attribute__((may_alias)); /* it may be where `real` was */

/* Rows are this far apart: each is filled up with zeros to a cache line, so that a product can read it in place, two
   numbers at a time, or 32 with the processor's tiles. */
static inline size_t bf16_stride(size_t width) { return width == SIZE_MAX ? width : (width + 31) / 32 * 32; }

/* How many rows there must be memory for. The last 31 are never written: the processor's tiles read 32 rows at a time,
   and what they read too much of is not used. */
static inline size_t bf16_rows(size_t rows) { return size_add(rows, 31); }

/* An array of such rows. */
static inline Bf16 *bf16_take(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(bf16_rows(rows), bf16_stride(width)), sizeof(Bf16));
}

/* A float's bits, rounded to bf16 in their upper half, to nearest, ties to even; a NaN stays one. */
static inline __attribute__((always_inline)) uint32_t bf16_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000;
}

static inline __attribute__((always_inline)) real bf16_value(Bf16 x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (real)value;
}

/* y (rows, n) = x (rows, n), rounded; and back, exactly. Strides are the distances between rows. Rows are rounded from
   first to last, and each from its begin to its end, so that y may be x if y_stride is at most 2 x_stride. */
void bf16_round(Bf16 *y, size_t y_stride, const real *x, size_t x_stride, size_t rows, size_t n);
void bf16_expand(real *restrict y, size_t y_stride, const Bf16 *restrict x, size_t x_stride, size_t rows, size_t n);

/* x (rows, n), rounded in place: a row of bf16 with its zeros begins where the row of `real` began, so its stride is
   the one below. Not every width has room for the zeros. */
void bf16_round_in_place(real *x, size_t rows, size_t n);
static inline size_t bf16_stride_in_place(size_t n) { return n * (sizeof(real) / sizeof(Bf16)); }
static inline bool bf16_fits_in_place(size_t n) { return bf16_stride(n) <= bf16_stride_in_place(n); }
