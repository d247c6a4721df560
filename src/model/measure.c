/* Statistics of attention, computed after a pass from what it left: queries and keys in the blocks' arrays, maxima and
   sums of rows. Scores come from attention.h, as in training, whatever the way of scoring. Sums are in double. */
#include "model/measure.h"

#include <math.h>
#include <omp.h>

#include "base/statistics.h"
#include "ops/layernorm.h"

static real *own_scratch(const Model *m) { return m->scratch + (size_t)omp_get_thread_num() * m->scratch_size; }
/* The part of the scratch that attention_scores leaves alone, for the weights of a row and of its sink. */
static double *weights_in(real *scratch, size_t T) { return (void *)(scratch + ATTENTION_TILE * T); }

/* Sums over one head's visible entries and rows. `squares` sums squared differences from the mean, updated row by row
   (Chan, Golub, LeVeque 1979): the sum of squares minus the square of the sum would cancel. */
typedef struct {
    double entries, mean, squares, maximum;
    double rows, entropy, max_weight, saturated; /* rows with at least two keys, and sums over them */
    AttentionRounding rounding;
} Tally;

static void tally_scores(Tally *tally, const real *scores, size_t visible) {
    double sum = 0, squares = 0;
    for (size_t j = 0; j < visible; j++) {
        sum += (double)scores[j];
        tally->maximum = (double)scores[j] > tally->maximum ? (double)scores[j] : tally->maximum;
    }
    const double n = (double)visible, all = tally->entries + n, mean = sum / n;
    for (size_t j = 0; j < visible; j++) squares += ((double)scores[j] - mean) * ((double)scores[j] - mean);
    const double shift = mean - tally->mean;
    tally->squares += squares + shift * shift * tally->entries * n / all;
    tally->mean += shift * n / all;
    tally->entries = all;
}

static void tally_row(Tally *tally, const SoftmaxRow *row) {
    if (row->keys < 2) return;
    tally->rows++;
    tally->entropy += row->entropy / log((double)row->keys);
    tally->max_weight += row->max_weight;
    tally->saturated += row->max_weight > SATURATED;
}

/* The Frobenius norm of a head's W_Q or W_K: its columns of c_attn's weight. */
static double weight_norm(const Model *m, size_t layer, size_t head, AttentionPart part) {
    const Tensor *t = tensor_find(&m->tensors, ATTN_W, layer);
    const Range columns = attention_columns(&m->shape.attention, part, head);
    const real *w = m->parameters + t->offset;
    double squares = 0;
    for (size_t row = 0; row < t->size[0]; row++, w += t->width)
        for (size_t c = columns.begin; c < columns.end; c++) squares += (double)w[c] * (double)w[c];
    return sqrt(squares);
}

static HeadStatistics head_statistics(const Model *m, size_t layer, size_t head, size_t B, size_t T, real *scratch) {
    real *panel = scratch;
    const AttentionArrays a = model_attention(m, layer, T);
    const size_t H = m->shape.attention.H;
    Tally tally = {.maximum = -INFINITY};
    for (size_t b = 0; b < B; b++)
        for (size_t first = 0; first < T; first += ATTENTION_TILE) {
            const size_t count = T - first < ATTENTION_TILE ? T - first : ATTENTION_TILE, pair = b * H + head;
            attention_scores(&a, pair, first, count, SCORES_MODIFIED, panel, &tally.rounding, scratch);
            for (size_t r = 0; r < count; r++) {
                const real *scores = panel + r * (first + count);
                const SoftmaxRow row = attention_row(&a, pair, scores, first + r + 1, weights_in(scratch, T));
                tally_scores(&tally, scores, first + r + 1);
                tally_row(&tally, &row);
            }
        }
    const double rows = tally.rows > 0 ? tally.rows : NAN; /* 0 / 0 is -NaN on x86 */
    return (HeadStatistics){.score_std = sqrt(tally.squares / tally.entries),
                            .score_max = tally.maximum,
                            .entropy = tally.entropy / rows,
                            .max_weight = tally.max_weight / rows,
                            .saturated = tally.saturated / rows,
                            .rounding = tally.rounding,
                            .w_q_norm = weight_norm(m, layer, head, QUERY),
                            .w_k_norm = weight_norm(m, layer, head, KEY)};
}

void measure_heads(Model *m, size_t B, size_t T, HeadStatistics *statistics) {
    const long H = (long)m->shape.attention.H, heads = (long)m->shape.L * H;
#pragma omp parallel for num_threads((int)m->threads) schedule(dynamic)
    for (long i = 0; i < heads; i++)
        statistics[i] = head_statistics(m, (size_t)(i / H), (size_t)(i % H), B, T, own_scratch(m));
}

void measure_snapshot(Model *m, size_t T, const AttentionSnapshot *s) {
    const size_t H = m->shape.attention.H;
    real *row = m->scratch;
    double *weights = weights_in(row, T);
    for (size_t i = 0; i < m->shape.L * H * T; i++) { /* row i is one query of one head of one layer */
        const AttentionArrays a = model_attention(m, i / (H * T), T);
        const size_t head = i / T % H, query = i % T;
        attention_scores(&a, head, query, 1, SCORES_RAW, row, NULL, row);
        for (size_t j = 0; j < T; j++) s->scores[i * T + j] = j <= query ? (float)row[j] : 0;
        attention_scores(&a, head, query, 1, SCORES_MODIFIED, row, NULL, row);
        attention_row(&a, head, row, query + 1, weights);
        for (size_t j = 0; j < T; j++) s->weights[i * T + j] = j <= query ? (float)weights[j] : 0;
        s->multiplier[i / T] = (float)attention_multiplier(&a, head);
        s->sink[i / T] = (float)attention_sink(&a, head);
    }
}

/* Statistics of norms (B, T), which are overwritten. The first row of a sequence sees one key and does not count. */
static NormStatistics statistics_of(double *norms, size_t B, size_t T) {
    size_t n = 0;
    double sum = 0, squares = 0;
    for (size_t row = 0; row < B * T; row++) {
        if (row % T == 0) continue;
        double x = norms[row];
        norms[n++] = x;
        sum += x;
        squares += x * x;
    }
    if (n == 0 || !isfinite(sum)) return (NormStatistics){NAN, NAN, NAN, NAN, NAN};
    sort_numbers(norms, n);
    return (NormStatistics){sum / (double)n, sqrt(squares / (double)n), quantile(norms, n, .5), quantile(norms, n, .1),
                            quantile(norms, n, .99)};
}

void measure_gradients(Model *m, const Batch *batch, double *scratch, GradientStatistics *statistics) {
    const size_t rows = batch->B * batch->T, heads = m->shape.L * m->shape.attention.H;
    double *query = scratch, *scores = scratch + heads * rows;
    model_pass(m, batch,
               &(Pass){.with_backward = true,
                       .zero_gradients = true,
                       .batch_weight = (double)batch_targets(batch),
                       .query_norms = query,
                       .score_norms = scores});
#pragma omp parallel for num_threads((int)m->threads) schedule(dynamic)
    for (size_t i = 0; i < heads; i++)
        statistics[i] = (GradientStatistics){.query = statistics_of(query + i * rows, batch->B, batch->T),
                                             .scores = statistics_of(scores + i * rows, batch->B, batch->T)};
}

double predicted_score_std(const ModelShape *s, Init init) {
    const double embeddings = 2 * EMBEDDING_STD * EMBEDDING_STD;
    const double mean_square = s->pre_norm ? embeddings / (embeddings + LAYERNORM_EPSILON) : embeddings;
    double variance[ATTENTION_PARTS], bias[ATTENTION_PARTS];
    for (AttentionPart part = QUERY; part <= KEY; part++) {
        bias[part] = initial_variance(s, ATTN_B, part, init);
        variance[part] = mean_square * (double)s->C * initial_variance(s, ATTN_W, part, init) + bias[part];
    }
    return attention_predicted_std(&s->attention, s->T, variance[QUERY], bias[QUERY], variance[KEY], bias[KEY]);
}
