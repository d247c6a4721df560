#include "ops/dropout.h"

#include <math.h>
#include <string.h>

/* Masks are drawn in pieces of MASK_PIECE columns, BLOCKS Philox blocks side by side so that they vectorise. */
enum { BLOCKS = 16, MASK_PIECE = 4 * BLOCKS };

Dropout dropout_make(double probability, uint64_t seed, uint64_t micro_step, uint32_t site) {
    Dropout dropout = {.rng = rng_make(seed, RNG_DROPOUT, (uint32_t)micro_step),
                       .threshold = (uint32_t)fmin(ceil(probability * 0x1p32), 0x1p32 - 1),
                       .scale = (real)(1 / (1 - probability))};
    dropout.rng.purpose |= site << 8 | (uint32_t)(micro_step >> 32) << 20;
    return dropout;
}

/* Column 16 k + b of a piece is word k of block b: the words then lie as the vector unit leaves them. */
HOT static void mask_piece(const Dropout *dropout, uint64_t row, uint32_t piece, real *mask) {
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    for (uint32_t b = 0; b < BLOCKS; b++) {
        c0[b] = piece * BLOCKS + b + ((uint32_t)row << 20);
        c1[b] = (uint32_t)(row >> 12);
        c2[b] = dropout->rng.stream;
        c3[b] = dropout->rng.purpose;
    }
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t c[4] = {c0[b], c1[b], c2[b], c3[b]};
        philox4x32(c, dropout->rng.key[0], dropout->rng.key[1]);
        for (uint32_t k = 0; k < 4; k++) mask[BLOCKS * k + b] = c[k] < dropout->threshold ? 0 : dropout->scale;
    }
}

void dropout_mask(const Dropout *dropout, uint64_t row, real *mask, size_t n) {
    real piece[MASK_PIECE];
    for (size_t j = 0; j < n; j += MASK_PIECE) {
        mask_piece(dropout, row, (uint32_t)(j / MASK_PIECE), piece);
        memcpy(mask + j, piece, (n - j < MASK_PIECE ? n - j : MASK_PIECE) * sizeof *mask);
    }
}

void dropout_rows(real *y, const real *x, const Dropout *dropout, uint64_t row, size_t rows, size_t n) {
    if (!dropout_is_on(dropout)) {
        if (y != x) memcpy(y, x, rows * n * sizeof *y);
        return;
    }
    real piece[MASK_PIECE];
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < n; j += MASK_PIECE) {
            mask_piece(dropout, row + r, (uint32_t)(j / MASK_PIECE), piece);
            size_t width = n - j < MASK_PIECE ? n - j : MASK_PIECE;
            for (size_t i = 0; i < width; i++) y[r * n + j + i] = x[r * n + j + i] * piece[i];
        }
    }
}
