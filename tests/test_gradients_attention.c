/* Attention and dropout in double precision: against the naive O(T^2) form and against differences, in a fused buffer
   as the model has it, for lengths below, at and above one tile of queries. */
#include "support.h"

#include "model/attention.h"
#include "ops/dropout.h"
#include "reference.h"

#ifndef REAL_DOUBLE
#error "differences need the double build"
#endif

enum { H = 2, D = 3, HEAD = 1, HD = H * D, STRIDE = 3 * HD }; /* the second of two heads */

typedef struct {
    ReferenceHead shape; /* sizes of that head */
    AttentionConfig attention;
    real *qkv, *out, *dout, *row_max, *row_sum, *pair_max, *scratch;
    real *q, *k, *v; /* into qkv */
} Case;

static Case attention_start(size_t T, double multiplier, double dropout, double deviation) {
    Case a = {.shape = {.T = T, .D = D, .stride = STRIDE, .out_stride = HD, .multiplier = multiplier},
              .attention = {.H = H, .D = D, .multiplier = (real)multiplier}};
    a.shape.dropout = dropout_make(dropout, 5, 77, 3);
    a.shape.dropout_row = 1000 * H + HEAD * T;
    a.qkv = normal_reals(T * STRIDE, deviation);
    a.q = a.qkv + HEAD * D, a.k = a.q + HD, a.v = a.k + HD;
    a.out = filled_reals(T * HD, -7), a.dout = normal_reals(T * HD, 1);
    a.row_max = filled_reals(H * T, NAN) + HEAD * T, a.row_sum = filled_reals(H * T, NAN) + HEAD * T;
    a.pair_max = filled_reals(H, NAN);
    a.scratch = filled_reals(attention_scratch(&a.attention, T), NAN);
    return a;
}

static AttentionArrays layer_of(const Case *a) {
    const size_t before = HEAD * a->shape.T; /* rows of the first head */
    return (AttentionArrays){.attention = &a->attention,
                             .T = a->shape.T,
                             .qkv = a->qkv,
                             .out = a->out,
                             .saved = {a->row_max - before, a->row_sum - before, a->pair_max},
                             .dropout = a->shape.dropout,
                             .batch_row = 1000};
}
static void forward(const Case *a) {
    const AttentionArrays layer = layer_of(a);
    attention_forward(&layer, (Range){HEAD, HEAD + 1}, a->scratch);
}
static void backward(const Case *a, real *dqkv) {
    const AttentionArrays layer = layer_of(a);
    attention_backward(&layer, (Range){HEAD, HEAD + 1}, dqkv, a->dout, a->scratch);
}

static double attention_loss(void *context, uint64_t *branch) {
    Case *a = context;
    (void)branch;
    forward(a);
    double sum = 0;
    for (size_t t = 0; t < a->shape.T; t++) sum += dot(a->out + t * HD + HEAD * D, a->dout + t * HD + HEAD * D, D);
    return sum;
}

static const size_t LENGTHS[] = {1, 5, 64, 65, 130};
static const double MULTIPLIERS[] = {1, 1. / 8, .3};

/* The other head's entries are unchanged. */
static void assert_others_untouched(const real *x, size_t T, size_t stride, double value, const char *name) {
    for (size_t i = 0; i < T * stride; i++)
        if (i % stride % HD / D != HEAD) assert_close(x[i], value, 0, "%s[%zu] of the other head", name, i);
}

/* Copies (T, D) out of a fused buffer. */
static real *compact(const real *x, size_t T, size_t stride) {
    real *packed = reals(T * D);
    for (size_t i = 0; i < T * D; i++) packed[i] = x[i / D * stride + i % D];
    return packed;
}

static void each_length(void (*check)(Case *a)) {
    for (size_t n = 0; n < COUNT_OF(LENGTHS) * COUNT_OF(MULTIPLIERS) * 2; n++) {
        Case a = attention_start(LENGTHS[n / 6], MULTIPLIERS[n / 2 % 3], n % 2 ? .25 : 0, 1);
        check(&a);
        support_release(NULL);
    }
}

static void check_forward(Case *a) {
    const size_t T = a->shape.T;
    real *out = filled_reals(T * HD, -7), *max = reals(T), *sum = reals(T);
    forward(a);
    reference_attention(out + HEAD * D, max, sum, a->q, a->k, a->v, &a->shape);
    assert_all_close(a->out, out, T * HD, 1e-13, "out");
    assert_all_close(a->row_max, max, T, 1e-13, "row_max");
    assert_all_close(a->row_sum, sum, T, 1e-13, "row_sum");
}
static void attention_is_the_naive_one(void **state) { (void)state, each_length(check_forward); }

static void check_backward(Case *a) {
    const size_t T = a->shape.T;
    forward(a);
    real *d = filled_reals(T * STRIDE, -7), *dq = d + HEAD * D, *dk = dq + HD, *dv = dk + HD;
    for (size_t i = 0; i < T * STRIDE; i++) d[i] = i % HD / D == HEAD ? NAN : -7;
    memset(a->scratch, 0xff, attention_scratch(&a->attention, T) * sizeof(real)); /* NaNs: nothing may be kept there */
    backward(a, d);
    assert_others_untouched(d, T, STRIDE, -7, "dqkv");
    struct {
        const char *name;
        real *x;
        const real *gradient;
    } inputs[] = {{"q", a->q, dq}, {"k", a->k, dk}, {"v", a->v, dv}};
    for (size_t n = 0; n < 3; n++) {
        real *analytic = compact(inputs[n].gradient, T, STRIDE);
        if (T == 1 && n < 2) { /* one key has weight 1, whatever its score */
            assert_that(max_abs(analytic, D) < 1e-14, "d%s vanishes at T = 1", inputs[n].name);
            continue;
        }
        for (size_t t = 0, rows = T; t < rows; t++)
            for (size_t i = 0; i < D; i++)
                assert_close(analytic[t * D + i], difference(attention_loss, a, inputs[n].x + t * STRIDE + i, 1e-3),
                             1e-7 * max_abs(analytic, T * D), "d%s[%zu,%zu], T = %zu, multiplier %g", inputs[n].name, t,
                             i, T, a->shape.multiplier);
    }
}
static void attention_gradient(void **state) { (void)state, each_length(check_backward); }

/* With the weights as constants dv is what it is otherwise, and nothing reaches the queries and keys. */
static void check_constant(Case *a) {
    const size_t T = a->shape.T;
    real *d = reals(T * STRIDE), *constant = filled_reals(T * STRIDE, NAN);
    forward(a);
    backward(a, d);
    a->attention.constant_weights = true;
    backward(a, constant);
    for (size_t i = 0; i < T * STRIDE; i++)
        if (i % HD / D == HEAD) assert_true(constant[i] == (i % STRIDE < 2 * HD ? 0 : d[i]));
}
static void constant_weights(void **state) { (void)state, each_length(check_constant); }

/* Weights are positive and sum to 1, so v = 1 gives 1 and every output lies among the values seen. */
static void check_convex(Case *a) {
    if (dropout_is_on(&a->shape.dropout)) return;
    const size_t T = a->shape.T;
    forward(a);
    for (size_t d = 0; d < D; d++) {
        double low = INFINITY, high = -INFINITY;
        for (size_t t = 0; t < T; t++) {
            low = fmin(low, a->v[t * STRIDE + d]), high = fmax(high, a->v[t * STRIDE + d]);
            double o = a->out[t * HD + HEAD * D + d];
            assert_that(o >= low - 1e-14 && o <= high + 1e-14, "out[%zu,%zu] is among the values", t, d);
        }
    }
    for (size_t t = 0; t < T; t++)
        for (size_t d = 0; d < D; d++) a->v[t * STRIDE + d] = 1;
    forward(a);
    for (size_t i = 0; i < T * D; i++) assert_close(a->out[i / D * HD + HEAD * D + i % D], 1, 1e-14, "sum of weights");
}
static void attention_weights_are_convex(void **state) { (void)state, each_length(check_convex); }

static void check_causal(Case *a) {
    const size_t T = a->shape.T;
    for (size_t cut = 0; cut<T; cut += T> 10 ? 31 : 2) { /* positions up to `cut` do not see what comes after */
        forward(a);
        real *before = copied_reals(a->out, T * HD), *max = copied_reals(a->row_max, T),
             *sum = copied_reals(a->row_sum, T);
        for (size_t j = cut + 1; j < T; j++)
            for (size_t d = 0; d < D; d++) a->k[j * STRIDE + d] *= -30, a->v[j * STRIDE + d] += 1e3;
        forward(a);
        assert_memory_equal(before, a->out, (cut + 1) * HD * sizeof(real));
        assert_memory_equal(max, a->row_max, (cut + 1) * sizeof(real));
        assert_memory_equal(sum, a->row_sum, (cut + 1) * sizeof(real));
    }
}
static void attention_is_causal(void **state) { (void)state, each_length(check_causal); }

/* Scores in the ten thousands: one key has all the weight, and neither pass overflows. */
static void attention_with_huge_scores(void **state) {
    (void)state;
    const size_t T = 70;
    Case a = attention_start(T, 1, 0, 100);
    check_forward(&a);
    real *d = reals(T * STRIDE);
    backward(&a, d);
    assert_that(isfinite(max_abs(d, T * STRIDE)), "gradients of huge scores are finite");
}

static void attention_scores_for_measurements(void **state) {
    (void)state;
    static const size_t ranges[][2] = {{0, 1}, {0, 130}, {64, 10}, {129, 1}, {30, 50}};
    const Case a = attention_start(130, .3, 0, 1);
    const AttentionArrays layer = layer_of(&a);
    for (size_t n = 0; n < COUNT_OF(ranges); n++) {
        const size_t first = ranges[n][0], count = ranges[n][1], keys = first + count;
        real *scores = filled_reals(count * keys, NAN);
        for (ScoreStage stage = SCORES_RAW; stage <= SCORES_MODIFIED; stage++) {
            const double of_modified = stage == SCORES_RAW ? .3 : 1;
            attention_scores(&layer, HEAD, first, count, stage, scores, NULL, a.scratch);
            for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j <= first + i; j++)
                    assert_close(scores[i * keys + j] * of_modified, reference_score(a.q, a.k, &a.shape, first + i, j),
                                 1e-14, "score of %zu for %zu", first + i, j);
        }
    }
}

/* Counts the kept entries of `count`, which must be 1 / (1 - p); all others must be 0. */
static size_t kept(const real *mask, size_t count, double p) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (mask[i] == 0) continue;
        assert_close(mask[i], 1 / (1 - p), 1e-15 / (1 - p), "mask[%zu]", i);
        sum++;
    }
    return sum;
}

static void dropout_share(void **state) {
    (void)state;
    static const double probabilities[] = {.001, .1, .2, .5, .9, .999};
    enum { COUNT = 200000 };
    for (size_t n = 0; n < COUNT_OF(probabilities); n++) {
        const double p = probabilities[n], sigma = sqrt(p * (1 - p) * COUNT);
        Dropout dropout = dropout_make(p, 1, 2, 3);
        real *mask = filled_reals(mask_room(COUNT), NAN);
        assert_that(dropout_is_on(&dropout), "p = %g", p);
        dropout_mask(&dropout, 0, mask, COUNT);
        assert_close((double)kept(mask, COUNT, p), (1 - p) * COUNT, 5 * sigma, "kept of %d at p = %g", COUNT, p);
        double mean = 0;
        for (size_t i = 0; i < COUNT; i++) mean += mask[i] / COUNT;
        assert_close(mean, 1, 5 * sigma / COUNT / (1 - p), "mean of the mask at p = %g", p);
    }
}

/* Masks that differ in one thing are independent: they agree in p^2 + (1 - p)^2 = 1/2 of their entries. */
static void dropout_masks_differ(void **state) {
    (void)state;
    enum { COUNT = 10000 };
    const uint64_t high = 1;
    const struct {
        const char *what;
        uint64_t seed, step, row;
        uint32_t site;
    } others[] = {
        {"seed", 2, 0, 0, 0},
        {"seed, high half", 1 + (high << 32), 0, 0, 0},
        {"step", 1, 1, 0, 0},
        {"step 2^20", 1, high << 20, 0, 0},
        {"step 2^32", 1, high << 32, 0, 0},
        {"step 2^43", 1, high << 43, 0, 0},
        {"site", 1, 0, 0, 1},
        {"site 4095", 1, 0, 0, 4095},
        {"row", 1, 0, 1, 0},
        {"row 2^20", 1, 0, high << 20, 0},
        {"row 2^32", 1, 0, high << 32, 0},
    };
    real *first = reals(mask_room(COUNT)), *mask = reals(mask_room(COUNT));
    Dropout dropout = dropout_make(.5, 1, 0, 0);
    dropout_mask(&dropout, 0, first, COUNT);
    dropout_mask(&dropout, 0, mask, COUNT);
    assert_memory_equal(first, mask, COUNT * sizeof(real));
    dropout_mask(&dropout, 0, mask, 777); /* and the entry does not depend on the length */
    assert_memory_equal(first, mask, COUNT * sizeof(real));
    for (size_t n = 0; n < COUNT_OF(others); n++) {
        dropout = dropout_make(.5, others[n].seed, others[n].step, others[n].site);
        dropout_mask(&dropout, others[n].row, mask, COUNT);
        double same = 0;
        for (size_t i = 0; i < COUNT; i++) same += mask[i] == first[i];
        assert_close(same, COUNT / 2, 5 * sqrt(COUNT * .25), "agreement with another %s", others[n].what);
    }
}

/* Column 64 p + 16 k + b of a mask is word k of Philox block 16 p + b of its row, as src/ops/dropout.c says, whichever
   instructions draw it. */
static void dropout_words(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static const uint64_t rows[] = {0, 1, 4095, 4096, 0x123456789a};
    const Dropout dropout = dropout_make(.3, 0x123456789abc, (uint64_t)5 << 33 | 7, 4095);
    real *mask = reals(mask_room(COUNT));
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        dropout_mask(&dropout, rows[r], mask, COUNT);
        for (uint32_t j = 0; j < COUNT; j++) {
            uint32_t words[4] = {j / 64 * 16 + j % 16 + ((uint32_t)rows[r] << 20), (uint32_t)(rows[r] >> 12),
                                 dropout.rng.stream, dropout.rng.purpose};
            philox4x32(words, dropout.rng.key[0], dropout.rng.key[1]);
            assert_true(mask[j] == (words[j % 64 / 16] < dropout.threshold ? 0 : dropout.scale));
        }
    }
}

static void dropout_over_rows(void **state) {
    (void)state;
    enum { ROWS = 5, N = 37, FIRST = 11 };
    real *x = normal_reals(ROWS * N, 1), *y = filled_reals(ROWS * N, NAN), *mask = reals(mask_room(N));
    Dropout dropout = dropout_make(.3, 1, 2, 3);
    dropout_rows(y, x, NULL, &dropout, FIRST, ROWS, N);
    for (size_t r = 0; r < ROWS; r++) {
        dropout_mask(&dropout, FIRST + r, mask, N);
        for (size_t i = 0; i < N; i++) assert_close(y[r * N + i], x[r * N + i] * mask[i], 1e-15, "y[%zu,%zu]", r, i);
    }
    real *in_place = copied_reals(x, ROWS * N);
    dropout_rows(in_place, in_place, NULL, &dropout, FIRST, ROWS, N);
    assert_memory_equal(in_place, y, ROWS * N * sizeof(real));
    Dropout off = dropout_make(0, 1, 2, 3);
    assert_false(dropout_is_on(&off));
    dropout_rows(y, x, NULL, &off, FIRST, ROWS, N);
    assert_memory_equal(y, x, ROWS * N * sizeof(real));
    memcpy(in_place, x, ROWS * N * sizeof *x);
    dropout_rows(in_place, in_place, NULL, &off, FIRST, ROWS, N);
    assert_memory_equal(in_place, y, ROWS * N * sizeof(real));

    real *residual = normal_reals(ROWS * N, 1), *sum = reals(ROWS * N);
    const Dropout *both[] = {&dropout, &off};
    for (size_t n = 0; n < 2; n++) {
        dropout_rows(y, x, NULL, both[n], FIRST, ROWS, N);
        dropout_rows(sum, x, residual, both[n], FIRST, ROWS, N);
        for (size_t i = 0; i < ROWS * N; i++) assert_close(sum[i], residual[i] + y[i], 1e-15, "sum[%zu]", i);
        memcpy(in_place, x, ROWS * N * sizeof *x);
        dropout_rows(in_place, in_place, residual, both[n], FIRST, ROWS, N);
        assert_memory_equal(in_place, sum, ROWS * N * sizeof(real));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(attention_is_the_naive_one),
        TEST(attention_gradient),
        TEST(constant_weights),
        TEST(attention_weights_are_convex),
        TEST(attention_is_causal),
        TEST(attention_with_huge_scores),
        TEST(attention_scores_for_measurements),
        TEST(dropout_share),
        TEST(dropout_masks_differ),
        TEST(dropout_words),
        TEST(dropout_over_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
