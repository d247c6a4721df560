/* Stage 3, the normalization: softmax over the visible keys, in which a sink is one more term of the sum without a
   value: p_j = exp(s_j) / (sum_k exp(s_k) + exp(sigma)); sigma is 0 (Miller 2023, softmax-off-by-one) or learned
   (OpenAI 2025, gpt-oss). A tile's rows become weights in softmax_forward and again in softmax_backward, in `real` and
   in vectors; softmax_row is the one routine for all that is measured, in double. */

#include "model/attention_stages.h"

static const real ZERO = 0;

/* The sink's score for a head; NULL where there is no sink. */
static const real *sink_of(const AttentionArrays *l, size_t head) {
    const Sink sink = l->attention->sink;
    return sink == SINK_ONE ? &ZERO : sink == SINK_LEARNED ? l->parameters[PARAMETER_SINK] + head : NULL;
}

static const real LANE_INDEX[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Zeros from a row's entry `from` to `to`, both multiples of LANES. */
static inline __attribute__((always_inline)) void clear(real *row, size_t from, size_t to) {
    for (size_t j = from; j < to; j += LANES) lanes_store(row + j, lanes_of(0));
}

/* The last LANES of a row of n entries, with `rest` beyond them. */
static inline __attribute__((always_inline)) Lanes last_lanes(const real *row, size_t n, real rest) {
    const size_t at = whole_lanes(n) - LANES;
    const Lanes index = lanes_at(LANE_INDEX);
    const Vector beyond = rest - (Vector){0};
    Lanes last = lanes_at(row + at);
    EACH_PART(p) {
        const VectorMask own = index.part[p] < (real)(n - at);
        last.part[p] = (Vector)((own & (VectorMask)last.part[p]) | (~own & (VectorMask)beyond));
    }
    return last;
}

/* Fills up a row of n entries with zeros. All of its last lanes are written, since n differs from row to row: a loop
   over the rest would take as long as a row's exponentials. */
static inline __attribute__((always_inline)) void fill_up(real *row, size_t n) {
    lanes_store(row + whole_lanes(n) - LANES, last_lanes(row, n, 0));
}

/* Goes through all rows in each of three loops, since the steps of a single row wait for each other. */
MULTIVERSIONED static real normalize(real *panel, real *row_max, real *row_sum, const real *sink, const QueryTile *t) {
    real largest = -(real)INFINITY;
    bool finite = true;
    for (size_t r = 0; r < t->count; r++) {
        row_max[r] = lanes_maximum(panel + r * t->stride, t->first + r + 1);
        largest = row_max[r] > largest ? row_max[r] : largest;
        if (sink && *sink > row_max[r]) row_max[r] = *sink;
    }
    for (size_t r = 0; r < t->count; r++) {
        const size_t visible = t->first + r + 1, whole = whole_lanes(visible);
        real *row = panel + r * t->stride;
        lanes_exponentials(row, row, whole, row_max[r]); /* also what is beyond the visible keys, whatever it is */
        fill_up(row, visible);
        row_sum[r] = lanes_total(row, whole);
        if (sink) row_sum[r] += exp_real(*sink - row_max[r]);
        finite = finite && row_sum[r] < (real)INFINITY;
    }
    for (size_t r = 0; r < t->count; r++) {
        const size_t whole = whole_lanes(t->first + r + 1);
        real *row = panel + r * t->stride;
        const real factor = 1 / row_sum[r];
        for (size_t j = 0; j < whole; j += LANES) lanes_multiply(row + j, factor);
        clear(row, whole, t->stride);
    }
    return finite ? largest : (real)NAN;
}

/* The number of query i's row among those that masks are drawn for. */
static uint64_t mask_row(const Head *h, size_t i) { return h->layer->batch_row * h->a->H + (uint64_t)(h->row + i); }

real softmax_forward(real *panel, const Head *h, const QueryTile *t) {
    const AttentionSaved *saved = &h->layer->saved;
    const Dropout *dropout = &h->layer->dropout;
    const size_t row = h->row + t->first;
    const real largest = normalize(panel, saved->row_max + row, saved->row_sum + row, sink_of(h->layer, h->index), t);
    for (size_t r = 0; dropout_is_on(dropout) && r < t->count; r++) {
        real *weights = panel + r * t->stride;
        dropout_rows(weights, weights, NULL, dropout, mask_row(h, t->first + r), 1, whole_lanes(t->first + r + 1));
    }
    return largest;
}

/* Returns sum_j p_j mask_j dp_j; mask NULL: 1. */
static inline __attribute__((always_inline)) real sum_over_keys(const real *p, const real *mask, const real *dp,
                                                                size_t whole) {
    Lanes sum = lanes_of(0);
    for (size_t j = 0; j < whole; j += LANES) {
        const Lanes right = lanes_at(dp + j), factor = mask ? lanes_at(mask + j) : lanes_of(1);
        const Lanes weight = lanes_at(p + j);
        EACH_PART(v) sum.part[v] += weight.part[v] * factor.part[v] * right.part[v];
    }
    return lanes_sum(sum);
}

/* One row: the weights p become p times the mask, and dp becomes ds = p (dp mask - delta). */
static inline __attribute__((always_inline)) void backward_row(real *restrict p, real *restrict dp,
                                                               const real *restrict mask, real delta, size_t whole) {
    for (size_t j = 0; j < whole; j++) dp[j] = p[j] * (mask ? dp[j] * mask[j] - delta : dp[j] - delta);
    for (size_t j = 0; mask && j < whole; j++) p[j] *= mask[j];
}

/* Rows `from` to `to` of a tile. `mask` is NULL, or the one row's. In float delta is do_i . o_i: D products in
   place of T. In bf16 do_i . v_j has a rounded do, and o is rounded, so delta is the sum over keys: in a row where one
   key has all the weight dp - delta is then 0, as it is in exact arithmetic (docs/backward.md). */
MULTIVERSIONED static void backward_rows(real *p, real *ds, const real *mask, const HeadGradients *g, const Head *h,
                                         const QueryTile *t, size_t from, size_t to) {
    const AttentionSaved *saved = &h->layer->saved;
    for (size_t r = from; r < to; r++) {
        const size_t visible = t->first + r + 1, whole = whole_lanes(visible), i = t->first + r;
        const real maximum = saved->row_max[h->row + i], one_over_sum = 1 / saved->row_sum[h->row + i];
        real *weights = p + r * t->stride, *dp = ds + r * t->stride;
        fill_up(dp, visible);
        for (size_t j = 0; j < whole; j++) weights[j] = exp_real(weights[j] - maximum) * one_over_sum;
        fill_up(weights, visible);
        const real delta = h->a->rounds ? sum_over_keys(weights, mask, dp, whole)
                                        : lanes_dot(g->do_ + i * g->o_stride, h->o + i * h->o_stride, h->a->D);
        g->delta[i] = delta;
        backward_row(weights, dp, mask, delta, whole);
        clear(weights, whole, t->stride);
        clear(dp, whole, t->stride);
    }
}

void softmax_backward(real *p, real *ds, real *mask, const HeadGradients *g, const Head *h, const QueryTile *t) {
    if (!dropout_is_on(&h->layer->dropout)) {
        backward_rows(p, ds, NULL, g, h, t, 0, t->count);
        return;
    }
    for (size_t r = 0; r < t->count; r++) {
        dropout_mask(&h->layer->dropout, mask_row(h, t->first + r), mask, whole_lanes(t->first + r + 1));
        backward_rows(p, ds, mask, g, h, t, r, r + 1);
    }
}

/* The sink's value is zero, so of its ds = p (dp - delta) only - p delta is left. In bf16 delta is the one of
   softmax_backward; in float the dot product is computed again, whose last bits this function has always had. */
void sink_backward(const HeadGradients *g, const Head *h) {
    const AttentionArrays *l = h->layer;
    const real sink = l->parameters[PARAMETER_SINK][h->index];
    real *sum = partial_of(h, PARAMETER_SINK);
    for (size_t i = l->cached; i < l->T; i++) {
        const real p = exp_real(sink - l->saved.row_max[h->row + i]) / l->saved.row_sum[h->row + i];
        const real delta =
            h->a->rounds ? g->delta[i] : lanes_dot(g->do_ + i * g->o_stride, h->o + i * h->o_stride, h->a->D);
        *sum -= p * delta;
    }
}

real attention_sink(const AttentionArrays *l, size_t head) {
    const real *sink = sink_of(l, head);
    return sink ? *sink : -(real)INFINITY;
}

/* With e_j = exp(s_j - max) and p_j = e_j / sum: H = ln(sum) - sum_j p_j (s_j - max). The largest e is 1; `rest` sums
   the others without it, so that small ones are not lost beside 1. */
SoftmaxRow softmax_row(double *row, size_t n) {
    size_t top = 0;
    double maximum = -INFINITY, mean = 0;
    for (size_t j = 0; j < n; j++) {
        if (!(row[j] > maximum)) continue;
        maximum = row[j];
        top = j;
    }
    double rest = row[top] - maximum; /* 0, or NaN where the largest is infinite */
    for (size_t j = 0; j < n; j++) {
        const double below = row[j] - maximum;
        row[j] = exp(below);
        if (j == top || row[j] == 0) continue; /* a score of -infinity has no part in the mean */
        rest += row[j];
        mean += row[j] * below;
    }
    for (size_t j = 0; j < n; j++) row[j] /= 1 + rest;
    return (SoftmaxRow){.keys = n, .top = top, .entropy = log1p(rest) - mean / (1 + rest), .max_weight = row[top]};
}

SoftmaxRow attention_row(const AttentionArrays *l, size_t pair, const real *scores, size_t visible, double *weights) {
    const real *sink = sink_of(l, pair % l->attention->H);
    for (size_t j = 0; j < visible; j++) weights[j] = (double)scores[j];
    if (sink) weights[visible] = (double)*sink;
    return softmax_row(weights, visible + (sink != NULL));
}

/* Computes the weights as the backward pass does, by the maxima and sums that the forward pass has saved. */
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
