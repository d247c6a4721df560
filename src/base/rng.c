/* Philox turns a key and a counter into four random words. The seed is the key; index, stream and purpose are the
   counter. So any thread can draw any number of any stream, in any order. */
#include "base/rng.h"

#include <math.h>

Rng rng_make(uint64_t seed, RngPurpose purpose, uint32_t stream) {
    return (Rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .purpose = (uint32_t)purpose, .stream = stream};
}

void rng_block(const Rng *rng, uint64_t index, uint32_t out[4]) {
    out[0] = (uint32_t)index;
    out[1] = (uint32_t)(index >> 32);
    out[2] = rng->stream;
    out[3] = rng->purpose;
    philox4x32(out, rng->key[0], rng->key[1]);
}

double rng_uniform(const Rng *rng, uint64_t index) {
    uint32_t word[4];
    rng_block(rng, index / 4, word);
    return word[index % 4] * 0x1p-32;
}

/* In two pairs, each of which costs one logarithm. */
void rng_normals(const Rng *rng, uint64_t block, double out[4]) {
    uint32_t word[4];
    rng_block(rng, block, word);
    for (int pair = 0; pair < 4; pair += 2) {
        double radius = sqrt(-2 * log(((double)word[pair] + 1) * 0x1p-32)), angle = 2 * M_PI * 0x1p-32 * word[pair + 1];
        out[pair] = radius * cos(angle);
        out[pair + 1] = radius * sin(angle);
    }
}

double rng_normal(const Rng *rng, uint64_t index) {
    double four[4];
    rng_normals(rng, index / 4, four);
    return four[index % 4];
}

uint64_t rng_below(const Rng *rng, uint64_t index, uint64_t n) {
    uint32_t word[4];
    rng_block(rng, index, word);
    uint64_t random = (uint64_t)word[1] << 32 | word[0];
    return (uint64_t)(((unsigned __int128)random * n) >> 64);
}
