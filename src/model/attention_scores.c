/* Stage 1, the raw scores of queries and keys: r_ij = q_i . k_j, or additive (Bahdanau, Cho, Bengio 2015, appendix
   A.1.2), r_ij = v . tanh(q_i + k_j), where q = x W_1 and k = x W_2 are what W_Q and W_K make. Before that, queries and
   keys may be normalized, x' = gain (x - mean) rstd, and rounded:

       l2      mean 0, rstd = 1 / |x|, no gain       Henry et al. 2020
       rms     mean 0, rstd = 1 / root mean square   Zhang, Sennrich 2019, as Qwen3 and Gemma 3 have it
       layer   mean and 1 / standard deviation       Dehghani et al. 2023, section 2, without bias

   The gradient ignores rounding, as if it were the identity (straight-through, Bengio et al. 2013). */

#include "model/attention_stages.h"

/* --- Products. Each gives what it has of its own; the tile has the rest. */

/* matmul's arguments, and the half of the product that the tile's keys leave. */
static void multiply(const QueryTile *t, Orientation op_a, Orientation op_b, size_t m, size_t n, size_t k, real alpha,
                     const real *a, size_t lda, const real *b, size_t ldb, bool adds, real *c, size_t ldc,
                     Triangle triangle) {
    matmul_product(&(Product){op_a, op_b, adds, m, n, k, lda, ldb, ldc, alpha, triangle, t->first, t->bf16}, a, b, c);
}

void queries_by_keys(real *panel, const QueryTile *t, size_t D, real alpha, const real *x, size_t x_stride,
                     const real *y, size_t y_stride) {
    multiply(t, PLAIN, TRANSPOSED, t->count, t->keys, D, alpha, x, x_stride, y, y_stride, false, panel, t->stride,
             LOWER_C);
}

void panel_by_keys(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel, const real *x,
                   size_t x_stride) {
    multiply(t, PLAIN, PLAIN, t->count, D, t->keys, alpha, panel, t->stride, x, x_stride, false, y, y_stride, LOWER_A);
}

void panel_by_queries(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel,
                      const real *x, size_t x_stride, bool adds) {
    multiply(t, TRANSPOSED, PLAIN, t->keys, D, t->count, alpha, panel, t->stride, x, x_stride, adds, y, y_stride,
             UPPER_A);
}

/* --- Rounding. */

/* x without its lowest `dropped` bits, to nearest, ties to even. */
static float drop_bits(float x, int dropped) {
    union {
        float value;
        uint32_t bits;
    } u = {x};
    u.bits += ((uint32_t)1 << (dropped - 1)) - 1 + (u.bits >> dropped & 1);
    u.bits &= ~(((uint32_t)1 << dropped) - 1);
    return u.value;
}

/* The smallest normal number: below it numbers are subnormal. */
static float smallest_normal(Precision precision) { return precision == PRECISION_FP16 ? 0x1p-14f : 0x1p-126f; }

static float round_to(Precision precision, float x) {
    if (!isfinite(x)) return x;
    if (precision == PRECISION_BF16) return drop_bits(x, 16);
    /* Adding 3/4 leaves multiples of 2^-24, which is what subnormals of fp16 are. */
    if (fabsf(x) < smallest_normal(PRECISION_FP16)) return copysignf(fabsf(x) + 0.75f - 0.75f, x);
    const float rounded = drop_bits(x, 13);
    return fabsf(rounded) > 65504 ? copysignf(INFINITY, x) : rounded;
}

void round_scores(Precision precision, real *x, size_t n, AttentionRounding *rounding) {
    if (precision == PRECISION_FP32) return;
    const float normal = smallest_normal(precision);
    for (size_t j = 0; j < n; j++) {
        const float before = (float)x[j], after = round_to(precision, before);
        x[j] = (real)after;
        if (!rounding) continue;
        rounding->overflows += isfinite(before) && isinf(after);
        rounding->subnormals += before != 0 && fabsf(after) < normal;
    }
}

/* --- Normalization. */

typedef struct {
    real mean, rstd;
} RowNorm;

static inline __attribute__((always_inline)) RowNorm norm_of(QkNorm norm, const real *x, size_t D) {
    const real mean = norm == QK_NORM_LAYER ? lanes_total(x, D) / (real)D : 0;
    const double n = (double)D, s = (double)lanes_squares(x, mean, D);
    if (norm == QK_NORM_L2) return (RowNorm){0, (real)(1 / sqrt(s + L2_EPSILON))};
    return (RowNorm){mean, (real)(1 / sqrt(s / n + (norm == QK_NORM_RMS ? RMS_EPSILON : LAYER_EPSILON)))};
}

/* y = gain (x - mean) rstd; gain NULL: 1. */
static inline __attribute__((always_inline)) void normalize(QkNorm norm, real *restrict y, const real *x,
                                                            const real *gain, size_t D) {
    const RowNorm n = norm_of(norm, x, D);
    for (size_t d = 0; d < D; d++) y[d] = (x[d] - n.mean) * n.rstd * (gain ? gain[d] : 1);
}

/* dy becomes dx, and dgain gets its part. With x' = (x - mean) rstd, g = gain dy, and N = D (l2: 1):
   dx = rstd (g - mean(g), for layer alone, - x' sum(g x') / N). */
static inline __attribute__((always_inline)) void normalize_backward(QkNorm norm, real *restrict dy, const real *x,
                                                                     const real *gain, real *restrict dgain, size_t D) {
    const RowNorm n = norm_of(norm, x, D);
    for (size_t d = 0; gain && d < D; d++) {
        dgain[d] += dy[d] * (x[d] - n.mean) * n.rstd;
        dy[d] *= gain[d];
    }
    const real N = norm == QK_NORM_L2 ? 1 : (real)D, sum = lanes_total(dy, D);
    const real mean = norm == QK_NORM_LAYER ? sum / N : 0, product = n.rstd * (lanes_dot(dy, x, D) - n.mean * sum);
    for (size_t d = 0; d < D; d++) dy[d] = n.rstd * (dy[d] - mean - (x[d] - n.mean) * n.rstd * product / N);
}

/* --- Queries and keys as they are scored. */

static bool is_prepared(const Attention *a) { return a->qk_norm != QK_NORM_NONE || a->precision != PRECISION_FP32; }

size_t prepared_size(const Attention *a, size_t T) { return is_prepared(a) ? size_mul(2, size_mul(T, a->D)) : 0; }

static AttentionParameter gain_of(AttentionPart part) { return part == QUERY ? PARAMETER_Q_GAIN : PARAMETER_K_GAIN; }

MULTIVERSIONED void prepare(Head *h, size_t rows, real *scratch, AttentionRounding *rounding) {
    const size_t D = h->a->D, T = h->layer->T;
    const real *qkv = h->layer->qkv;
    const bool prepared = is_prepared(h->a);
    h->q = prepared ? scratch : qkv + h->part[QUERY];
    h->k = prepared ? scratch + T * D : qkv + h->part[KEY];
    h->qk_stride = prepared ? D : h->stride;
    for (AttentionPart part = QUERY; prepared && part <= KEY; part++)
        for (size_t row = 0; row < rows; row++) {
            const real *x = qkv + h->part[part] + row * h->stride;
            real *y = scratch + part * T * D + row * D;
            if (h->a->qk_norm != QK_NORM_NONE) normalize(h->a->qk_norm, y, x, h->layer->parameters[gain_of(part)], D);
            else
                for (size_t d = 0; d < D; d++) y[d] = x[d];
            round_scores(h->a->precision, y, D, rounding);
        }
}

/* sum over rows of x . dx, both (T,D) */
static real sum_of_products(const real *x, size_t x_stride, const real *dx, size_t dx_stride, size_t T, size_t D) {
    real sum = 0;
    for (size_t i = 0; i < T; i++) sum += lanes_dot(x + i * x_stride, dx + i * dx_stride, D);
    return sum;
}

/* Raw scores are linear in the queries, or additive ones in v, so the gradient of their multiplier is the sum of dq .
   q, or of dv . v, as long as these are the gradients of the raw scores, not yet multiplied. */
static void multiplier_backward(real *dqkv, const Head *h) {
    const size_t D = h->a->D, T = h->layer->T;
    const bool additive = h->a->score == SCORE_ADDITIVE;
    real *dv = additive ? partial_of(h, PARAMETER_V) : NULL;
    *partial_of(h, PARAMETER_SCALE) = additive
                                          ? lanes_dot(dv, h->layer->parameters[PARAMETER_V] + h->index * D, D)
                                          : sum_of_products(h->q, h->qk_stride, dqkv + h->part[QUERY], h->stride, T, D);
    for (size_t i = 0; i < T; i++) {
        lanes_scale(dqkv + h->part[QUERY] + i * h->stride, D, h->multiplier);
        lanes_scale(dqkv + h->part[KEY] + i * h->stride, D, h->multiplier);
    }
    if (additive) lanes_scale(dv, D, h->multiplier);
}

MULTIVERSIONED void prepare_backward(real *dqkv, const Head *h) {
    const Attention *a = h->a;
    const AttentionLayer *l = h->layer;
    if (a->learned != LEARNED_NO) multiplier_backward(dqkv, h);
    for (AttentionPart part = QUERY; a->qk_norm != QK_NORM_NONE && part <= KEY; part++) {
        const real *gain = l->parameters[gain_of(part)];
        real *dgain = gain ? partial_of(h, gain_of(part)) : NULL;
        for (size_t i = 0; i < l->T; i++) {
            const size_t at = h->part[part] + i * h->stride;
            normalize_backward(a->qk_norm, dqkv + at, l->qkv + at, gain, dgain, a->D);
        }
    }
}

/* --- Raw scores. */

/* v . tanh(q + k), all (D). */
static inline __attribute__((always_inline)) real additive_score(const real *v, const real *q, const real *k,
                                                                 size_t D) {
    real lane[LANES] = {0}, rest = 0;
    size_t d = 0;
    for (; d + LANES <= D; d += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += v[d + l] * tanh_real(q[d + l] + k[d + l]);
    for (; d < D; d++) rest += v[d] * tanh_real(q[d] + k[d]);
    return lanes_sum((const Lanes *)lane) + rest;
}

MULTIVERSIONED static void additive_scores(real *panel, const real *v, const Head *h, const QueryTile *t, real factor) {
    for (size_t r = 0; r < t->count; r++)
        for (size_t j = 0; j <= t->first + r; j++)
            panel[r * t->stride + j] =
                factor * additive_score(v, h->q + (t->first + r) * h->qk_stride, h->k + j * h->qk_stride, h->a->D);
}

/* With y = tanh(q_i + k_j) and g = factor ds_ij: dv += g y, dq_i += g v (1 - y^2), and dk_j += the same. tanh is
   computed again: to keep it would take T x T x D numbers. */
static inline __attribute__((always_inline)) void additive_backward(real *restrict dq, real *restrict dk,
                                                                    real *restrict dv, const real *restrict v,
                                                                    const real *q, const real *k, real g, size_t D) {
    for (size_t d = 0; d < D; d++) {
        const real y = tanh_real(q[d] + k[d]), slope = g * v[d] * (1 - y * y);
        dv[d] += g * y;
        dq[d] += slope;
        dk[d] += slope;
    }
}

MULTIVERSIONED static void additive_scores_backward(real *dq, real *dk, real *dv, const real *v, const real *ds,
                                                    const Head *h, const QueryTile *t, real factor) {
    for (size_t r = 0; r < t->count; r++)
        for (size_t j = 0; j <= t->first + r; j++)
            additive_backward(dq + r * h->stride, dk + j * h->stride, dv, v, h->q + (t->first + r) * h->qk_stride,
                              h->k + j * h->qk_stride, factor * ds[r * t->stride + j], h->a->D);
}

static void clear_rows(real *x, size_t rows, size_t stride, size_t D) {
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < D; d++) x[i * stride + d] = 0;
}

void raw_scores(real *panel, const Head *h, const QueryTile *t, real factor) {
    if (h->a->score == SCORE_ADDITIVE)
        additive_scores(panel, h->layer->parameters[PARAMETER_V] + h->index * h->a->D, h, t, factor);
    else queries_by_keys(panel, t, h->a->D, factor, h->q + t->first * h->qk_stride, h->qk_stride, h->k, h->qk_stride);
}

void raw_scores_backward(real *dqkv, const real *ds, const Head *h, const QueryTile *t, real factor, bool adds) {
    const size_t D = h->a->D;
    const real *q = h->q + t->first * h->qk_stride;
    real *dq = dqkv + h->part[QUERY] + t->first * h->stride, *dk = dqkv + h->part[KEY];
    if (h->a->score == SCORE_DOT) {
        panel_by_keys(dq, h->stride, t, D, factor, ds, h->k, h->qk_stride);
        panel_by_queries(dk, h->stride, t, D, factor, ds, q, h->qk_stride, adds);
        return;
    }
    clear_rows(dq, t->count, h->stride, D);
    if (!adds) clear_rows(dk, t->keys, h->stride, D);
    additive_scores_backward(dq, dk, partial_of(h, PARAMETER_V), h->layer->parameters[PARAMETER_V] + h->index * D, ds,
                             h, t, factor);
}
