/* Random numbers by counter: known answers, streams, moments. */
#include "support.h"

/* Known answers from the Random123 distribution (kat_vectors, philox4x32 10). */
static void philox_known_answers(void) {
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        uint32_t c[4];
        memcpy(c, cases[n].counter, sizeof c);
        philox4x32(c, cases[n].key[0], cases[n].key[1]);
        assert_memory_equal(c, cases[n].expected, sizeof c);
    }
}

/* Streams that differ in anything differ in every block; the same again is the same again. */
static void rng_streams_differ(void) {
    const Rng streams[] = {
        rng_make(1, RNG_INIT, 0),        rng_make(2, RNG_INIT, 0),  rng_make(1 + (1ull << 32), RNG_INIT, 0),
        rng_make(1, RNG_BATCH, 0),       rng_make(1, RNG_INIT, 1),  rng_make(1, RNG_INIT, 1u << 31),
        rng_make(~0ull, RNG_DROPOUT, 7), rng_make(0, RNG_SAMPLE, 0)};
    static const uint64_t indices[] = {0, 1, 1000, 1ull << 32, UINT64_MAX};
    uint32_t blocks[COUNT_OF(streams) * COUNT_OF(indices)][4], again[4];
    for (size_t n = 0; n < COUNT_OF(blocks); n++) {
        rng_block(&streams[n / COUNT_OF(indices)], indices[n % COUNT_OF(indices)], blocks[n]);
        rng_block(&streams[n / COUNT_OF(indices)], indices[n % COUNT_OF(indices)], again);
        assert_memory_equal(blocks[n], again, sizeof again);
        for (size_t m = 0; m < n; m++) assert_memory_not_equal(blocks[n], blocks[m], sizeof again);
    }
}

/* Moments about the expected mean, each with the standard error of n draws; 5 of them are allowed. */
static void moments(double (*draw)(const Rng *, uint64_t), double mean, const double expected[4], const double error[4],
                    const char *name) {
    enum { COUNT = 1000000 };
    for (uint32_t stream = 0; stream < 2; stream++) {
        Rng rng = rng_make(3, RNG_INIT, stream);
        double sum[4] = {0}, lagged[4] = {0}, before[4] = {0};
        for (uint64_t i = 0; i < COUNT; i++) {
            double x = draw(&rng, i) - mean, power = 1;
            for (int k = 0; k < 4; k++) sum[k] += power *= x;
            for (int lag = 0; lag < 4; lag++) lagged[lag] += x * before[lag];
            memmove(before + 1, before, 3 * sizeof *before);
            before[0] = x;
        }
        for (int k = 0; k < 4; k++)
            assert_close(sum[k] / COUNT, expected[k], 5 * error[k] / sqrt(COUNT), "moment %d of %s", k + 1, name);
        for (int lag = 0; lag < 4; lag++)
            assert_close(lagged[lag] / COUNT, 0, 5 * expected[1] / sqrt(COUNT), "correlation of %s, lag %d", name,
                         lag + 1);
    }
}

static void rng_moments(void) {
    /* Variance of x^k is E x^2k - (E x^k)^2; E x^2k is (2k-1)!! for a normal, 1 / ((2k+1) 4^k) for a uniform. */
    moments(rng_normal, 0, (double[]){0, 1, 0, 3}, (double[]){1, sqrt(2), sqrt(15), sqrt(96)}, "the normal");
    moments(rng_uniform, .5, (double[]){0, 1. / 12, 0, 1. / 80},
            (double[]){sqrt(1. / 12), sqrt(1. / 180), sqrt(1. / 448), sqrt(1. / 2304 - 1. / 6400)}, "the uniform");
    Rng rng = rng_make(9, RNG_BATCH, 0);
    double tail = 0, least = 1, most = 0;
    for (uint64_t i = 0; i < 1000000; i++) {
        double u = rng_uniform(&rng, i), x = rng_normal(&rng, i);
        least = fmin(least, u), most = fmax(most, u);
        assert_that(isfinite(x), "normal %d", (int)i);
        tail += fabs(x) > 3;
    }
    assert_that(least >= 0 && least < 1e-4 && most > 1 - 1e-4 && most < 1, "uniform on [0, 1)");
    assert_close(tail, 2699.8, 5 * sqrt(2699.8), "normals beyond 3 sigma");
}

static void rng_below_is_uniform(void) {
    static const uint64_t sizes[] = {1, 2, 10, 97, 1000};
    Rng rng = rng_make(4, RNG_SAMPLE, 1);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        enum { DRAWS = 200000 };
        const uint64_t n = sizes[s];
        double counts[1000] = {0}, chi = 0;
        for (uint64_t i = 0; i < DRAWS; i++) {
            uint64_t draw = rng_below(&rng, i, n);
            assert_in_range(draw, 0, n - 1);
            counts[draw]++;
        }
        const double expected = DRAWS / (double)n, freedom = (double)n - 1;
        for (uint64_t v = 0; v < n; v++) chi += pow(counts[v] - expected, 2) / expected;
        assert_close(chi, freedom, 5 * sqrt(2 * freedom), "chi-square below %d", (int)n);
    }
    static const uint64_t huge[] = {UINT64_MAX, (1ull << 63) + 1, 3ull << 40};
    for (size_t s = 0; s < COUNT_OF(huge); s++) {
        double upper = 0;
        for (uint64_t i = 0; i < 10000; i++) {
            uint64_t draw = rng_below(&rng, i, huge[s]);
            assert_true(draw < huge[s]);
            upper += draw >= huge[s] / 2;
        }
        assert_close(upper, 5000, 5 * 50, "upper half below a huge number");
    }
}

int main(void) {
    return RUN_TESTS(TEST(philox_known_answers), TEST(rng_streams_differ), TEST(rng_moments),
                     TEST(rng_below_is_uniform));
}
