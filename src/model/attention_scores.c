/* Stage 1, the raw scores of queries and keys: r_ij = q_i . k_j, or additive (Bahdanau, Cho, Bengio 2015, appendix
   A.1.2), r_ij = v . tanh(q_i + k_j), where q = x W_1 and k = x W_2 are what W_Q and W_K make. Before that, queries and
   keys may be normalized, x' = gain (x - mean) rstd, and rounded:

       l2      mean 0, rstd = 1 / |x|, no gain       Henry et al. 2020
       rms     mean 0, rstd = 1 / root mean square   Zhang, Sennrich 2019, as Qwen3 and Gemma 3 have it
       layer   mean and 1 / standard deviation       Dehghani et al. 2023, section 2, without bias

   The gradient ignores rounding, as if it were the identity (straight-through, Bengio et al. 2013). */

#include "model/attention_stages.h"

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

/* x becomes gain (x - mean) rstd; gain NULL: 1. */
static inline __attribute__((always_inline)) void normalize(QkNorm norm, real *restrict x, const real *gain, size_t D) {
    const RowNorm n = norm_of(norm, x, D);
    for (size_t d = 0; d < D; d++) x[d] = (x[d] - n.mean) * n.rstd * (gain ? gain[d] : 1);
}

/* dy becomes dx, and dgain gets its part. With x' = (x - mean) rstd, g = gain dy, and N = D, or 1 for l2:
   dx = rstd (g - mean(g) - x' sum(g x') / N), where `layer` alone subtracts mean(g). */
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

/* x (rows, D) is normalized and rounded in place. */
static inline __attribute__((always_inline)) void prepare_rows(const AttentionConfig *a, real *x, const real *gain,
                                                               size_t rows, AttentionRounding *rounding) {
    for (size_t i = 0; a->qk_norm != QK_NORM_NONE && i < rows; i++) normalize(a->qk_norm, x + i * a->D, gain, a->D);
    round_scores(a->precision, x, rows * a->D, rounding);
}

MULTIVERSIONED void prepare_qk(const Head *h, size_t rows, AttentionRounding *rounding) {
    prepare_rows(h->a, h->q, h->layer->parameters[PARAMETER_Q_GAIN], rows, rounding);
    prepare_rows(h->a, h->k, h->layer->parameters[PARAMETER_K_GAIN], rows, rounding);
}

static inline __attribute__((always_inline)) void norm_rows_backward(const Head *h, real *dx, size_t dx_stride,
                                                                     const real *x, AttentionParameter gain) {
    const real *own = h->layer->parameters[gain];
    real *dgain = own ? partial_of(h, gain) : NULL;
    for (size_t i = 0; i < h->layer->T; i++)
        normalize_backward(h->a->qk_norm, dx + i * dx_stride, x + i * h->a->D, own, dgain, h->a->D);
}

MULTIVERSIONED void qk_norm_backward(const HeadGradients *g, const Head *h) {
    norm_rows_backward(h, g->dq, g->stride, h->q, PARAMETER_Q_GAIN);
    norm_rows_backward(h, g->dk, g->stride, h->k, PARAMETER_K_GAIN);
}

/* --- Raw scores. */

/* v . tanh(q + k), all (D). */
static inline __attribute__((always_inline)) real additive_score(const real *v, const real *q, const real *k,
                                                                 size_t D) {
    real lane[LANES] = {0}, last[LANES] = {0};
    size_t d = 0;
    for (; d + LANES <= D; d += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += v[d + l] * tanh_real(q[d + l] + k[d + l]);
    for (size_t l = 0; l < D - d; l++) last[l] = v[d + l] * tanh_real(q[d + l] + k[d + l]);
    for (size_t l = 0; l < LANES; l++) lane[l] += last[l];
    return lanes_sum(lanes_at(lane));
}

MULTIVERSIONED static void additive_forward(real *panel, const real *v, const Head *h, const QueryTile *t,
                                            real multiplier) {
    for (size_t r = 0; r < t->count; r++) {
        const real *q = h->q + (t->first + r) * h->a->D;
        for (size_t j = 0; j <= t->first + r; j++)
            panel[r * t->stride + j] = multiplier * additive_score(v, q, h->k + j * h->a->D, h->a->D);
    }
}

/* With y = tanh(q_i + k_j) and g = multiplier ds_ij: dv += g y, dq_i += g v (1 - y^2) and dk_j += g v (1 - y^2). tanh
   is computed again: to keep it would take T x T x D numbers. */
static inline __attribute__((always_inline)) void additive_score_backward(real *restrict dq, real *restrict dk,
                                                                          real *restrict dv, const real *restrict v,
                                                                          const real *q, const real *k, real g,
                                                                          size_t D) {
    for (size_t d = 0; d < D; d++) {
        const real y = tanh_real(q[d] + k[d]), slope = g * v[d] * (1 - y * y);
        dv[d] += g * y;
        dq[d] += slope;
        dk[d] += slope;
    }
}

MULTIVERSIONED static void additive_backward(const HeadGradients *g, real *dv, const real *v, const real *ds,
                                             const Head *h, const QueryTile *t, real multiplier) {
    for (size_t r = 0; r < t->count; r++) {
        const size_t i = t->first + r;
        for (size_t j = 0; j <= i; j++)
            additive_score_backward(g->dq + i * g->stride, g->dk + j * g->stride, dv, v, h->q + i * h->a->D,
                                    h->k + j * h->a->D, multiplier * ds[r * t->stride + j], h->a->D);
    }
}

static void clear_rows(real *x, size_t rows, size_t stride, size_t D) {
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < D; d++) x[i * stride + d] = 0;
}

/* The head's own v (D) of additive scores. */
static const real *additive_v(const Head *h) { return h->layer->parameters[PARAMETER_V] + h->index * h->a->D; }

/* Returns the number that products of queries and keys are multiplied by; head_of (attention.c) keeps it as
   Head.multiplier. Plain, in plain_attention_forward, divides:
       const real score = dot(q + i * row, k + j * row, D) / divisor; */
real attention_multiplier(const AttentionArrays *l, size_t head) {
    const real *learned = l->parameters[PARAMETER_MULTIPLIER];
    return learned ? learned[l->attention->learned == LEARNED_HEAD ? head : 0]
                   : divisor_multiplier(l->attention->divisor);
}

/* Scores with a precision of their own are rounded first, and then multiplied in stage 2. */
void raw_scores_forward(real *panel, const Head *h, const QueryTile *t) {
    const real multiplier = rounds_scores(h->a) ? 1 : h->multiplier;
    if (h->a->score == SCORE_ADDITIVE) additive_forward(panel, additive_v(h), h, t, multiplier);
    else queries_by_keys(panel, h, t, multiplier, h->query, h->key);
}

/* Plain: add_scaled(dq + i * row, ds / divisor, k + j * row, D), and dk likewise. A learned multiplier's own gradient
   needs them unmultiplied, so multiplier_backward multiplies them after all tiles. */
void raw_scores_backward(const HeadGradients *g, const real *ds, const Head *h, const QueryTile *t, bool adds) {
    const real multiplier = h->a->learned == LEARNED_NO ? h->multiplier : 1;
    const size_t D = h->a->D;
    real *dq = g->dq + t->first * g->stride;
    if (h->a->score == SCORE_DOT) {
        panel_by_keys(dq, g->stride, h, t, multiplier, ds, h->key);
        panel_by_queries(g->dk, g->stride, h, t, multiplier, ds, h->query, adds);
        return;
    }
    clear_rows(dq, t->count, g->stride, D);
    if (!adds) clear_rows(g->dk, t->keys, g->stride, D);
    additive_backward(g, partial_of(h, PARAMETER_V), additive_v(h), ds, h, t, multiplier);
}

/* sum over rows of x . dx, both (T,D) */
static real sum_of_products(const real *x, size_t x_stride, const real *dx, size_t dx_stride, size_t T, size_t D) {
    real sum = 0;
    for (size_t i = 0; i < T; i++) sum += lanes_dot(x + i * x_stride, dx + i * dx_stride, D);
    return sum;
}

/* Dot products are linear in the queries, additive scores in v. So the gradient of the multiplier is the sum of q . dq,
   or v . dv, with the gradients of the raw scores. */
void multiplier_backward(const HeadGradients *g, const Head *h) {
    const size_t D = h->a->D, T = h->layer->T;
    real *dmultiplier = partial_of(h, PARAMETER_MULTIPLIER);
    if (h->a->score == SCORE_ADDITIVE) {
        real *dv = partial_of(h, PARAMETER_V);
        *dmultiplier = lanes_dot(dv, additive_v(h), D);
        lanes_scale(dv, D, h->multiplier);
    } else *dmultiplier = sum_of_products(h->q, h->a->D, g->dq, g->stride, T, D);
    for (size_t i = 0; i < T; i++) {
        lanes_scale(g->dq + i * g->stride, D, h->multiplier);
        lanes_scale(g->dk + i * g->stride, D, h->multiplier);
    }
}
