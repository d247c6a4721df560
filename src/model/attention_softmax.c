/* Stage 3, the normalization: softmax over the visible keys, in which a sink is one more term of the sum without a
   value: p_j = exp(s_j) / (sum_k exp(s_k) + exp(sigma)); sigma is 0 (Miller 2023, softmax-off-by-one) or learned
   (OpenAI 2025, gpt-oss). */

#include "model/attention_stages.h"

static const real ZERO = 0;

/* The sink's score for a head; NULL where there is no sink. */
static const real *sink_of(const AttentionLayer *l, size_t head) {
    const Sink sink = l->attention->sink;
    return sink == SINK_ONE ? &ZERO : sink == SINK_LEARNED ? l->parameters[PARAMETER_SINK] + head : NULL;
}

static inline __attribute__((always_inline)) void fill(real *x, size_t from, size_t to, real value) {
    for (size_t j = from; j < to; j++) x[j] = value;
}

MULTIVERSIONED static real normalize(real *panel, real *row_max, real *row_sum, const real *sink, const QueryTile *t) {
    real largest = -(real)INFINITY;
    bool finite = true;
    for (size_t r = 0; r < t->count; r++) {
        const size_t visible = t->first + r + 1, whole = whole_lanes(visible);
        real *row = panel + r * t->stride;
        fill(row, visible, whole, -(real)INFINITY);
        row_max[r] = lanes_maximum(row, whole);
        largest = row_max[r] > largest ? row_max[r] : largest;
        if (sink && *sink > row_max[r]) row_max[r] = *sink;
        row_sum[r] = lanes_exponentials(row, row, whole, row_max[r]);
        if (sink) row_sum[r] += exp_real(*sink - row_max[r]);
        finite = finite && row_sum[r] < (real)INFINITY;
        lanes_scale(row, whole, 1 / row_sum[r]);
        fill(row, whole, t->stride, 0);
    }
    return finite ? largest : (real)NAN;
}

real softmax_forward(real *panel, const Head *h, const QueryTile *t) {
    const AttentionSaved *saved = &h->layer->saved;
    const size_t row = h->row + t->first;
    return normalize(panel, saved->row_max + row, saved->row_sum + row, sink_of(h->layer, h->index), t);
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

MULTIVERSIONED void softmax_backward(real *p, real *ds, const real *mask, const real *dout, const Head *h,
                                     const QueryTile *t, size_t from, size_t to) {
    const AttentionLayer *l = h->layer;
    for (size_t r = from; r < to; r++) {
        const size_t visible = t->first + r + 1, whole = whole_lanes(visible), i = t->first + r;
        const size_t out = h->out + i * h->out_stride;
        const real delta = lanes_dot(dout + out, l->out + out, h->a->D);
        real *s = p + r * t->stride, *dp = ds + r * t->stride;
        fill(s, visible, whole, -(real)INFINITY);
        fill(dp, visible, whole, 0);
        backward_row(s, dp, mask, l->saved.row_max[h->row + i], 1 / l->saved.row_sum[h->row + i], delta, whole);
        fill(s, whole, t->stride, 0);
        fill(dp, whole, t->stride, 0);
    }
}

real attention_sink(const AttentionLayer *l, size_t head) {
    const real *sink = sink_of(l, head);
    return sink ? *sink : -(real)INFINITY;
}

/* One term of a row's sums: `shifted` is its score less the row's maximum. */
static void add_term(double shifted, double *sum, double *mean_log) {
    const double e = exp(shifted);
    *sum += e;
    if (e > 0) *mean_log += e * shifted; /* 0 for a score of -infinity */
}

/* In double whatever `real` is. With e_j = exp(s_j - max) and p_j = e_j / sum: H = ln(sum) - sum_j p_j (s_j - max). */
AttentionRow attention_row(const AttentionLayer *l, size_t pair, const real *scores, size_t visible) {
    const real *sink = sink_of(l, pair % l->attention->H);
    double maximum = -INFINITY, sum = 0, mean_log = 0;
    for (size_t j = 0; j < visible; j++) maximum = (double)scores[j] > maximum ? (double)scores[j] : maximum;
    const double shift = sink && (double)*sink > maximum ? (double)*sink : maximum;
    for (size_t j = 0; j < visible; j++) add_term((double)scores[j] - shift, &sum, &mean_log);
    if (sink) add_term((double)*sink - shift, &sum, &mean_log);
    return (AttentionRow){.keys = visible + (sink != NULL),
                          .maximum = maximum,
                          .entropy = log(sum) - mean_log / sum,
                          .max_weight = 1 / sum};
}

MULTIVERSIONED static void weights_of(const real *scores, const real *sink, size_t visible, real *weights) {
    real maximum = lanes_maximum(scores, visible);
    if (sink && *sink > maximum) maximum = *sink;
    const real sum = lanes_exponentials(weights, scores, visible, maximum) + (sink ? exp_real(*sink - maximum) : 0);
    for (size_t j = 0; j < visible; j++) weights[j] /= sum;
}

void attention_weights(const AttentionLayer *l, size_t pair, const real *scores, size_t visible, real *weights) {
    weights_of(scores, sink_of(l, pair % l->attention->H), visible, weights);
}

double softmax_gradient_norm(const real *s, const real *dp, const Head *h, size_t i) {
    const double maximum = (double)h->layer->saved.row_max[h->row + i],
                 sum = (double)h->layer->saved.row_sum[h->row + i];
    double delta = 0, squares = 0;
    for (size_t j = 0; j <= i; j++) delta += exp((double)s[j] - maximum) / sum * (double)dp[j];
    for (size_t j = 0; j <= i; j++) {
        double ds = exp((double)s[j] - maximum) / sum * ((double)dp[j] - delta);
        squares += ds * ds;
    }
    return sqrt(squares);
}
