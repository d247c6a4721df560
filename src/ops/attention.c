#include "ops/attention.h"

#include <math.h>

#include "ops/elementary.h"
#include "ops/lanes.h"
#include "ops/matmul.h"

/* Rows of a panel are as long as whole vectors of any machine: a row's last one is filled up with what does no harm. */
static size_t whole_lanes(size_t n) { return (n + LANES - 1) / LANES * LANES; }

size_t attention_scratch(size_t T) { return (2 * ATTENTION_BLOCK + 1) * whole_lanes(T); }

/* The queries first .. first + count - 1 and the keys that the last of them sees. */
typedef struct {
    size_t first, count, keys;
    size_t stride; /* of their panels */
} Block;

static Block block_at(size_t T, size_t first) {
    size_t count = T - first < ATTENTION_BLOCK ? T - first : ATTENTION_BLOCK;
    return (Block){first, count, first + count, whole_lanes(first + count)};
}

/* panel (count, keys) = alpha x y^T of rows of the block and of keys, where key <= query */
static void rows_by_keys(real *panel, size_t stride, const Block *b, size_t D, real alpha, const real *x,
                         size_t x_stride, const real *y, size_t y_stride) {
    const Product product = {.op_b = TRANSPOSED,
                             .m = b->count,
                             .n = b->keys,
                             .k = D,
                             .lda = x_stride,
                             .ldb = y_stride,
                             .ldc = stride,
                             .alpha = alpha,
                             .triangle = LOWER_C,
                             .diagonal = b->first};
    matmul_product(&product, x, y, panel);
}

/* y (count, D) = alpha panel x, of a panel that is zero where key > query */
static void over_keys(real *y, size_t y_stride, const Block *b, size_t D, real alpha, const real *panel, const real *x,
                      size_t x_stride) {
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
static void over_rows(real *y, size_t y_stride, const Block *b, size_t D, real alpha, const real *panel, const real *x,
                      size_t x_stride, bool adds) {
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

void attention_scores(real *scores, const real *q, const real *k, const AttentionShape *a, size_t first, size_t count) {
    const Block b = {.first = first, .count = count, .keys = first + count};
    rows_by_keys(scores, b.keys, &b, a->D, a->multiplier, q + first * a->stride, a->stride, k, a->stride);
}

static inline __attribute__((always_inline)) void fill(real *x, size_t from, size_t to, real value) {
    for (size_t j = from; j < to; j++) x[j] = value;
}

/* Scores become weights, and zero where key > query. */
HOT static void softmax_rows(real *panel, real *row_max, real *row_sum, const Block *b) {
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

HOT static void multiply(real *restrict x, const real *restrict mask, size_t n) {
    for (size_t j = 0; j < n; j++) x[j] *= mask[j];
}

void attention_forward(real *out, real *row_max, real *row_sum, const real *q, const real *k, const real *v,
                       const AttentionShape *a, real *scratch) {
    real *panel = scratch, *mask = scratch + (size_t)2 * ATTENTION_BLOCK * whole_lanes(a->T);
    for (size_t first = 0; first < a->T; first += ATTENTION_BLOCK) {
        const Block b = block_at(a->T, first);
        rows_by_keys(panel, b.stride, &b, a->D, a->multiplier, q + first * a->stride, a->stride, k, a->stride);
        softmax_rows(panel, row_max + first, row_sum + first, &b);
        for (size_t r = 0; dropout_is_on(&a->dropout) && r < b.count; r++) {
            dropout_mask(&a->dropout, a->dropout_row + first + r, mask, first + r + 1);
            multiply(panel + r * b.stride, mask, first + r + 1);
        }
        over_keys(out + first * a->out_stride, a->out_stride, &b, a->D, 1, panel, v, a->stride);
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
   of one row. */
HOT static void backward_rows(real *p, real *ds, const real *mask, const real *row_max, const real *row_sum,
                              const real *out, const real *dout, const AttentionShape *a, const Block *b, size_t from,
                              size_t to) {
    for (size_t r = from; r < to; r++) {
        const size_t visible = b->first + r + 1, whole = whole_lanes(visible), i = b->first + r;
        const real delta = lanes_dot(dout + i * a->out_stride, out + i * a->out_stride, a->D);
        real *s = p + r * b->stride, *dp = ds + r * b->stride;
        fill(s, visible, whole, -(real)INFINITY);
        fill(dp, visible, whole, 0);
        backward_row(s, dp, mask, row_max[i], 1 / row_sum[i], delta, whole);
        fill(s, whole, b->stride, 0);
        fill(dp, whole, b->stride, 0);
    }
}

void attention_backward(real *dq, real *dk, real *dv, const real *dout, const real *out, const real *row_max,
                        const real *row_sum, const real *q, const real *k, const real *v, const AttentionShape *a,
                        real *scratch) {
    real *p = scratch, *ds = p + ATTENTION_BLOCK * whole_lanes(a->T), *mask = ds + ATTENTION_BLOCK * whole_lanes(a->T);
    const size_t D = a->D, blocks = (a->T + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    /* The last block sees every key, so it is taken first and overwrites dk and dv; the others add. */
    for (size_t block = blocks; block-- > 0;) {
        const size_t first = block * ATTENTION_BLOCK;
        const Block b = block_at(a->T, first);
        const bool adds = block + 1 < blocks;
        const real *q_block = q + first * a->stride, *dout_block = dout + first * a->out_stride;
        rows_by_keys(p, b.stride, &b, D, a->multiplier, q_block, a->stride, k, a->stride);
        rows_by_keys(ds, b.stride, &b, D, 1, dout_block, a->out_stride, v, a->stride);
        if (dropout_is_on(&a->dropout))
            for (size_t r = 0; r < b.count; r++) {
                dropout_mask(&a->dropout, a->dropout_row + first + r, mask, whole_lanes(first + r + 1));
                backward_rows(p, ds, mask, row_max, row_sum, out, dout, a, &b, r, r + 1);
            }
        else
            backward_rows(p, ds, NULL, row_max, row_sum, out, dout, a, &b, 0, b.count);
        over_keys(dq + first * a->stride, a->stride, &b, D, a->multiplier, ds, k, a->stride);
        over_rows(dk, a->stride, &b, D, a->multiplier, ds, q_block, a->stride, adds);
        over_rows(dv, a->stride, &b, D, 1, p, dout_block, a->out_stride, adds);
    }
}
