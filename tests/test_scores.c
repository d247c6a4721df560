/* Other ways to score, apart from their gradients: rounding to a format, QK-clip over a whole step, and the head that
   is named when a loss is not finite. Gradients are in test_gradients.c, PyTorch's numbers in test_torch.c. */
#include "support.h"
#include "training_pass.h"

#include "gemm/bf16.h"
#include "model/attention.h"
#include "model/initialization.h"
#include "model/transformer.h"

static real rounded(Precision precision, real x, AttentionRounding *counts) {
    round_scores(precision, &x, 1, counts);
    return x;
}

/* Ties go to the even neighbour, in subnormals too. */
static void rounding(void) {
    static const struct {
        Precision precision;
        float x, expected;
        int overflows, subnormals;
    } CASES[] = {
        {PRECISION_FP32, 1.1f, 1.1f, 0, 0},
        {PRECISION_FP32, 1e-40f, 1e-40f, 0, 0},
        {PRECISION_FP16, 1 + 0x1p-11f, 1, 0, 0},
        {PRECISION_FP16, 1 + 3 * 0x1p-11f, 1 + 0x1p-9f, 0, 0},
        {PRECISION_FP16, -(1 + 0x1.8p-11f), -(1 + 0x1p-10f), 0, 0},
        {PRECISION_FP16, 65504, 65504, 0, 0},
        {PRECISION_FP16, 65519.99f, 65504, 0, 0},
        {PRECISION_FP16, 65520, INFINITY, 1, 0},
        {PRECISION_FP16, -1e30f, -INFINITY, 1, 0},
        {PRECISION_FP16, 0x1p-14f, 0x1p-14f, 0, 0},
        {PRECISION_FP16, 0x1p-14f - 0x1p-26f, 0x1p-14f, 0, 0}, /* up to the smallest normal number */
        {PRECISION_FP16, 0x1p-15f, 0x1p-15f, 0, 1},
        {PRECISION_FP16, 0x1.8p-24f, 0x1p-23f, 0, 1},
        {PRECISION_FP16, -0x1p-25f, -0.0f, 0, 1},
        {PRECISION_FP16, 0x1.02p-25f, 0x1p-24f, 0, 1},
        {PRECISION_FP16, 0, 0, 0, 0},
        {PRECISION_BF16, 1 + 0x1p-8f, 1, 0, 0},
        {PRECISION_BF16, 1 + 3 * 0x1p-8f, 1 + 0x1p-6f, 0, 0},
        {PRECISION_BF16, 65520, 65536, 0, 0},
        {PRECISION_BF16, 0x1.fffffep127f, INFINITY, 1, 0},
        {PRECISION_BF16, 1e-40f, 0x1p-133f, 0, 1},
        {PRECISION_FP16, INFINITY, INFINITY, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        AttentionRounding counts = {0};
        const float y = (float)rounded(CASES[i].precision, CASES[i].x, &counts);
        assert_that(y == CASES[i].expected && signbit(y) == signbit(CASES[i].expected), "case %zu: %a", i, (double)y);
        assert_true(counts.overflows == CASES[i].overflows && counts.subnormals == CASES[i].subnormals);
    }
    assert_true(isnan(rounded(PRECISION_FP16, NAN, NULL)) && isnan(rounded(PRECISION_BF16, NAN, NULL)));
}

/* Each query that overflows is counted once, whatever the tiles; all its scores overflow with it. */
static void counts(void) {
    enum { LONG = 70, WIDTH = 3 };
    const AttentionConfig attention = {.H = 1, .D = WIDTH, .divisor = 1, .precision = PRECISION_FP16};
    real *qkv = reals((size_t)LONG * 3 * WIDTH), *scratch = reals(attention_scratch(&attention, LONG));
    real *scores = reals((size_t)LONG * LONG);
    for (size_t i = 0; i < LONG * 3 * WIDTH; i++) qkv[i] = i / WIDTH % 3 == QUERY ? 1e5f : 0x1p-20f;
    const AttentionArrays layer = {.attention = &attention,
                                   .T = LONG,
                                   .qkv = {qkv, (size_t)3 * WIDTH, FORM_REAL},
                                   .out = {reals((size_t)LONG * WIDTH), WIDTH, FORM_REAL}};
    AttentionRounding counts = {0};
    attention_scores(&layer, 0, 0, 64, SCORES_MODIFIED, scores, &counts, scratch);
    attention_scores(&layer, 0, 64, LONG - 64, SCORES_MODIFIED, scores, &counts, scratch);
    assert_true(counts.overflows == LONG * WIDTH && counts.subnormals == LONG * WIDTH);
    assert_true(counts.infinities == LONG * (LONG + 1) / 2);
    /* a key whose score overflowed downwards has no weight, and adds nothing to the entropy */
    double weights[4];
    const SoftmaxRow row = attention_row(&layer, 0, (const real[]){-(real)INFINITY, 1, 1}, 3, weights);
    assert_close(row.entropy, log(2), 1e-12, "entropy of two keys");
}

/* In bf16: queries of every hardness. Key j is the unit vector j, so scores are the entries of a query, and the norm of
   dq is the norm of ds that training multiplies by the keys, which rounding changes by at most 2^-8 of itself. It is
   what is logged, and zero where one key has all the weight, though do has more digits than bf16. */
static void hard_rows_in_bf16(void) {
    enum { N = 128, ONE_HOT = 64 }; /* two tiles; the queries from the second on see one key alone */
    static const AttentionConfig attention = {.H = 1, .D = N, .divisor = 1, .rounds = true};
    real *qkv = reals((size_t)N * 3 * N), *dout = normal_reals((size_t)N * N, 1);
    const real *normal = normal_reals((size_t)N * N, 1), *v = normal_reals((size_t)N * N, 1);
    for (size_t i = 0; i < N; i++) {
        real *q = qkv + i * 3 * N, *k = q + N;
        for (size_t d = 0; d < N && i < ONE_HOT; d++) q[d] = normal[i * N + d] * (real)i;
        if (i >= ONE_HOT) q[i / 2] = 1000;
        k[i] = 1;
        memcpy(k + N, v + i * N, N * sizeof *k);
    }
    Bf16 *rounded = (Bf16 *)reals((size_t)(N + 15) * 3 * N), *dqkv = (Bf16 *)reals((size_t)N * 3 * N);
    bf16_round(rounded, (size_t)3 * N, qkv, (size_t)3 * N, N, (size_t)3 * N);
    AttentionArrays layer = {.attention = &attention,
                             .T = N,
                             .qkv = {rounded, (size_t)3 * N, FORM_BF16},
                             .out = {reals((size_t)N * N), N, FORM_BF16},
                             .dqkv = {dqkv, (size_t)3 * N, FORM_BF16},
                             .saved = {reals(N), reals(N), reals(1)}};
    real *scratch = reals(attention_scratch(&attention, N));
    const double largest = 4 * sqrt(2 * N); /* of |do . v| */
    double used[N], logged[N];
    for (int dropped = 0; dropped < 2; dropped++) {
        if (dropped) layer.dropout = dropout_make(.2, 1, 2, 3);
        attention_pairs_forward(&layer, (Range){0, 1}, scratch);
        attention_pairs_backward(&layer, (Range){0, 1}, dout, scratch);
        for (size_t first = 0; first < N; first += ATTENTION_TILE)
            attention_gradient_norms(&layer, 0, dout, first, ATTENTION_TILE, used + first, logged + first, scratch);
        for (size_t i = 0; i < N; i++) {
            if (!dropped) assert_close(used[i], logged[i], 0x1p-8 * logged[i] + 1e-6 * largest, "query %zu", i);
            if (i >= ONE_HOT) assert_close(used[i], 0, dropped ? 1e-6 * largest : 0, "query %zu, one-hot", i);
        }
    }
}

enum { T = 70, C = 12, H = 3, D = 5, V = 9, L = 2, STEPS_B = SLICE_ROWS / T + 3 /* two slices */ };

static Model model;
static int32_t *ids;

static void start(AttentionConfig attention) {
    attention.H = H, attention.D = D, attention.qk_init_scale = attention.qk_lr_scale = 1;
    if (attention.divisor == 0) attention.divisor = 1;
    const ModelShape shape = {
        .T = T, .C = C, .F = 7, .V = V, .L = L, .attention = attention, .pre_norm = true, .bias = true, .tied = true};
    model_make(&model, &shape, STEPS_B, 2, true);
    tensors_initialize(&model.tensors, &shape, INIT_TORCH, 3, 1, model.parameters);
    ids = memory_make((size_t)4 * STEPS_B * T, sizeof *ids, "the tokens");
    random_tokens(ids, 4 * STEPS_B * T, V);
}
/* Makes micro-batch 0 or 1 of a step. */
static double backward(size_t micro, bool first) {
    const int32_t *own = ids + 2 * micro * STEPS_B * T;
    const Pass pass = training_pass(1, micro, .5, first);
    return model_pass(&model, &(Batch){own, own + STEPS_B * T, STEPS_B, T}, &pass);
}

/* The largest score of a step is over its slices and micro-batches; after the clip the first layer, whose input stays
   as it is, has no larger one than the limit, and heads below it have the bits that they had. */
static void qk_clip(void) {
    real each[2][L * H], whole[L * H];
    start((AttentionConfig){0});
    for (size_t micro = 0; micro < 2; micro++) {
        backward(micro, true);
        memcpy(each[micro], model.score_max, sizeof whole);
    }
    backward(0, true);
    backward(1, false);
    memcpy(whole, model.score_max, sizeof whole);
    real least = INFINITY, most = 0;
    for (size_t i = 0; i < H; i++) {
        assert_true(whole[i] == fmaxf(each[0][i], each[1][i]));
        least = whole[i] < least ? whole[i] : least, most = whole[i] > most ? whole[i] : most;
    }
    const double limit = (double)(least + most) / 2;
    const real *before = copied_reals(model.parameters, model.tensors.flat);
    model_qk_clip(&model, limit);
    const Tensor *w = tensor_find(&model.tensors, ATTN_W, 0);
    for (size_t i = w->offset; i < w->offset + w->count; i++) {
        const size_t column = (i - w->offset) % w->width, head = column / D % H;
        const bool clipped = column < 2 * H * D && (double)whole[head] > limit;
        assert_true((model.parameters[i] != before[i]) == clipped);
    }
    backward(0, true);
    backward(1, false);
    for (size_t i = 0; i < H; i++)
        assert_close(model.score_max[i], fmin((double)whole[i], limit), 1e-5 * limit, "head %zu", i);
}

/* Two heads of the second layer get huge queries: scores of fp16 overflow there, and the first of them is named. */
static void not_finite(void) {
    start((AttentionConfig){.precision = PRECISION_FP16});
    assert_true(isfinite(backward(0, true)) && model_find_not_finite(&model) == SIZE_MAX);
    real *bias = tensor_at(&model.tensors, model.parameters, ATTN_B, 1);
    for (size_t i = D; i < 3 * D; i++) bias[i] = 6e4f;
    for (size_t i = (H + 1) * D; i < (H + 3) * D; i++) bias[i] = 6e4f;
    assert_true(isnan(backward(0, true)) && model_find_not_finite(&model) == H + 1);
}

/* A NaN or an infinity at one position leaves the logits of earlier positions as they are. */
static void not_finite_later(void) {
    static const real numbers[] = {NAN, INFINITY};
    static const size_t positions[] = {1, 5, 63, 66}; /* one is in the second tile */
    for (size_t n = 0; n < 2 * COUNT_OF(positions) * COUNT_OF(numbers); n++) {
        const size_t position = positions[n / 4];
        start((AttentionConfig){.rounds = n % 2});
        real *before = reals((size_t)T * V);
        model_forward(&model, &(Batch){.tokens = ids, .B = 1, .T = T});
        memcpy(before, model.logits.values, (size_t)T * V * sizeof *before);
        tensor_at(&model.tensors, model.parameters, WPE, 0)[position * C] = numbers[n / 2 % 2];
        model_forward(&model, &(Batch){.tokens = ids, .B = 1, .T = T});
        for (size_t i = 0; i < position * V; i++)
            assert_close(model.logits.values[i], before[i], 1e-5, "position %zu of %zu, bf16 %zu", i / V, position,
                         n % 2);
        assert_true(isnan(model.logits.values[position * V]));
        support_release(NULL);
    }
}

/* Positions after cached ones have the logits that they have in a whole pass, however scores are made: a few at a time,
   one, and more than a tile of queries. */
static void cached(void) {
    static const AttentionConfig ways[] = {{0},
                                           {.score = SCORE_ADDITIVE},
                                           {.qk_norm = QK_NORM_LAYER, .learned = LEARNED_HEAD},
                                           {.length = LENGTH_LOG, .softcap = 2},
                                           {.sink = SINK_LEARNED},
                                           {.precision = PRECISION_BF16}};
    static const size_t ends[] = {2, 3, 69, T};
    for (size_t way = 0; way < COUNT_OF(ways); way++) {
        start(ways[way]);
        real *whole = reals((size_t)T * V);
        model_forward(&model, &(Batch){.tokens = ids, .B = 1, .T = T});
        memcpy(whole, model.logits.values, (size_t)T * V * sizeof *whole);
        for (size_t i = 0, begin = 0; i < COUNT_OF(ends); begin = ends[i++]) {
            model_pass(&model, &(Batch){ids, NULL, 1, ends[i]}, &(Pass){.cached = begin});
            for (size_t at = begin * V; at < ends[i] * V; at++)
                assert_close(model.logits.values[at], whole[at], 1e-5, "way %zu, position %zu", way, at / V);
        }
        support_release(NULL);
    }
}

int main(void) {
    return RUN_TESTS(TEST(rounding), TEST(counts), TEST(hard_rows_in_bf16), TEST(cached), TEST(qk_clip),
                     TEST(not_finite), TEST(not_finite_later));
}
