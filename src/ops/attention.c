#include "ops/attention.h"

#include <string.h>

#include "ops/elementary.h"
#include "ops/matmul.h"
#include "ops/softmax.h"

size_t attention_scratch(size_t T) { return (2 * ATTENTION_BLOCK + 1) * T; }

static size_t block_size(size_t T, size_t first) { return T - first < ATTENTION_BLOCK ? T - first : ATTENTION_BLOCK; }

void attention_scores(real *scores, const real *q, const real *k, const AttentionShape *a, size_t first, size_t count) {
    size_t keys = first + count;
    matmul(PLAIN, TRANSPOSED, count, keys, a->D, a->multiplier, q + first * a->stride, a->stride, k, a->stride, false,
           scores, keys);
}

static void multiply(real *restrict x, const real *restrict mask, size_t n) {
    for (size_t j = 0; j < n; j++) x[j] *= mask[j];
}

void attention_forward(real *out, real *row_max, real *row_sum, const real *q, const real *k, const real *v,
                       const AttentionShape *a, real *scratch) {
    real *panel = scratch, *mask = scratch + a->T * 2 * ATTENTION_BLOCK;
    for (size_t first = 0; first < a->T; first += ATTENTION_BLOCK) {
        size_t count = block_size(a->T, first), keys = first + count;
        attention_scores(panel, q, k, a, first, count);
        for (size_t r = 0; r < count; r++) {
            size_t i = first + r, visible = i + 1;
            real *row = panel + r * keys;
            row_max[i] = row_maximum(row, visible);
            row_sum[i] = row_exponentials(row, row, visible, row_max[i]);
            row_scale(row, visible, 1 / row_sum[i]);
            memset(row + visible, 0, (keys - visible) * sizeof *row);
            if (dropout_is_on(&a->dropout)) {
                dropout_mask(&a->dropout, a->dropout_row + i, mask, visible);
                multiply(row, mask, visible);
            }
        }
        matmul(PLAIN, PLAIN, count, a->D, keys, 1, panel, keys, v, a->stride, false, out + first * a->out_stride,
               a->out_stride);
    }
}

/* One row: scores s become the weights p (after dropout), dp becomes ds. */
HOT static void backward_row(real *restrict s, real *restrict dp, const real *restrict mask, real maximum,
                             real one_over_sum, real delta, size_t visible) {
    if (mask) {
        for (size_t j = 0; j < visible; j++) {
            real p = exp_real(s[j] - maximum) * one_over_sum;
            dp[j] = p * (dp[j] * mask[j] - delta);
            s[j] = p * mask[j];
        }
    } else {
        for (size_t j = 0; j < visible; j++) {
            real p = exp_real(s[j] - maximum) * one_over_sum;
            dp[j] = p * (dp[j] - delta);
            s[j] = p;
        }
    }
}

void attention_backward(real *dq, real *dk, real *dv, const real *dout, const real *out, const real *row_max,
                        const real *row_sum, const real *q, const real *k, const real *v, const AttentionShape *a,
                        real *scratch) {
    real *p = scratch, *ds = p + ATTENTION_BLOCK * a->T, *mask = ds + ATTENTION_BLOCK * a->T;
    bool drops = dropout_is_on(&a->dropout);
    size_t blocks = (a->T + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    /* The last block sees every key, so it is taken first and overwrites dk and dv; the others add. */
    for (size_t block = blocks; block-- > 0;) {
        size_t first = block * ATTENTION_BLOCK, count = block_size(a->T, first), keys = first + count;
        bool adds = block + 1 < blocks;
        const real *dout_block = dout + first * a->out_stride, *q_block = q + first * a->stride;
        attention_scores(p, q, k, a, first, count);
        matmul(PLAIN, TRANSPOSED, count, keys, a->D, 1, dout_block, a->out_stride, v, a->stride, false, ds, keys);
        for (size_t r = 0; r < count; r++) {
            size_t i = first + r, visible = i + 1;
            real delta = row_dot(dout + i * a->out_stride, out + i * a->out_stride, a->D);
            if (drops) dropout_mask(&a->dropout, a->dropout_row + i, mask, visible);
            backward_row(p + r * keys, ds + r * keys, drops ? mask : NULL, row_max[i], 1 / row_sum[i], delta, visible);
            memset(p + r * keys + visible, 0, (keys - visible) * sizeof *p);
            memset(ds + r * keys + visible, 0, (keys - visible) * sizeof *ds);
        }
        matmul(PLAIN, PLAIN, count, a->D, keys, a->multiplier, ds, keys, k, a->stride, false, dq + first * a->stride,
               a->stride);
        matmul(TRANSPOSED, PLAIN, keys, a->D, count, a->multiplier, ds, keys, q_block, a->stride, adds, dk, a->stride);
        matmul(TRANSPOSED, PLAIN, keys, a->D, count, 1, p, keys, dout_block, a->out_stride, adds, dv, a->stride);
    }
}
