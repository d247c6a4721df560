#include "model/attention.h"

#include <math.h>

#include "ops/lanes.h"
#include "ops/matmul.h"

Attention attention_make(const Config *config) {
    Attention a = {.H = (size_t)config->model.heads,
                   .D = (size_t)config->model.d_k,
                   .qk_init_scale = config->model.qk_init_scale,
                   .qk_lr_scale = config->train.qk_lr_scale};
    attention_set_step(&a, config, 0);
    return a;
}

void attention_set_step(Attention *a, const Config *config, size_t step) {
    a->multiplier = (real)scale_multiplier(config_divisor(config, step), a->D);
}

double attention_init_scale(const Attention *a, AttentionPart part) { return part == VALUE ? 1 : a->qk_init_scale; }
double attention_lr_scale(const Attention *a, AttentionPart part) { return part == VALUE ? 1 : a->qk_lr_scale; }

/* Rows of a panel are padded to whole vectors, with entries that change no maximum and no sum. */
static size_t whole_lanes(size_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Two panels and one row of a mask. */
size_t attention_scratch(const Attention *a, size_t T) {
    (void)a;
    return (2 * ATTENTION_TILE + 1) * whole_lanes(T);
}

AttentionSaved attention_lay_out(const Attention *a, size_t rows, Arena *arena) {
    const size_t heads = size_mul(rows, a->H);
    real *row_max = arena_take(arena, heads, sizeof(real));
    return (AttentionSaved){.row_max = row_max, .row_sum = arena_take(arena, heads, sizeof(real))};
}

/* One head of one sequence: the offsets of its part of the arrays that all heads share, and the distance between rows.
 */
typedef struct {
    size_t D;
    real multiplier;
    size_t q, k, v, stride; /* in qkv (B,T,3HD) and its gradient */
    size_t out, out_stride; /* in out (B,T,HD) and its gradient */
    size_t row;             /* in (B,H,T) */
} Head;

static Head head_of(const AttentionLayer *l, size_t pair) {
    const Attention *a = l->attention;
    const size_t head = pair % a->H, row = pair / a->H * l->T, stride = attention_width_in(a);
    return (Head){.D = a->D,
                  .multiplier = a->multiplier,
                  .q = row * stride + attention_columns(a, QUERY, head).begin,
                  .k = row * stride + attention_columns(a, KEY, head).begin,
                  .v = row * stride + attention_columns(a, VALUE, head).begin,
                  .stride = stride,
                  .out = row * attention_width_out(a) + head * a->D,
                  .out_stride = attention_width_out(a),
                  .row = pair * l->T};
}

/* The queries first .. first + count - 1 and the keys that the last of them sees. Its panels are (count, keys). */
typedef struct {
    size_t first, count, keys;
    size_t stride; /* of the panels */
} QueryTile;

static QueryTile tile_at(size_t T, size_t first) {
    size_t count = T - first < ATTENTION_TILE ? T - first : ATTENTION_TILE;
    return (QueryTile){first, count, first + count, whole_lanes(first + count)};
}
/* The same for queries that the caller chooses, without padding. */
static QueryTile unpadded_tile(size_t first, size_t count) {
    return (QueryTile){first, count, first + count, first + count};
}

/* panel (count, keys) = alpha x y^T, where key <= query; x (count, D) belongs to the queries, y (keys, D) to the keys
 */
static void queries_by_keys(real *panel, const QueryTile *t, size_t D, real alpha, const real *x, size_t x_stride,
                            const real *y, size_t y_stride) {
    const Product product = {.op_b = TRANSPOSED,
                             .m = t->count,
                             .n = t->keys,
                             .k = D,
                             .lda = x_stride,
                             .ldb = y_stride,
                             .ldc = t->stride,
                             .alpha = alpha,
                             .triangle = LOWER_C,
                             .diagonal = t->first};
    matmul_product(&product, x, y, panel);
}

/* y (count, D) = alpha panel x, x (keys, D); the panel is zero where key > query */
static void panel_by_keys(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel,
                          const real *x, size_t x_stride) {
    const Product product = {.m = t->count,
                             .n = D,
                             .k = t->keys,
                             .lda = t->stride,
                             .ldb = x_stride,
                             .ldc = y_stride,
                             .alpha = alpha,
                             .triangle = LOWER_A,
                             .diagonal = t->first};
    matmul_product(&product, panel, x, y);
}

/* y (keys, D) = alpha panel^T x, or y plus that (`adds`), x (count, D); the panel is zero where key > query */
static void panel_by_queries(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel,
                             const real *x, size_t x_stride, bool adds) {
    const Product product = {.op_a = TRANSPOSED,
                             .accumulate = adds,
                             .m = t->keys,
                             .n = D,
                             .k = t->count,
                             .lda = t->stride,
                             .ldb = x_stride,
                             .ldc = y_stride,
                             .alpha = alpha,
                             .triangle = UPPER_A,
                             .diagonal = t->first};
    matmul_product(&product, panel, x, y);
}

/* --- Stage 1, the raw score: r_ij = factor q_i . k_j. The product applies the factor at no cost. */

static void raw_scores(real *panel, const real *qkv, const Head *h, const QueryTile *t, real factor) {
    queries_by_keys(panel, t, h->D, factor, qkv + h->q + t->first * h->stride, h->stride, qkv + h->k, h->stride);
}

/* dq_i = factor sum_j ds_ij k_j, overwritten; dk_j = factor sum_i ds_ij q_i, overwritten or added to (`adds`). */
static void raw_scores_backward(real *dqkv, const real *ds, const real *qkv, const Head *h, const QueryTile *t,
                                real factor, bool adds) {
    const size_t at = t->first * h->stride;
    panel_by_keys(dqkv + h->q + at, h->stride, t, h->D, factor, ds, qkv + h->k, h->stride);
    panel_by_queries(dqkv + h->k, h->stride, t, h->D, factor, ds, qkv + h->q + at, h->stride, adds);
}

/* --- Stage 2, the map: s_ij = multiplier r_ij. It is linear and the same for a whole head, so it is stage 1's factor
   in both passes; a map of another kind works on the panel's rows here. */

static void scores_forward(real *panel, const real *qkv, const Head *h, const QueryTile *t) {
    raw_scores(panel, qkv, h, t, h->multiplier);
}

static void scores_backward(real *dqkv, const real *ds, const real *qkv, const Head *h, const QueryTile *t, bool adds) {
    raw_scores_backward(dqkv, ds, qkv, h, t, h->multiplier, adds);
}

/* --- Stage 3, the normalization: softmax over the visible keys. */

static inline __attribute__((always_inline)) void fill(real *x, size_t from, size_t to, real value) {
    for (size_t j = from; j < to; j++) x[j] = value;
}

/* A panel's scores become weights, zero where key > query. */
MULTIVERSIONED static void softmax_forward(real *panel, real *row_max, real *row_sum, const QueryTile *t) {
    for (size_t r = 0; r < t->count; r++) {
        const size_t visible = t->first + r + 1, whole = whole_lanes(visible);
        real *row = panel + r * t->stride;
        fill(row, visible, whole, -(real)INFINITY);
        row_max[r] = lanes_maximum(row, whole);
        row_sum[r] = lanes_exponentials(row, row, whole, row_max[r]);
        lanes_scale(row, whole, 1 / row_sum[r]);
        fill(row, whole, t->stride, 0);
    }
}

/* One row: the scores s become the weights p times the mask, and dp becomes ds = p (dp mask - delta). */
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

/* Rows `from` to `to` of a tile: p from scores to weights, ds from dp to ds, both zero where key > query. `mask` is
   NULL, or that of the one row. */
MULTIVERSIONED static void softmax_backward(real *p, real *ds, const real *mask, const AttentionLayer *l,
                                            const real *dout, const Head *h, const QueryTile *t, size_t from,
                                            size_t to) {
    for (size_t r = from; r < to; r++) {
        const size_t visible = t->first + r + 1, whole = whole_lanes(visible), i = t->first + r;
        const size_t out = h->out + i * h->out_stride;
        const real delta = lanes_dot(dout + out, l->out + out, h->D);
        real *s = p + r * t->stride, *dp = ds + r * t->stride;
        fill(s, visible, whole, -(real)INFINITY);
        fill(dp, visible, whole, 0);
        backward_row(s, dp, mask, l->saved.row_max[h->row + i], 1 / l->saved.row_sum[h->row + i], delta, whole);
        fill(s, whole, t->stride, 0);
        fill(dp, whole, t->stride, 0);
    }
}

/* In double whatever `real` is. With e_j = exp(s_j - max) and p_j = e_j / sum: H = ln(sum) - sum_j p_j (s_j - max). */
AttentionRow attention_row(const AttentionLayer *l, size_t pair, const real *scores, size_t visible) {
    double maximum = -INFINITY, sum = 0, mean_log = 0;
    (void)l, (void)pair;
    for (size_t j = 0; j < visible; j++) maximum = (double)scores[j] > maximum ? (double)scores[j] : maximum;
    for (size_t j = 0; j < visible; j++) {
        const double shifted = (double)scores[j] - maximum, e = exp(shifted);
        sum += e;
        mean_log += e * shifted;
    }
    return (AttentionRow){.maximum = maximum, .entropy = log(sum) - mean_log / sum, .max_weight = 1 / sum};
}

MULTIVERSIONED void attention_weights(const AttentionLayer *l, size_t pair, const real *scores, size_t visible,
                                      real *weights) {
    (void)l, (void)pair;
    const real sum = lanes_exponentials(weights, scores, visible, lanes_maximum(scores, visible));
    for (size_t j = 0; j < visible; j++) weights[j] /= sum;
}

/* |ds| of one row, in double whatever `real` is. */
static double softmax_gradient_norm(const real *s, const real *dp, double maximum, double sum, size_t visible) {
    double delta = 0, squares = 0;
    for (size_t j = 0; j < visible; j++) delta += exp((double)s[j] - maximum) / sum * (double)dp[j];
    for (size_t j = 0; j < visible; j++) {
        double ds = exp((double)s[j] - maximum) / sum * ((double)dp[j] - delta);
        squares += ds * ds;
    }
    return sqrt(squares);
}

/* --- The passes. */

MULTIVERSIONED static void multiply(real *restrict x, const real *restrict mask, size_t n) {
    for (size_t j = 0; j < n; j++) x[j] *= mask[j];
}

/* The mask (n) of the weights of query i. */
static void draw_mask(const AttentionLayer *l, const Head *h, size_t i, real *mask, size_t n) {
    dropout_mask(&l->dropout, l->batch_row * l->attention->H + (uint64_t)(h->row + i), mask, n);
}

void attention_forward(const AttentionLayer *l, size_t pair, real *scratch) {
    const Head h = head_of(l, pair);
    real *panel = scratch, *mask = scratch + (size_t)2 * ATTENTION_TILE * whole_lanes(l->T);
    for (size_t first = 0; first < l->T; first += ATTENTION_TILE) {
        const QueryTile t = tile_at(l->T, first);
        scores_forward(panel, l->qkv, &h, &t);
        softmax_forward(panel, l->saved.row_max + h.row + first, l->saved.row_sum + h.row + first, &t);
        for (size_t r = 0; dropout_is_on(&l->dropout) && r < t.count; r++) {
            draw_mask(l, &h, first + r, mask, first + r + 1);
            multiply(panel + r * t.stride, mask, first + r + 1);
        }
        panel_by_keys(l->out + h.out + first * h.out_stride, h.out_stride, &t, h.D, 1, panel, l->qkv + h.v, h.stride);
    }
}

void attention_backward(const AttentionLayer *l, size_t pair, real *dqkv, const real *dout, real *scratch) {
    const Head h = head_of(l, pair);
    const size_t tiles = (l->T + ATTENTION_TILE - 1) / ATTENTION_TILE, panel = ATTENTION_TILE * whole_lanes(l->T);
    real *p = scratch, *ds = p + panel, *mask = ds + panel;
    /* The last tile sees every key, so it is taken first and overwrites dk and dv; the others add. */
    for (size_t tile = tiles; tile-- > 0;) {
        const QueryTile t = tile_at(l->T, tile * ATTENTION_TILE);
        const bool adds = tile + 1 < tiles;
        const real *dout_tile = dout + h.out + t.first * h.out_stride;
        scores_forward(p, l->qkv, &h, &t);
        queries_by_keys(ds, &t, h.D, 1, dout_tile, h.out_stride, l->qkv + h.v, h.stride);
        if (dropout_is_on(&l->dropout))
            for (size_t r = 0; r < t.count; r++) {
                draw_mask(l, &h, t.first + r, mask, whole_lanes(t.first + r + 1));
                softmax_backward(p, ds, mask, l, dout, &h, &t, r, r + 1);
            }
        else
            softmax_backward(p, ds, NULL, l, dout, &h, &t, 0, t.count);
        scores_backward(dqkv, ds, l->qkv, &h, &t, adds);
        panel_by_queries(dqkv + h.v, h.stride, &t, h.D, 1, p, dout_tile, h.out_stride, adds);
    }
}

/* --- What probes ask for. */

void attention_scores(const AttentionLayer *l, size_t pair, size_t first, size_t count, ScoreStage stage,
                      real *scores) {
    const Head h = head_of(l, pair);
    const QueryTile t = unpadded_tile(first, count);
    if (stage == SCORES_RAW)
        raw_scores(scores, l->qkv, &h, &t, 1);
    else
        scores_forward(scores, l->qkv, &h, &t);
}

static double norm(const real *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

void attention_gradient_norms(const AttentionLayer *l, size_t pair, const real *dqkv, const real *dout, size_t first,
                              size_t count, double *query, double *scores, real *scratch) {
    const Head h = head_of(l, pair);
    const QueryTile t = unpadded_tile(first, count);
    const size_t row = h.row + first;
    real *s = scratch, *dp = scratch + count * t.keys;
    scores_forward(s, l->qkv, &h, &t);
    queries_by_keys(dp, &t, h.D, 1, dout + h.out + first * h.out_stride, h.out_stride, l->qkv + h.v, h.stride);
    for (size_t r = 0; r < count; r++) {
        scores[r] = softmax_gradient_norm(s + r * t.stride, dp + r * t.stride, (double)l->saved.row_max[row + r],
                                          (double)l->saved.row_sum[row + r], first + r + 1);
        query[r] = norm(dqkv + h.q + (first + r) * h.stride, h.D);
    }
}

bool attention_gradient_vanishes(const Attention *a, AttentionPart part, bool is_bias, size_t T) {
    (void)a;
    return (T == 1 && part != VALUE) || (is_bias && part == KEY);
}

double attention_predicted_std(const Attention *a, double query, double query_bias, double key, double key_bias) {
    return (double)a->multiplier * sqrt((double)a->D * (query * key - query_bias * key_bias));
}
