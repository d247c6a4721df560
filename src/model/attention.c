#include "model/attention.h"

#include <math.h>

#include "ops/lanes.h"
#include "ops/matmul.h"

/* Rows of a panel are as long as whole vectors of any machine: a row's last one is filled up with what does no harm. */
static size_t whole_lanes(size_t n) { return (n + LANES - 1) / LANES * LANES; }

size_t attention_scratch(size_t T) { return (2 * ATTENTION_BLOCK + 1) * whole_lanes(T); }

/* One head of one sequence: where its rows lie. */
typedef struct {
    size_t D, stride, out_stride; /* stride: between rows of q, k, v and their gradients; out_stride: of out and its */
    const real *q, *k, *v;        /* (T,D) */
    size_t at, out_at;            /* of q in qkv; of its output in out */
    real multiplier;
} Head;

static Head head_of(const AttentionLayer *l, size_t pair) {
    const size_t D = l->attention->D, HD = attention_width_out(l->attention);
    const size_t row = pair / l->attention->H * l->T, column = pair % l->attention->H * D;
    const real *q = l->qkv + row * 3 * HD + column;
    return (Head){.D = D,
                  .stride = 3 * HD,
                  .out_stride = HD,
                  .q = q,
                  .k = q + HD,
                  .v = q + 2 * HD,
                  .at = row * 3 * HD + column,
                  .out_at = row * HD + column,
                  .multiplier = l->attention->multiplier};
}

/* The queries first .. first + count - 1 and the keys that the last of them sees. */
typedef struct {
    size_t first, count, keys;
    size_t stride; /* of their panels */
} QueryBlock;

static QueryBlock block_at(size_t T, size_t first) {
    size_t count = T - first < ATTENTION_BLOCK ? T - first : ATTENTION_BLOCK;
    return (QueryBlock){first, count, first + count, whole_lanes(first + count)};
}

/* panel (count, keys) = alpha x y^T of rows of the block and of keys, where key <= query */
static void rows_by_keys(real *panel, const QueryBlock *b, size_t D, real alpha, const real *x, size_t x_stride,
                         const real *y, size_t y_stride) {
    const Product product = {.op_b = TRANSPOSED,
                             .m = b->count,
                             .n = b->keys,
                             .k = D,
                             .lda = x_stride,
                             .ldb = y_stride,
                             .ldc = b->stride,
                             .alpha = alpha,
                             .triangle = LOWER_C,
                             .diagonal = b->first};
    matmul_product(&product, x, y, panel);
}

/* y (count, D) = alpha panel x, of a panel that is zero where key > query */
static void over_keys(real *y, size_t y_stride, const QueryBlock *b, size_t D, real alpha, const real *panel,
                      const real *x, size_t x_stride) {
    const Product product = {.m = b->count,
                             .n = D,
                             .k = b->keys,
                             .lda = b->stride,
                             .ldb = x_stride,
                             .ldc = y_stride,
                             .alpha = alpha,
                             .triangle = LOWER_A,
                             .diagonal = b->first};
    matmul_product(&product, panel, x, y);
}

/* y (keys, D) = alpha panel^T x, or y plus that */
static void over_rows(real *y, size_t y_stride, const QueryBlock *b, size_t D, real alpha, const real *panel,
                      const real *x, size_t x_stride, bool adds) {
    const Product product = {.op_a = TRANSPOSED,
                             .accumulate = adds,
                             .m = b->keys,
                             .n = D,
                             .k = b->count,
                             .lda = b->stride,
                             .ldb = x_stride,
                             .ldc = y_stride,
                             .alpha = alpha,
                             .triangle = UPPER_A,
                             .diagonal = b->first};
    matmul_product(&product, panel, x, y);
}

/* --- Stage 1, the raw score: r_ij = q_i . k_j. `factor` is what the map begins with, see below. */

static void score_forward(real *panel, const Head *h, const QueryBlock *b, real factor) {
    rows_by_keys(panel, b, h->D, factor, h->q + b->first * h->stride, h->stride, h->k, h->stride);
}

/* From dr / factor to dq, overwritten, and dk, overwritten or added to. */
static void score_backward(real *dq, real *dk, const real *panel, const Head *h, const QueryBlock *b, real factor,
                           bool adds) {
    const real *q_block = h->q + b->first * h->stride;
    over_keys(dq + b->first * h->stride, h->stride, b, h->D, factor, panel, h->k, h->stride);
    over_rows(dk, h->stride, b, h->D, factor, panel, q_block, h->stride, adds);
}

/* --- Stage 2, the map: s_ij = multiplier r_ij. It is linear and the same for a whole head, so it costs nothing: stage
   1 multiplies its products by it, on both passes. */

static real map_factor(const Head *h) { return h->multiplier; }

/* --- Stage 3, the normalization: softmax over the visible keys. */

static inline __attribute__((always_inline)) void fill(real *x, size_t from, size_t to, real value) {
    for (size_t j = from; j < to; j++) x[j] = value;
}

/* Scores become weights, and zero where key > query. */
MULTIVERSIONED static void softmax_forward(real *panel, real *row_max, real *row_sum, const QueryBlock *b) {
    for (size_t r = 0; r < b->count; r++) {
        const size_t visible = b->first + r + 1, whole = whole_lanes(visible);
        real *row = panel + r * b->stride;
        fill(row, visible, whole, -(real)INFINITY);
        row_max[r] = lanes_maximum(row, whole);
        row_sum[r] = lanes_exponentials(row, row, whole, row_max[r]);
        lanes_scale(row, whole, 1 / row_sum[r]);
        fill(row, whole, b->stride, 0);
    }
}

/* One row: scores s become the weights p (after dropout), dp becomes ds. */
static inline __attribute__((always_inline)) void backward_row(real *restrict s, real *restrict dp,
                                                               const real *restrict mask, real maximum,
                                                               real one_over_sum, real delta, size_t whole) {
    if (mask) {
        for (size_t j = 0; j < whole; j++) {
            real p = exp_real(s[j] - maximum) * one_over_sum;
            dp[j] = p * (dp[j] * mask[j] - delta);
            s[j] = p * mask[j];
        }
    } else {
        for (size_t j = 0; j < whole; j++) {
            real p = exp_real(s[j] - maximum) * one_over_sum;
            dp[j] = p * (dp[j] - delta);
            s[j] = p;
        }
    }
}

/* Rows `from` to `to` of a block: p from scores to weights, ds from dp to ds, both zero where key > query. The mask is
   of one row; out and dout are the head's, row_max and row_sum the pair's. */
MULTIVERSIONED static void softmax_backward(real *p, real *ds, const real *mask, const real *row_max,
                                            const real *row_sum, const real *out, const real *dout, const Head *h,
                                            const QueryBlock *b, size_t from, size_t to) {
    for (size_t r = from; r < to; r++) {
        const size_t visible = b->first + r + 1, whole = whole_lanes(visible), i = b->first + r;
        const real delta = lanes_dot(dout + i * h->out_stride, out + i * h->out_stride, h->D);
        real *s = p + r * b->stride, *dp = ds + r * b->stride;
        fill(s, visible, whole, -(real)INFINITY);
        fill(dp, visible, whole, 0);
        backward_row(s, dp, mask, row_max[i], 1 / row_sum[i], delta, whole);
        fill(s, whole, b->stride, 0);
        fill(dp, whole, b->stride, 0);
    }
}

/* --- The passes. */

MULTIVERSIONED static void multiply(real *restrict x, const real *restrict mask, size_t n) {
    for (size_t j = 0; j < n; j++) x[j] *= mask[j];
}

/* Of the weights of query i, n entries. */
static void draw_mask(const AttentionLayer *l, size_t pair, size_t i, real *mask, size_t n) {
    dropout_mask(&l->dropout, l->first * l->attention->H + (uint64_t)(pair * l->T + i), mask, n);
}

void attention_forward(const AttentionLayer *l, size_t pair, real *scratch) {
    const Head h = head_of(l, pair);
    real *panel = scratch, *mask = scratch + (size_t)2 * ATTENTION_BLOCK * whole_lanes(l->T);
    for (size_t first = 0; first < l->T; first += ATTENTION_BLOCK) {
        const QueryBlock b = block_at(l->T, first);
        const size_t row = pair * l->T + first;
        score_forward(panel, &h, &b, map_factor(&h));
        softmax_forward(panel, l->row_max + row, l->row_sum + row, &b);
        for (size_t r = 0; dropout_is_on(&l->dropout) && r < b.count; r++) {
            draw_mask(l, pair, first + r, mask, first + r + 1);
            multiply(panel + r * b.stride, mask, first + r + 1);
        }
        over_keys(l->out + h.out_at + first * h.out_stride, h.out_stride, &b, h.D, 1, panel, h.v, h.stride);
    }
}

void attention_backward(const AttentionLayer *l, size_t pair, real *dqkv, const real *dout_of_all, real *scratch) {
    const Head h = head_of(l, pair);
    const size_t HD = attention_width_out(l->attention), blocks = (l->T + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    real *p = scratch, *ds = p + ATTENTION_BLOCK * whole_lanes(l->T), *mask = ds + ATTENTION_BLOCK * whole_lanes(l->T);
    real *dq = dqkv + h.at, *dk = dq + HD, *dv = dk + HD;
    const real *out = l->out + h.out_at, *dout = dout_of_all + h.out_at;
    const real *row_max = l->row_max + pair * l->T, *row_sum = l->row_sum + pair * l->T;
    /* The last block sees every key, so it is taken first and overwrites dk and dv; the others add. */
    for (size_t block = blocks; block-- > 0;) {
        const size_t first = block * ATTENTION_BLOCK;
        const QueryBlock b = block_at(l->T, first);
        const bool adds = block + 1 < blocks;
        const real *dout_block = dout + first * h.out_stride;
        score_forward(p, &h, &b, map_factor(&h));
        rows_by_keys(ds, &b, h.D, 1, dout_block, h.out_stride, h.v, h.stride);
        if (dropout_is_on(&l->dropout))
            for (size_t r = 0; r < b.count; r++) {
                draw_mask(l, pair, first + r, mask, whole_lanes(first + r + 1));
                softmax_backward(p, ds, mask, row_max, row_sum, out, dout, &h, &b, r, r + 1);
            }
        else
            softmax_backward(p, ds, NULL, row_max, row_sum, out, dout, &h, &b, 0, b.count);
        score_backward(dq, dk, ds, &h, &b, map_factor(&h), adds);
        over_rows(dv, h.stride, &b, h.D, 1, p, dout_block, h.out_stride, adds);
    }
}

/* --- What probes ask for. */

void attention_scores(const AttentionLayer *l, size_t pair, size_t first, size_t count, ScoreStage stage,
                      real *scores) {
    const Head h = head_of(l, pair);
    const QueryBlock b = {.first = first, .count = count, .keys = first + count, .stride = first + count};
    score_forward(scores, &h, &b, stage == SCORES_RAW ? 1 : map_factor(&h));
}

MULTIVERSIONED void attention_weights(real *weights, const real *scores, size_t visible) {
    const real sum = lanes_exponentials(weights, scores, visible, lanes_maximum(scores, visible));
    for (size_t j = 0; j < visible; j++) weights[j] /= sum;
}

static double length(const real *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* |ds| of one row, in double whatever `real` is. */
static double score_gradient(const real *s, const real *dp, double maximum, double sum, size_t visible) {
    double delta = 0, squares = 0;
    for (size_t j = 0; j < visible; j++) delta += exp((double)s[j] - maximum) / sum * (double)dp[j];
    for (size_t j = 0; j < visible; j++) {
        double ds = exp((double)s[j] - maximum) / sum * ((double)dp[j] - delta);
        squares += ds * ds;
    }
    return sqrt(squares);
}

void attention_gradient_lengths(const AttentionLayer *l, size_t pair, const real *dqkv, const real *dout, size_t first,
                                size_t count, double *query, double *scores, real *scratch) {
    const Head h = head_of(l, pair);
    const size_t keys = first + count, row = pair * l->T + first;
    real *s = scratch, *dp = scratch + count * keys;
    attention_scores(l, pair, first, count, SCORES_MAPPED, s);
    matmul(PLAIN, TRANSPOSED, count, keys, h.D, 1, dout + h.out_at + first * h.out_stride, h.out_stride, h.v, h.stride,
           false, dp, keys);
    for (size_t r = 0; r < count; r++) {
        scores[r] = score_gradient(s + r * keys, dp + r * keys, (double)l->row_max[row + r],
                                   (double)l->row_sum[row + r], first + r + 1);
        query[r] = length(dqkv + h.at + (first + r) * h.stride, h.D);
    }
}

bool attention_gradient_vanishes(const char *columns, bool is_bias, size_t T) {
    return (T == 1 && *columns != 'v') || (is_bias && *columns == 'k');
}

double attention_predicted_std(const Attention *a, double variance, double shared) {
    return (double)a->multiplier * sqrt((double)a->D * (variance * variance - shared * shared));
}
