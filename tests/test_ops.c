/* The layers of ops/ in double precision, where gradients of a whole model do not show enough: their limits, dropout's
   masks, and attention with dropout against the naive O(T^2) form, for lengths below, at and above one tile of
   queries. Gradients are compared with differences and with the plain engine's in test_gradients.c. */
#include "support.h"

#include "model/attention.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/layernorm.h"

static void layernorm_extremes(void) {
    real x[4] = {3, -1, 0, 7}, gamma[4] = {2, 2, 2, 2}, beta[4] = {.5, .5, .5, .5}, y[4], mean[4], rstd[4];
    real dy[4] = {1, 2, 3, 4}, dx[4], residual[4] = {9, 8, 7, 6};
    layernorm_rows(y, mean, rstd, x, gamma, beta, 4, 1);
    layernorm_rows_backward(dx, residual, dy, x, gamma, mean, rstd, 4, 1);
    for (int i = 0; i < 4; i++) assert_true(y[i] == .5 && dx[i] == residual[i]);

    real constant[4] = {.1, .1, .1, .1};
    layernorm_rows(y, mean, rstd, constant, gamma, beta, 1, 4);
    assert_close(rstd[0], 1 / sqrt(1e-5), 1e-9, "rstd of a constant row");
    for (int i = 0; i < 4; i++) assert_close(y[i], .5, 1e-12, "y of a constant row [%d]", i);

    real *far = normal_reals(40, 1), *near = copied_reals(far, 40), *one = filled_reals(40, 1);
    for (int i = 0; i < 40; i++) far[i] = near[i] + 1e6;
    real *y_far = reals(40), *y_near = reals(40);
    layernorm_rows(y_far, mean, rstd, far, one, NULL, 1, 40);
    layernorm_rows(y_near, mean, rstd, near, one, NULL, 1, 40);
    assert_all_close(y_far, y_near, 40, 1e-8, "y with a mean of a million");
}

/* Both activation functions at 0, far out, and where a number is none. */
static void activation_extremes(void) {
    real x[6] = {0, -0.0, NAN, 5, -1000, 1000}, dy[6] = {3, 3, 3, NAN, 3, 3}, y[6], dx[6], derivative[6];
    ACTIVATIONS[ACTIVATION_RELU].forward(y, derivative, x, 6);
    activation_backward(dx, dy, derivative, 6);
    assert_that(y[0] == 0 && y[1] == 0 && dx[0] == 0 && dx[1] == 0, "ReLU at 0");
    assert_that(isnan(y[2]) && isnan(dx[3]), "ReLU keeps NaN");
    ACTIVATIONS[ACTIVATION_GELU].forward(y, derivative, x, 6);
    activation_backward(dx, dy, derivative, 6);
    assert_that(y[0] == 0 && isnan(y[2]) && isnan(dx[2]) && isnan(dx[3]), "GELU at 0 and NaN");
    assert_that(y[4] == 0 && y[5] == 1000 && dx[4] == 0 && dx[5] == 3, "GELU far out");
}

static void cross_entropy_extremes(void) {
    enum { V = 5 };
    static const struct {
        real logits[V];
        int32_t target;
        double loss;
    } cases[] = {
        {{1e4, 0, 0, 0, 0}, 0, 0},
        {{1e4, 0, 0, 0, 0}, 3, 1e4},
        {{-1e4, -1e4, -1e4, -1e4, -1e4}, 2, 1.6094379124341003}, /* ln 5 */
        {{0, 0, 0, 0, 0}, 4, 1.6094379124341003},
        {{1e4, -1e4, 1e4, -1e4, 0}, 0, 0.69314718055994531}, /* ln 2 */
        {{-1e4, 0, -1e4, -1e4, -1e4}, 0, 1e4},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        real logits[V], loss, sum;
        memcpy(logits, cases[n].logits, sizeof logits);
        cross_entropy_rows(&loss, &sum, logits, &cases[n].target, 1, V);
        assert_close(loss, cases[n].loss, 1e-15 * fmax(cases[n].loss, 1), "loss of case %zu", n);
        cross_entropy_rows_backward(logits, &sum, &cases[n].target, 1, 1, V);
        assert_that(max_abs(logits, V) <= 1, "gradient of case %zu is finite and below 1", n);
    }
    for (size_t size = 1; size <= 1000; size += 37) {
        real *logits = filled_reals(size, -3.25), loss, sum;
        int32_t target = (int32_t)size - 1;
        cross_entropy_rows(&loss, &sum, logits, &target, 1, size);
        assert_close(loss, log((double)size), 2e-15, "uniform logits, V = %zu", size);
    }
    real bad[2] = {NAN, 1}, loss, sum;
    cross_entropy_rows(&loss, &sum, bad, &(int32_t){1}, 1, 2);
    assert_that(isnan(loss), "a NaN among the logits stays one");
}

/* --- attention */

enum { H = 2, D = 3, HEAD = 1, HD = H * D, STRIDE = 3 * HD }; /* the second of two heads */

typedef struct {
    size_t T;
    AttentionConfig attention;
    Dropout dropout;
    real *qkv, *out, *row_max, *row_sum, *pair_max, *scratch;
} Case;

static Case attention_start(size_t T, double divisor, double dropout, double deviation) {
    Case a = {.T = T, .attention = {.H = H, .D = D, .divisor = divisor}};
    a.dropout = dropout_make(dropout, 5, 77, 3);
    a.qkv = normal_reals(T * STRIDE, deviation), a.out = filled_reals(T * HD, -7);
    a.row_max = filled_reals(H * T, NAN), a.row_sum = filled_reals(H * T, NAN), a.pair_max = filled_reals(H, NAN);
    a.scratch = filled_reals(attention_scratch(&a.attention, T), NAN);
    return a;
}

static AttentionArrays layer_of(const Case *a) {
    return (AttentionArrays){.attention = &a->attention,
                             .T = a->T,
                             .qkv = {a->qkv, STRIDE, FORM_REAL},
                             .out = {a->out, HD, FORM_REAL},
                             .saved = {a->row_max, a->row_sum, a->pair_max},
                             .dropout = a->dropout,
                             .batch_row = 1000};
}

/* Compares one head's output, maxima and sums with what the formulas give; the other head's are unchanged. */
static void check_forward(const Case *a) {
    const AttentionArrays layer = layer_of(a);
    const size_t T = a->T;
    const real *q = a->qkv + HEAD * D, *k = q + HD, *v = k + HD;
    real *out = filled_reals(T * HD, -7), *mask = reals(mask_room(T));
    double *weights = memory_make(T, sizeof *weights, "an array");
    attention_pairs_forward(&layer, (Range){HEAD, HEAD + 1}, a->scratch);
    for (size_t i = 0; i < T; i++) {
        double max = -INFINITY, sum = 0;
        for (size_t j = 0; j <= i; j++) {
            weights[j] = dot(q + i * STRIDE, k + j * STRIDE, D) / a->attention.divisor;
            max = fmax(max, weights[j]);
        }
        for (size_t j = 0; j <= i; j++) sum += weights[j] = exp(weights[j] - max);
        if (dropout_is_on(&a->dropout)) dropout_mask(&a->dropout, 1000 * H + HEAD * T + i, mask, i + 1);
        for (size_t d = 0; d < D; d++) {
            double o = 0;
            for (size_t j = 0; j <= i; j++)
                o += weights[j] / sum * (double)v[j * STRIDE + d] * (dropout_is_on(&a->dropout) ? (double)mask[j] : 1);
            out[i * HD + HEAD * D + d] = (real)o;
        }
        assert_close(a->row_max[HEAD * T + i], max, 1e-13 * fmax(1, fabs(max)), "row_max[%zu]", i);
        assert_close(a->row_sum[HEAD * T + i], sum, 1e-13 * sum, "row_sum[%zu]", i);
    }
    assert_all_close(a->out, out, T * HD, 1e-13, "out");
}

static void attention_is_the_naive_one(void) {
    static const size_t lengths[] = {1, 5, 64, 65, 130};
    static const double divisors[] = {1, 8, 3.7};
    for (size_t n = 0; n < COUNT_OF(lengths) * COUNT_OF(divisors) * 2; n++) {
        const Case a = attention_start(lengths[n / 6], divisors[n / 2 % 3], n % 2 ? .25 : 0, 1);
        check_forward(&a);
        support_release(NULL);
    }
}

/* Scores in the ten thousands: one key has all the weight, and neither pass overflows. */
static void attention_with_huge_scores(void) {
    const size_t T = 70;
    const Case a = attention_start(T, 1, 0, 100);
    AttentionArrays layer = layer_of(&a);
    real *d = reals(T * STRIDE);
    layer.dqkv = (Operand){d, STRIDE, FORM_REAL};
    check_forward(&a);
    attention_pairs_backward(&layer, (Range){HEAD, HEAD + 1}, normal_reals(T * HD, 1), a.scratch);
    assert_that(isfinite(max_abs(d, T * STRIDE)), "gradients of huge scores are finite");
}

/* --- dropout */

/* Masks that differ in one thing are independent: they agree in p^2 + (1 - p)^2 = 1/2 of their entries. */
static void dropout_masks_differ(void) {
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

/* Sixteen bits below p 2^16 drop their entry; all others are multiplied by 1 / (1 - p). Column 128 p + 32 k + b of a
   mask is the lower half of word k of Philox block 16 p + b of its row, and column 128 p + 32 k + 16 + b the upper
   half, as src/ops/dropout.c says, whichever instructions draw it. */
static void dropout_words(void) {
    enum { COUNT = 300 };
    static const uint64_t rows[] = {0, 1, 4095, 4096, 0x123456789a};
    static const double probabilities[] = {.001, .1, .2, .5, .9, .999};
    for (size_t n = 0; n < COUNT_OF(probabilities); n++) {
        const Dropout d = dropout_make(probabilities[n], 1, 2, 3);
        const double p = d.threshold / 0x1p16;
        assert_true(dropout_is_on(&d) && fabs(p - probabilities[n]) <= 0x1p-17);
        assert_close(d.scale, 1 / (1 - p), 1e-15 / (1 - p), "p = %g", probabilities[n]);
    }
    const Dropout dropout = dropout_make(.3, 0x123456789abc, (uint64_t)5 << 33 | 7, 4095);
    real *mask = reals(mask_room(COUNT));
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        dropout_mask(&dropout, rows[r], mask, COUNT);
        for (uint32_t j = 0; j < COUNT; j++) {
            uint32_t words[4] = {j / 128 * 16 + j % 16 + ((uint32_t)rows[r] << 20), (uint32_t)(rows[r] >> 12),
                                 dropout.rng.stream, dropout.rng.purpose};
            philox4x32(words, dropout.rng.key[0], dropout.rng.key[1]);
            const uint32_t word = words[j % 128 / 32], bits = j % 32 < 16 ? word & 0xffff : word >> 16;
            assert_true(mask[j] == (bits < dropout.threshold ? 0 : dropout.scale));
        }
    }
}

static void dropout_over_rows(void) {
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
    return RUN_TESTS(TEST(layernorm_extremes), TEST(activation_extremes), TEST(cross_entropy_extremes),
                     TEST(attention_is_the_naive_one), TEST(attention_with_huge_scores), TEST(dropout_masks_differ),
                     TEST(dropout_words), TEST(dropout_over_rows));
}
