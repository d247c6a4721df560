/* Masks of dropout, drawn when they are needed and applied tile by tile. A tile stays in the first-level cache and
   is not kept, because drawing it again in the backward pass costs less than storing it. */
#include "ops/dropout.h"

#include <math.h>
#include <string.h>

/* A tile is drawn by this many Philox blocks, each of which gives four words, and so eight columns. The blocks
   vectorize. */
enum { BLOCKS = MASK_TILE / 8, LEVELS = 1 << 16 /* of 16 random bits */ };

Dropout dropout_make(double probability, uint64_t seed, uint64_t micro_step, uint32_t site) {
    Dropout dropout = {.rng = rng_make(seed, RNG_DROPOUT, (uint32_t)micro_step)};
    if (probability > 0) dropout.threshold = (uint32_t)fmin(fmax(round(probability * LEVELS), 1), LEVELS - 1);
    dropout.scale = (real)LEVELS / (real)(LEVELS - dropout.threshold);
    dropout.rng.purpose |= site << 8 | (uint32_t)(micro_step >> 32) << 20;
    return dropout;
}

/* The first of the four words by which block b of a tile is drawn. */
static inline __attribute__((always_inline)) uint32_t first_word(uint64_t row, uint32_t tile, uint32_t b) {
    return tile * BLOCKS + b + ((uint32_t)row << 20);
}

/* Fills two columns of a tile from word k of block b: 32 k + b from the lower half, 32 k + 16 + b from the upper one.
   This is the order in which vectorized code has the words. */
static inline __attribute__((always_inline)) void fill(real *mask, uint32_t k, uint32_t b, uint32_t word,
                                                       const Dropout *d) {
    mask[2 * BLOCKS * k + b] = (word & (LEVELS - 1)) < d->threshold ? 0 : d->scale;
    mask[2 * BLOCKS * k + BLOCKS + b] = word / LEVELS < d->threshold ? 0 : d->scale;
}

#ifdef __x86_64__
#include <immintrin.h>

#ifndef AVX2_ALONE
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f")))
#define BYTES 64
#define MULTIPLY(a, b) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#include "ops/dropout_kernel.h"
#endif

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2")))
#define BYTES 32
#define MULTIPLY(a, b) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#include "ops/dropout_kernel.h"
#endif

static void mask_tile(const Dropout *dropout, uint64_t row, uint32_t tile, real *restrict mask) {
#ifdef __x86_64__
#ifndef AVX2_ALONE
    if (__builtin_cpu_supports("avx512f")) {
        mask_tile_avx512(dropout, row, tile, mask);
        return;
    }
#endif
    if (__builtin_cpu_supports("avx2")) {
        mask_tile_avx2(dropout, row, tile, mask);
        return;
    }
#endif
    const Dropout d = *dropout;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t c[4] = {first_word(row, tile, b), (uint32_t)(row >> 12), d.rng.stream, d.rng.purpose};
        philox4x32(c, d.rng.key[0], d.rng.key[1]);
        for (uint32_t k = 0; k < 4; k++) fill(mask, k, b, c[k], &d);
    }
}

void dropout_mask(const Dropout *dropout, uint64_t row, real *mask, size_t n) {
    for (size_t j = 0; j < n; j += MASK_TILE) mask_tile(dropout, row, (uint32_t)(j / MASK_TILE), mask + j);
}

MULTIVERSIONED static void multiply_add(real *y, const real *x, const real *restrict mask, const real *residual,
                                        size_t n) {
    if (residual)
        for (size_t i = 0; i < n; i++) y[i] = residual[i] + x[i] * mask[i];
    else
        for (size_t i = 0; i < n; i++) y[i] = x[i] * mask[i];
}

MULTIVERSIONED static void add(real *y, const real *x, const real *residual, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = residual[i] + x[i];
}

void dropout_rows(real *y, const real *x, const real *residual, const Dropout *d, uint64_t row, size_t rows, size_t n) {
    if (!dropout_is_on(d)) {
        if (residual) add(y, x, residual, rows * n);
        else if (y != x) memcpy(y, x, rows * n * sizeof *y);
        return;
    }
    real tile[MASK_TILE];
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < n; j += MASK_TILE) {
            size_t at = r * n + j, width = n - j < MASK_TILE ? n - j : MASK_TILE;
            mask_tile(d, row + r, (uint32_t)(j / MASK_TILE), tile);
            multiply_add(y + at, x + at, tile, residual ? residual + at : NULL, width);
        }
    }
}

void residual_add(real *y, const real *x, size_t n) { add(y, x, y, n); }
