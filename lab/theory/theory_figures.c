/* The figures of a row of attention, by Monte Carlo. Each sample writes a few numbers. One thread sums them afterwards
   in the order of the samples, so that the number of threads does not change a bit. */
#include "lab/theory/theory.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/memory.h"

/* additive: v.tanh(q + k), v ~ N(0, 1/d_k) (Bahdanau, Cho and Bengio 2015). cosine: q.k / (|q| |k|) (Henry et al.
   2020). sink: one more key, of score and value 0. softcap: X tanh(q.k / X) (Gemma Team 2024), with Grok-1's 30. */
void theory_scorings(size_t d_k, TheoryScoring scorings[THEORY_SCORINGS]) {
    const TheoryScoring all[THEORY_SCORINGS] = {
        {.name = "dot", .divisor.mode = SCALE_NONE},
        {.name = "dot", .divisor.mode = SCALE_SQRT_DK},
        {.name = "dot", .divisor.mode = SCALE_DK},
        {.name = "dot", .divisor.mode = SCALE_2SQRT_DK},
        {.name = "additive", .divisor.mode = SCALE_NONE, .attention.score = SCORE_ADDITIVE},
        {.name = "cosine", .divisor = {SCALE_NUMBER, 1 / sqrt((double)d_k)}, .attention.qk_norm = QK_NORM_L2},
        {.name = "sink", .divisor.mode = SCALE_SQRT_DK, .attention.sink = SINK_ONE},
        {.name = "softcap", .divisor.mode = SCALE_NONE, .attention.softcap = 30},
    };
    memcpy(scorings, all, sizeof all);
}

void theory_normals(const Rng *rng, uint64_t first, size_t count, double *out) {
    for (size_t i = 0; i < count;) {
        double four[4];
        size_t at = (size_t)((first + i) % 4), some = 4 - at < count - i ? 4 - at : count - i;
        rng_normals(rng, (first + i) / 4, four);
        for (size_t j = 0; j < some; j++) out[i + j] = four[at + j];
        i += some;
    }
}

/* The numbers of a sample. SCORE and SQUARE are the means of its scores and of their squares. */
enum { SCORE, SQUARE, ENTROPY, MAX_WEIGHT, GRADIENT, MEASURED };

/* One thread's row of attention: a sequence of `keys` positions in one head, of which only the last has a query. */
typedef struct {
    double *drawn;         /* q (d_k), the keys (keys, d_k), r (keys), and v (d_k) of additive scores */
    double *weights;       /* (keys + 1) */
    real *qkv, *dqkv;      /* (keys, 3 d_k) */
    real *dout;            /* (keys, d_k) */
    real *v, *scratch;     /* (d_k); attention_scratch */
    AttentionArrays layer; /* these arrays, and others */
} Row;

typedef struct {
    size_t d_k, keys, samples, count;
    const TheoryScoring *scorings;
    Rng rng, v_rng;
    double *measured; /* (count, MEASURED, samples) */
    Row *rows;        /* (threads) */
} Measurement;

/* Streams below 2^30 are values of d_k. */
enum { V_STREAM = 1 << 30 };

static uint64_t first_number(size_t sample, size_t drawn) { return (uint64_t)sample * ((drawn + 3) / 4 * 4); }

/* Draws a query, keys and v into the arrays of attention. */
static void draw_vectors(const Measurement *m, size_t sample, const Row *row) {
    const size_t d_k = m->d_k, keys = m->keys, stride = 3 * d_k, count = d_k + keys * d_k + keys;
    const double *k = row->drawn + d_k;
    double *v = row->drawn + count;
    real *q = row->qkv + (keys - 1) * stride;
    theory_normals(&m->rng, first_number(sample, count), count, row->drawn);
    theory_normals(&m->v_rng, first_number(sample, d_k), d_k, v);
    for (size_t i = 0; i < d_k; i++) {
        q[i] = (real)row->drawn[i];
        row->v[i] = (real)(v[i] / sqrt((double)d_k));
        for (size_t j = 0; j < keys; j++) row->qkv[j * stride + d_k + i] = (real)k[j * d_k + i];
    }
}

/* Returns |dL/dq|. The first entry of value j is r_j - origin, and the first entry of the output is the loss. Without a
   sink `origin` may be r at the largest weight: in a saturated row r_top - <p, r> would be a difference of nearly equal
   numbers. */
static double gradient_norm_of(const Measurement *m, const Row *row, const AttentionArrays *layer, double origin) {
    const size_t d_k = m->d_k, stride = 3 * d_k;
    const double *r = row->drawn + d_k + m->keys * d_k;
    const real *dq = row->dqkv + (m->keys - 1) * stride;
    double squares = 0;
    for (size_t j = 0; j < m->keys; j++) row->qkv[j * stride + 2 * d_k] = (real)(r[j] - origin);
    attention_pairs_forward(layer, (Range){0, 1}, row->scratch);
    attention_pairs_backward(layer, (Range){0, 1}, row->dout, row->scratch);
    for (size_t i = 0; i < d_k; i++) squares += (double)dq[i] * (double)dq[i];
    return sqrt(squares);
}

/* Draws and measures one sample. */
static void measure_sample(const Measurement *m, size_t sample, const Row *row) {
    const double *r = row->drawn + m->d_k + m->keys * m->d_k;
    draw_vectors(m, sample, row);
    for (size_t i = 0; i < m->count; i++) {
        AttentionConfig attention = m->scorings[i].attention;
        AttentionArrays layer = row->layer;
        double *const out = m->measured + i * MEASURED * m->samples + sample, sum = 0, squares = 0;
        real *scores = row->scratch;
        attention.H = 1;
        attention.D = m->d_k;
        attention.divisor = divisor_value(m->scorings[i].divisor, m->d_k);
        layer.attention = &attention;
        attention_scores(&layer, 0, m->keys - 1, 1, SCORES_MODIFIED, scores, NULL, row->scratch);
        for (size_t j = 0; j < m->keys; j++) {
            sum += (double)scores[j];
            squares += (double)scores[j] * (double)scores[j];
        }
        const SoftmaxRow softmax = attention_row(&layer, 0, scores, m->keys, row->weights);
        out[SCORE * m->samples] = sum / (double)m->keys;
        out[SQUARE * m->samples] = squares / (double)m->keys;
        out[ENTROPY * m->samples] = softmax.entropy;
        out[MAX_WEIGHT * m->samples] = softmax.max_weight;
        out[GRADIENT * m->samples] = gradient_norm_of(m, row, &layer, attention.sink == SINK_NONE ? r[softmax.top] : 0);
    }
}

static TheoryFigures figures_of(const Measurement *m, size_t scoring) {
    const size_t n = m->samples;
    double *const score = m->measured + scoring * MEASURED * n, *const square = score + SQUARE * n;
    double *const gradient = score + GRADIENT * n;
    const double scores = (double)n * (double)m->keys, unbiased = scores / (scores - 1);
    const Estimate mean = estimate_mean(score, n);
    TheoryFigures f = {.score_mean = mean,
                       .entropy = estimate_mean(score + ENTROPY * n, n),
                       .max_weight = estimate_mean(score + MAX_WEIGHT * n, n),
                       .grad_mean = estimate_mean(gradient, n)};
    /* The scores of one row share their q. Only rows are independent, so errors follow from the differences of rows. */
    for (size_t i = 0; i < n; i++) square[i] = square[i] - 2 * mean.value * score[i] + mean.value * mean.value;
    /* Scores are uncorrelated, also within a row, so this factor makes the variance unbiased, as for independent ones.
       Additive scores of a row correlate by less than a half, which makes a bias below variance / (2 samples). */
    const Estimate deviation = estimate_mean(square, n);
    f.score_var = (Estimate){unbiased * deviation.value, unbiased * deviation.error};
    for (size_t i = 0; i < n; i++) square[i] = gradient[i] * gradient[i];
    const Estimate mean_square = estimate_mean(square, n);
    const double rms = sqrt(mean_square.value);
    f.grad_rms = (Estimate){rms, rms > 0 ? mean_square.error / 2 / rms : 0};
    f.grad_median = estimate_median(gradient, n);
    return f;
}

static real *reals(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(rows, width), sizeof(real));
}

/* Lays out a thread's arrays in the arena, which only measures as long as it has no memory. */
static void lay_out_row(Row *row, size_t d_k, size_t keys, Arena *arena) {
    /* the scoring with the most scratch and partial gradients */
    const AttentionConfig most = {.H = 1, .D = d_k, .score = SCORE_ADDITIVE, .qk_norm = QK_NORM_L2, .softcap = 1};
    row->drawn = arena_take(arena, size_add(size_mul(size_add(keys, 2), d_k), keys), sizeof(double));
    row->weights = arena_take(arena, keys + 1, sizeof(double));
    row->qkv = reals(arena, keys, 3 * d_k);
    row->dqkv = reals(arena, keys, 3 * d_k);
    row->dout = reals(arena, keys, d_k);
    row->v = reals(arena, 1, d_k);
    row->scratch = reals(arena, 1, attention_scratch(&most, keys));
    row->layer = (AttentionArrays){.T = keys,
                                   .cached = keys - 1,
                                   .qkv = {row->qkv, 3 * d_k, FORM_REAL},
                                   .out = {reals(arena, keys, d_k), d_k, FORM_REAL},
                                   .dqkv = {row->dqkv, 3 * d_k, FORM_REAL},
                                   .parameters[PARAMETER_V] = row->v,
                                   .partials = reals(arena, 1, attention_partials(&most)),
                                   .saved = attention_lay_out(&most, keys, 1, arena)};
}

void theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const TheoryScoring *scorings, size_t count, TheoryFigures *figures) {
    const size_t mark = memory_mark();
    Arena arena = {0};
    Measurement m = {.d_k = d_k, .keys = keys, .samples = samples, .scorings = scorings, .count = count};
    m.rng = rng_make(seed, RNG_THEORY, (uint32_t)d_k);
    m.v_rng = rng_make(seed, RNG_THEORY, V_STREAM | (uint32_t)d_k);
    m.rows = memory_make(threads, sizeof *m.rows, "the rows of the threads");
    do {
        m.measured = arena_take(&arena, size_mul(samples, MEASURED * count), sizeof(double));
        for (size_t t = 0; t < threads; t++) lay_out_row(&m.rows[t], d_k, keys, &arena);
    } while (arena_allocate(&arena, "the keys and samples"));
    for (size_t t = 0; t < threads; t++) m.rows[t].dout[(keys - 1) * d_k] = 1; /* dL/do */
#pragma omp parallel for num_threads((int)threads) schedule(dynamic, 16)
    for (size_t sample = 0; sample < samples; sample++)
        if (!interrupt_signal()) measure_sample(&m, sample, &m.rows[omp_get_thread_num()]);
    for (size_t i = 0; i < count && !interrupt_signal(); i++) figures[i] = figures_of(&m, i);
    memory_release(mark);
}
