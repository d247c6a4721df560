#include "model/gradient_probe.h"

#include <math.h>
#include <omp.h>

#include "base/statistics.h"
#include "ops/attention.h"
#include "ops/matmul.h"

typedef struct {
    Model *model;
    const Batch *batch;
    double *query, *scores; /* (L, H, B T): lengths */
} Probe;

static double length(const real *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* |ds| of one row: ds_j = p_j (dp_j - sum_l p_l dp_l), docs/backward.md. */
static double score_gradient(const real *s, const real *dp, double maximum, double sum, size_t visible) {
    double delta = 0, squares = 0;
    for (size_t j = 0; j < visible; j++) delta += exp((double)s[j] - maximum) / sum * (double)dp[j];
    for (size_t j = 0; j < visible; j++) {
        double ds = exp((double)s[j] - maximum) / sum * ((double)dp[j] - delta);
        squares += ds * ds;
    }
    return sqrt(squares);
}

/* Queries first .. first + count - 1 of one head of one sequence. */
static void look_at_rows(const Probe *p, size_t layer, size_t sequence, size_t head, size_t first, size_t count) {
    Model *m = p->model;
    const ModelShape *s = &m->shape;
    const size_t T = p->batch->T, HD = s->H * s->D, keys = first + count, row = sequence * T + first;
    const size_t pair = sequence * s->H + head, at = (layer * s->H + head) * p->batch->B * T + row;
    const AttentionShape shape = {.T = T, .D = s->D, .stride = 3 * HD, .multiplier = s->multiplier};
    const real *q = m->blocks[layer].qkv + sequence * T * 3 * HD + head * s->D, *k = q + HD, *v = k + HD;
    real *scores = m->scratch + (size_t)omp_get_thread_num() * attention_scratch(s->T), *dp = scores + count * keys;
    attention_scores(scores, q, k, &shape, first, count);
    matmul(PLAIN, TRANSPOSED, count, keys, s->D, 1, m->d.att + row * HD + head * s->D, HD, v, 3 * HD, false, dp, keys);
    for (size_t r = 0; r < count; r++) {
        const BlockActivations *a = &m->blocks[layer];
        p->scores[at + r] = score_gradient(scores + r * keys, dp + r * keys, (double)a->row_max[pair * T + first + r],
                                           (double)a->row_sum[pair * T + first + r], first + r + 1);
        p->query[at + r] = length(m->d.qkv + (row + r) * 3 * HD + head * s->D, s->D);
    }
}

/* A thread's rows, as soon as their gradients are there: the next block overwrites them. */
static void look(void *context, const TapView *view) {
    const Probe *p = context;
    if (!view->backward || view->place != PLACE_QKV) return;
    const size_t T = p->batch->T, end = view->first + view->rows;
    for (size_t row = view->first, count; row < end; row += count) {
        const size_t first = row % T;
        count = T - first < end - row ? T - first : end - row;
        if (count > ATTENTION_BLOCK) count = ATTENTION_BLOCK;
        for (size_t head = 0; head < p->model->shape.H; head++)
            look_at_rows(p, view->layer, row / T, head, first, count);
    }
}

/* Of the lengths (B, T), which are sorted; the first row of a sequence sees one key and does not count. */
static Spread spread_of(double *lengths, size_t B, size_t T) {
    size_t n = 0;
    double sum = 0, squares = 0;
    for (size_t row = 0; row < B * T; row++) {
        if (row % T == 0) continue;
        double x = lengths[row];
        lengths[n++] = x;
        sum += x;
        squares += x * x;
    }
    if (n == 0 || !isfinite(sum)) return (Spread){NAN, NAN, NAN, NAN, NAN};
    sort_numbers(lengths, n);
    return (Spread){sum / (double)n, sqrt(squares / (double)n), quantile(lengths, n, .5), quantile(lengths, n, .1),
                    quantile(lengths, n, .99)};
}

void probe_gradients(Model *m, const Batch *batch, double *room, GradientStatistics *statistics) {
    const size_t rows = batch->B * batch->T, heads = m->shape.L * m->shape.H;
    Probe probe = {m, batch, room, room + heads * rows};
    const Tap tap = {look, &probe}, *before = m->tap;
    m->tap = &tap;
    model_gradients(m, batch);
    m->tap = before;
#pragma omp parallel for num_threads((int)m->threads) schedule(dynamic)
    for (size_t i = 0; i < heads; i++)
        statistics[i] = (GradientStatistics){.query = spread_of(probe.query + i * rows, batch->B, batch->T),
                                             .scores = spread_of(probe.scores + i * rows, batch->B, batch->T)};
}
