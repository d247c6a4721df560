#include "model/probe.h"

#include <math.h>
#include <omp.h>

#include "ops/attention.h"
#include "ops/layernorm.h"
#include "ops/softmax.h"

/* Sums over the visible entries and rows of one head. */
typedef struct {
    double entries, sum, squares, maximum;
    double rows, entropy, max_weight, saturated;
} Tally;

/* Adds one row of scores. With e_j = exp(s_j - max) and p_j = e_j / sum, H = ln(sum) - sum_j p_j (s_j - max). */
static void tally_row(Tally *tally, const real *scores, size_t visible) {
    real maximum = row_maximum(scores, visible);
    for (size_t j = 0; j < visible; j++) {
        double s = (double)scores[j];
        tally->sum += s;
        tally->squares += s * s;
    }
    tally->entries += (double)visible;
    if ((double)maximum > tally->maximum) tally->maximum = (double)maximum;
    if (visible < 2) return;
    double sum = 0, mean_log = 0;
    for (size_t j = 0; j < visible; j++) {
        double shifted = (double)scores[j] - (double)maximum, e = exp(shifted);
        sum += e;
        mean_log += e * shifted;
    }
    tally->rows++;
    tally->entropy += (log(sum) - mean_log / sum) / log((double)visible);
    tally->max_weight += 1 / sum;
    tally->saturated += 1 / sum > SATURATED;
}

static AttentionShape head_shape(const ModelShape *s, size_t T) {
    return (AttentionShape){.T = T, .D = s->D, .stride = 3 * s->H * s->D, .multiplier = s->multiplier};
}

/* Of the D columns of c_attn's weight (C, 3HD) from `column` on. */
static double weight_norm(const Model *m, size_t layer, size_t column) {
    const ModelShape *s = &m->shape;
    const real *w = tensor_at(&m->tensors, m->parameters, ATTN_W, layer) + column;
    double squares = 0;
    for (size_t c = 0; c < s->C; c++, w += 3 * s->H * s->D)
        for (size_t d = 0; d < s->D; d++) squares += (double)w[d] * (double)w[d];
    return sqrt(squares);
}

static HeadStatistics head_statistics(Model *m, size_t layer, size_t head, size_t B, size_t T, real *panel) {
    const ModelShape *s = &m->shape;
    AttentionShape shape = head_shape(s, T);
    Tally tally = {.maximum = -INFINITY};
    for (size_t b = 0; b < B; b++) {
        const real *q = m->blocks[layer].qkv + b * T * shape.stride + head * s->D;
        for (size_t first = 0; first < T; first += ATTENTION_BLOCK) {
            size_t count = T - first < ATTENTION_BLOCK ? T - first : ATTENTION_BLOCK;
            attention_scores(panel, q, q + s->H * s->D, &shape, first, count);
            for (size_t r = 0; r < count; r++) tally_row(&tally, panel + r * (first + count), first + r + 1);
        }
    }
    double mean = tally.sum / tally.entries, variance = tally.squares / tally.entries - mean * mean;
    /* 0 / 0 would have a sign. */
    return (HeadStatistics){.score_std = sqrt(variance < 0 ? 0 : variance),
                            .score_max = tally.maximum,
                            .entropy = tally.rows > 0 ? tally.entropy / tally.rows : NAN,
                            .max_weight = tally.rows > 0 ? tally.max_weight / tally.rows : NAN,
                            .saturated = tally.rows > 0 ? tally.saturated / tally.rows : NAN,
                            .w_q_norm = weight_norm(m, layer, head * s->D),
                            .w_k_norm = weight_norm(m, layer, (s->H + head) * s->D)};
}

void probe_statistics(Model *m, size_t B, size_t T, HeadStatistics *statistics) {
    const long pairs = (long)(m->shape.L * m->shape.H), H = (long)m->shape.H;
#pragma omp parallel for num_threads((int)m->threads) schedule(dynamic)
    for (long pair = 0; pair < pairs; pair++) {
        real *panel = m->scratch + (size_t)omp_get_thread_num() * attention_scratch(m->shape.T);
        statistics[pair] = head_statistics(m, (size_t)(pair / H), (size_t)(pair % H), B, T, panel);
    }
}

void probe_weights(Model *m, size_t layer, size_t head, size_t T, float *weights) {
    const ModelShape *s = &m->shape;
    AttentionShape shape = head_shape(s, T);
    const real *q = m->blocks[layer].qkv + head * s->D;
    real *row = m->scratch;
    for (size_t i = 0; i < T; i++) {
        attention_scores(row, q, q + s->H * s->D, &shape, i, 1);
        real sum = row_exponentials(row, row, i + 1, row_maximum(row, i + 1));
        for (size_t j = 0; j < T; j++) weights[i * T + j] = j <= i ? (float)(row[j] / sum) : 0;
    }
}

static void raw_scores(Model *m, size_t layer, size_t head, size_t T, float *scores) {
    const ModelShape *s = &m->shape;
    AttentionShape shape = head_shape(s, T);
    const real *q = m->blocks[layer].qkv + head * s->D;
    shape.multiplier = 1;
    for (size_t i = 0; i < T; i++) {
        attention_scores(m->scratch, q, q + s->H * s->D, &shape, i, 1);
        for (size_t j = 0; j < T; j++) scores[i * T + j] = j <= i ? (float)m->scratch[j] : 0;
    }
}

void probe_snapshot(Model *m, size_t T, float *scores, float *weights) {
    for (size_t i = 0; i < m->shape.L * m->shape.H; i++) {
        raw_scores(m, i / m->shape.H, i % m->shape.H, T, scores + i * T * T);
        probe_weights(m, i / m->shape.H, i % m->shape.H, T, weights + i * T * T);
    }
}

double probe_predicted_std(const ModelShape *s, Init init) {
    double weight, bias, variance = 2 * EMBEDDING_STD * EMBEDDING_STD;
    double mean_square = s->pre_norm ? variance / (variance + LAYERNORM_EPSILON) : variance;
    tensors_query_variance(s, init, &weight, &bias);
    double each = mean_square * (double)s->C * weight + bias;
    return (double)s->multiplier * sqrt((double)s->D * (each * each - bias * bias));
}
