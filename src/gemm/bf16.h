/* bf16: the upper half of a float, with 8 significant bits. Under precision = bf16 the model keeps in this form
   most activations that matrix products read, and two gradients. So they are rounded once, not again by every
   product. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "gemm/matmul.h"

typedef uint16_t Bf16 __attribute__((may_alias)); /* may be stored in an array of `real` */

/* Returns the distance between rows. Zeros fill each row up to a whole cache line, so that a product can read it in
   place, two numbers at a time, or 32 with the processor's tiles. */
static inline size_t bf16_stride(size_t width) { return width == SIZE_MAX ? width : (width + 31) / 32 * 32; }

/* Takes an array of such rows from the arena. Behind them there is memory for 15 more, which are never written: the
   processor's tiles read 16 rows at a time, and what they read beyond the array's own rows is not used. */
static inline Bf16 *bf16_take(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(size_add(rows, 15), bf16_stride(width)), sizeof(Bf16));
}

/* Returns bits whose upper half is x rounded to bf16, to nearest, ties to even; a NaN stays a NaN. */
static inline __attribute__((always_inline)) uint32_t bf16_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000;
}

/* Returns the number of these bits. */
static inline __attribute__((always_inline)) real bf16_value(Bf16 x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (real)value;
}

/* Rounds x (rows, n) into y, or expands it, which is exact. Strides are the distances between rows. */
void bf16_round(Bf16 *y, size_t y_stride, const real *x, size_t x_stride, size_t rows, size_t n);
void bf16_expand(real *restrict y, size_t y_stride, const Bf16 *restrict x, size_t x_stride, size_t rows, size_t n);

/* Copies an operand's first rows, of `real` or of bf16, into y (rows, n). */
void operand_read(real *y, size_t y_stride, Operand x, size_t rows, size_t n);
/* Adds an operand's first rows to `sums`, for `columns` only. */
void operand_sum_rows(real *restrict sums, Operand x, size_t rows, Range columns);
/* Keeps rows x (rows, n) that were computed for an operand: rounds them, if it is of bf16. Otherwise x is the
   operand already. */
void operand_keep(Operand y, const real *x, size_t x_stride, size_t rows, size_t n);
