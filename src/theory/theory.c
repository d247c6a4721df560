/* The figures by Monte Carlo. Every sample writes a few numbers of its own. One thread sums them afterwards, in the
   order of the samples, so that the number of threads does not change a bit. */
#include "theory/theory.h"

#include <math.h>
#include <omp.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/rng.h"

const char *const THEORY_SCORES[THEORY_SCORE_COUNT] = {"dot", "additive", "cosine", "sink", "softcap"};

enum { CHUNK = 16 }; /* samples a thread takes at a time */

/* What is measured of a row. SCORE and SQUARE are the means of its scores and of their squares. */
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
    Arena arena;
} Measurement;

/* The attention that scores in this way. */
static AttentionConfig attention_of(TheoryScoring scoring, size_t d_k) {
    return (AttentionConfig){.H = 1,
                             .D = d_k,
                             .multiplier = (real)(1 / divisor_value(scoring.divisor, d_k)),
                             .score = scoring.score == THEORY_ADDITIVE ? SCORE_ADDITIVE : SCORE_DOT,
                             .qk_norm = scoring.score == THEORY_COSINE ? QK_NORM_L2 : QK_NORM_NONE,
                             .softcap = scoring.score == THEORY_SOFTCAP ? (real)THEORY_CAP : 0,
                             .sink = scoring.score == THEORY_SINK ? SINK_ONE : SINK_NONE};
}

/* Streams below 2^30 are values of d_k. */
enum { V_STREAM = 1 << 30 };

static uint64_t first_number(size_t sample, size_t drawn) { return (uint64_t)sample * ((drawn + 3) / 4 * 4); }

/* Draws a query, keys and v into the arrays of attention. */
static void take_draw(const Measurement *m, size_t sample, const Row *row) {
    const size_t d_k = m->d_k, keys = m->keys, stride = 3 * d_k, count = d_k + keys * d_k + keys;
    const double *k = row->drawn + d_k;
    double *v = row->drawn + count;
    real *q = row->qkv + (keys - 1) * stride;
    rng_fill_normal(&m->rng, first_number(sample, count), count, row->drawn);
    rng_fill_normal(&m->v_rng, first_number(sample, d_k), d_k, v);
    for (size_t i = 0; i < d_k; i++) {
        q[i] = (real)row->drawn[i];
        row->v[i] = (real)(v[i] / sqrt((double)d_k));
        for (size_t j = 0; j < keys; j++) row->qkv[j * stride + d_k + i] = (real)k[j * d_k + i];
    }
}

/* |dL/dq|. The first entry of value j is r_j, and the output's first entry the loss. Without a sink r can be measured
   from r at the largest weight: in a saturated row r_top - <p, r> would be a difference of nearly equal numbers. */
static double gradient_norm_of(const Measurement *m, const Row *row, const AttentionArrays *layer, double origin) {
    const size_t d_k = m->d_k, stride = 3 * d_k;
    const double *r = row->drawn + d_k + m->keys * d_k;
    const real *dq = row->dqkv + (m->keys - 1) * stride;
    double squares = 0;
    for (size_t j = 0; j < m->keys; j++) row->qkv[j * stride + 2 * d_k] = (real)(r[j] - origin);
    attention_forward(layer, (Range){0, 1}, row->scratch);
    attention_backward(layer, (Range){0, 1}, row->dqkv, row->dout, row->scratch);
    for (size_t i = 0; i < d_k; i++) squares += (double)dq[i] * (double)dq[i];
    return sqrt(squares);
}

/* Draws and measures one sample. */
static void take_sample(const Measurement *m, size_t sample, const Row *row) {
    const double *r = row->drawn + m->d_k + m->keys * m->d_k;
    take_draw(m, sample, row);
    for (size_t i = 0; i < m->count; i++) {
        const AttentionConfig attention = attention_of(m->scorings[i], m->d_k);
        AttentionArrays layer = row->layer;
        double *const out = m->measured + i * MEASURED * m->samples + sample, sum = 0, squares = 0;
        real *scores = row->scratch;
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

static Estimate times(double factor, Estimate e) { return (Estimate){factor * e.value, factor * e.error}; }

/* The square root of a figure and its standard error; the root 0 has the error 0. */
static Estimate root_of(Estimate square) {
    const double root = sqrt(square.value);
    return (Estimate){root, root > 0 ? square.error / 2 / root : 0};
}

static TheoryFigures figures_of(const Measurement *m, size_t scoring) {
    const size_t n = m->samples;
    double *const score = m->measured + scoring * MEASURED * n, *const square = score + SQUARE * n;
    double *const gradient = score + GRADIENT * n;
    const double scores = (double)n * (double)m->keys;
    const Estimate mean = estimate_mean(score, n);
    TheoryFigures f = {.score_mean = mean,
                       .entropy = estimate_mean(score + ENTROPY * n, n),
                       .max_weight = estimate_mean(score + MAX_WEIGHT * n, n),
                       .grad_mean = estimate_mean(gradient, n)};
    /* The scores of one row share their q: only rows are independent, so errors come from how rows differ. */
    for (size_t i = 0; i < n; i++) square[i] = square[i] - 2 * mean.value * score[i] + mean.value * mean.value;
    /* Scores are uncorrelated, even within a row, so this factor makes the variance unbiased, as for independent ones.
       Additive scores of a row correlate by less than a half: a bias of less than variance / (2 samples). */
    f.score_var = times(scores / (scores - 1), estimate_mean(square, n));
    for (size_t i = 0; i < n; i++) square[i] = gradient[i] * gradient[i];
    f.grad_rms = root_of(estimate_mean(square, n));
    f.grad_median = estimate_median(gradient, n);
    return f;
}

static real *take(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(rows, width), sizeof(real));
}

static void lay_out_row(Row *row, size_t d_k, size_t keys, Arena *arena) {
    /* of all scorings the one with the most scratch and partial gradients */
    const AttentionConfig largest = {
        .H = 1, .D = d_k, .score = SCORE_ADDITIVE, .qk_norm = QK_NORM_L2, .softcap = (real)THEORY_CAP};
    const size_t drawn = size_add(size_mul(size_add(keys, 2), d_k), keys);
    *row = (Row){.drawn = arena_take(arena, drawn, sizeof(double)),
                 .weights = arena_take(arena, keys + 1, sizeof(double)),
                 .qkv = take(arena, keys, attention_width_in(&largest)),
                 .dqkv = take(arena, keys, attention_width_in(&largest)),
                 .dout = take(arena, keys, d_k),
                 .v = take(arena, 1, d_k),
                 .scratch = take(arena, 1, attention_scratch(&largest, keys)),
                 .layer = {.T = keys,
                           .cached = keys - 1,
                           .out = take(arena, keys, d_k),
                           .partials = take(arena, 1, attention_partials(&largest)),
                           .saved = attention_lay_out(&largest, keys, 1, arena)}};
    row->layer.qkv = row->qkv;
    row->layer.parameters[PARAMETER_V] = row->v;
    if (row->dout) row->dout[(keys - 1) * d_k] = 1; /* dL/do, once there is memory */
}

/* Takes every array from the arena, which only measures as long as it has no memory. */
static void lay_out(Measurement *m, size_t threads) {
    m->measured = arena_take(&m->arena, size_mul(m->samples, MEASURED * m->count), sizeof(double));
    for (size_t t = 0; t < threads; t++) lay_out_row(&m->rows[t], m->d_k, m->keys, &m->arena);
}

void theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const TheoryScoring *scorings, size_t count, TheoryFigures *figures) {
    const size_t mark = memory_mark();
    Measurement m = {.d_k = d_k, .keys = keys, .samples = samples, .scorings = scorings, .count = count};
    m.rng = rng_make(seed, RNG_THEORY, (uint32_t)d_k);
    m.v_rng = rng_make(seed, RNG_THEORY, V_STREAM | (uint32_t)d_k);
    m.rows = memory_make(threads, sizeof *m.rows, "the rows of the threads");
    lay_out(&m, threads);
    if (m.arena.used > memory_of_machine())
        runtime_error("d_k %zu with %zu keys and %zu samples needs %.3g GB of memory for %zu threads", d_k, keys,
                      samples, (double)m.arena.used / 1e9, threads);
    arena_allocate(&m.arena, "the keys and samples");
    lay_out(&m, threads);
#pragma omp parallel for num_threads((int)threads) schedule(dynamic, CHUNK)
    for (size_t sample = 0; sample < samples; sample++)
        if (!interrupt_signal()) take_sample(&m, sample, &m.rows[omp_get_thread_num()]);
    for (size_t i = 0; i < count && !interrupt_signal(); i++) figures[i] = figures_of(&m, i);
    memory_release(mark);
}
