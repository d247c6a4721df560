/* Random numbers by counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3,
   SC'11). The number drawn depends on seed, purpose and index alone, never on the thread or on how many draws went
   before, so two runs of a sweep share their initial weights and batches to the bit. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"

/* The purpose of a stream of numbers. The values are part of every result: append, never renumber. */
typedef enum {
    RNG_INIT = 1,
    RNG_BATCH = 2,
    RNG_SAMPLE = 3,
    RNG_DROPOUT = 4,
    RNG_THEORY = 5,
    RNG_RECALL = 6,
    RNG_RECALL_VALIDATION = 7,
    RNG_SHUFFLE = 8,
} RngPurpose;

/* One stream of numbers, for one purpose and one `stream` (a tensor, a step, a layer). */
typedef struct {
    uint32_t key[2];
    uint32_t purpose, stream;
} Rng;

Rng rng_make(uint64_t seed, RngPurpose purpose, uint32_t stream);

/* Writes four independent words for a 64-bit index. */
void rng_block(const Rng *rng, uint64_t index, uint32_t out[4]);

/* Returns a number uniform on [0, 1), of 32 bits; `index` counts single numbers. */
double rng_uniform(const Rng *rng, uint64_t index);
/* Returns a standard normal number by Box and Muller (1958); `index` counts single numbers. */
double rng_normal(const Rng *rng, uint64_t index);
/* Writes the normal numbers of the indices 4 block .. 4 block + 3, which cost as much as one of them. */
void rng_normals(const Rng *rng, uint64_t block, double out[4]);
/* Returns a number uniform on 0 .. n-1, from 64 bits by multiplication (Lemire 2019; the bias is below n / 2^64). */
uint64_t rng_below(const Rng *rng, uint64_t index, uint64_t n);

/* The factors of Philox, and the numbers added to its key after each round. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

/* One Philox4x32-10 block, here so that loops over many blocks are vectorized: a straight line, in lanes of 64 bits. */
static inline __attribute__((always_inline)) void philox4x32(uint32_t c[4], uint32_t k0, uint32_t k1) {
    uint64_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    UNROLLED
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = PHILOX_M0 * c0, p1 = PHILOX_M1 * c2;
        c0 = p1 >> 32 ^ c1 ^ k0;
        c2 = p0 >> 32 ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    c[0] = (uint32_t)c0, c[1] = (uint32_t)c1, c[2] = (uint32_t)c2, c[3] = (uint32_t)c3;
}
