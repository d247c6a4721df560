/* A tile of a mask by vectors of one width. Included only by dropout.c. It does so once per width, with these defined:
       NAME(x)         the name of a function or type for this width
       TARGET          its instruction set
       BYTES           the size of a vector
       MULTIPLY(a, b)  the products of the lower halves of lanes of 64 bits, whatever is in the upper halves

   Philox is written out here because compilers do not see that an upper half is zero, and so multiply all 64 bits,
   which takes three times as long. There is no include guard. */

typedef uint64_t NAME(vec) __attribute__((vector_size(BYTES)));
typedef uint64_t NAME(words) __attribute__((vector_size(BYTES), aligned(4), may_alias)); /* anywhere in memory */

static TARGET void NAME(mask_tile)(const Dropout *dropout, uint64_t row, uint32_t tile, real *restrict mask) {
    enum { WIDTH = BYTES / sizeof(uint64_t) };
    const Dropout d = *dropout;
    const NAME(vec) zero = {0}, m0 = zero + PHILOX_M0, m1 = zero + PHILOX_M1;
    uint32_t word[4][BLOCKS];
    for (uint32_t b = 0; b < BLOCKS; b += 2 * WIDTH) {
        NAME(vec) c[2][4]; /* of the blocks b, b + 2, b + 4, ..., and of the blocks between them */
        for (uint32_t odd = 0; odd < 2; odd++) {
            for (uint32_t l = 0; l < WIDTH; l++) c[odd][0][l] = first_word(row, tile, b + 2 * l + odd);
            c[odd][1] = zero + (uint32_t)(row >> 12);
            c[odd][2] = zero + d.rng.stream;
            c[odd][3] = zero + d.rng.purpose;
        }
        uint32_t k0 = d.rng.key[0], k1 = d.rng.key[1];
        UNROLLED
        for (int round = 0; round < 10; round++, k0 += PHILOX_W0, k1 += PHILOX_W1) {
            UNROLLED
            for (int odd = 0; odd < 2; odd++) {
                NAME(vec) *w = c[odd];
                const NAME(vec) p0 = (NAME(vec))MULTIPLY(w[0], m0), p1 = (NAME(vec))MULTIPLY(w[2], m1);
                w[0] = p1 >> 32 ^ w[1] ^ k0;
                w[2] = p0 >> 32 ^ w[3] ^ k1;
                w[1] = p1;
                w[3] = p0;
            }
        }
        for (int k = 0; k < 4; k++) *(NAME(words) *)&word[k][b] = (c[0][k] & UINT32_MAX) | c[1][k] << 32;
    }
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t b = 0; b < BLOCKS; b++) fill(mask, k, b, word[k][b], &d);
}

#undef NAME
#undef TARGET
#undef BYTES
#undef MULTIPLY
