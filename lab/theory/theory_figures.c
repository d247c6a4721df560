/* The figures of a row of attention, first by Monte Carlo, then the exact ones.

   Each sample writes a few numbers. One thread sums them afterwards in the order of the samples, so that the number of
   threads does not change a bit. */
#include "lab/theory/theory.h"

#include <math.h>
#include <omp.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/rng.h"

const char *const THEORY_SCORES[THEORY_SCORE_COUNT] = {"dot", "additive", "cosine", "sink", "softcap"};

enum { CHUNK = 16 }; /* samples of a thread at a time */

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
    Arena arena;
} Measurement;

/* Returns the attention that scores in this way. */
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
static void draw_vectors(const Measurement *m, size_t sample, const Row *row) {
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

/* Returns |dL/dq|. The first entry of value j is r_j - origin, and the first entry of the output is the loss. Without a
   sink `origin` may be r at the largest weight: in a saturated row r_top - <p, r> would be a difference of nearly equal
   numbers. */
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
static void measure_sample(const Measurement *m, size_t sample, const Row *row) {
    const double *r = row->drawn + m->d_k + m->keys * m->d_k;
    draw_vectors(m, sample, row);
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

/* Returns the square root of a figure and its standard error. The root 0 has the error 0. */
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
    /* The scores of one row share their q. Only rows are independent, so errors follow from the differences of rows. */
    for (size_t i = 0; i < n; i++) square[i] = square[i] - 2 * mean.value * score[i] + mean.value * mean.value;
    /* Scores are uncorrelated, also within a row, so this factor makes the variance unbiased, as for independent ones.
       Additive scores of a row correlate by less than a half, which makes a bias below variance / (2 samples). */
    f.score_var = times(scores / (scores - 1), estimate_mean(square, n));
    for (size_t i = 0; i < n; i++) square[i] = gradient[i] * gradient[i];
    f.grad_rms = root_of(estimate_mean(square, n));
    f.grad_median = estimate_median(gradient, n);
    return f;
}

static real *reals(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(rows, width), sizeof(real));
}

static void lay_out_row(Row *row, size_t d_k, size_t keys, Arena *arena) {
    /* the scoring with the most scratch and partial gradients */
    const AttentionConfig largest = {
        .H = 1, .D = d_k, .score = SCORE_ADDITIVE, .qk_norm = QK_NORM_L2, .softcap = (real)THEORY_CAP};
    const size_t drawn = size_add(size_mul(size_add(keys, 2), d_k), keys);
    *row = (Row){.drawn = arena_take(arena, drawn, sizeof(double)),
                 .weights = arena_take(arena, keys + 1, sizeof(double)),
                 .qkv = reals(arena, keys, attention_width_in(&largest)),
                 .dqkv = reals(arena, keys, attention_width_in(&largest)),
                 .dout = reals(arena, keys, d_k),
                 .v = reals(arena, 1, d_k),
                 .scratch = reals(arena, 1, attention_scratch(&largest, keys)),
                 .layer = {.T = keys,
                           .cached = keys - 1,
                           .out = reals(arena, keys, d_k),
                           .partials = reals(arena, 1, attention_partials(&largest)),
                           .saved = attention_lay_out(&largest, keys, 1, arena)}};
    row->layer.qkv = row->qkv;
    row->layer.parameters[PARAMETER_V] = row->v;
    if (row->dout) row->dout[(keys - 1) * d_k] = 1; /* dL/do, as soon as there is memory */
}

/* Lays out every array in the arena, which only measures as long as it has no memory. */
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
        if (!interrupt_signal()) measure_sample(&m, sample, &m.rows[omp_get_thread_num()]);
    for (size_t i = 0; i < count && !interrupt_signal(); i++) figures[i] = figures_of(&m, i);
    memory_release(mark);
}

/* --- the exact figures, as integrals

   Given |q|, the scores are s X_j with s = |q| / divisor and independent X_j ~ N(0, 1). The identity
   1 / Z^m = (1 / (m-1)!) integral of t^(m-1) e^(-tZ) dt turns a ratio of sums over the keys into a product. Derivation:
   lab/docs/theory.md.

   All integrals are computed by the trapezoidal rule. Its error falls exponentially with the step if the integrand is
   smooth and vanishes on both sides, as each one does here (Trefethen and Weideman 2014). Three integrals are nested:
   over ln |q| (a node each), over y = ln t, and over x, the normal number of a key. e^(k z) exp(-e^z), z = y + s x, is
   a bump for k >= 1 and a step down for k = 0. */

enum { NODES = 200 /* on either side */ };
#define X_MAX 8.6     /* the normal density there is 3e-17 */
#define Z_LOW (-42.0) /* 1 + e^z is rounded to 1 */
#define Z_HIGH 4.0    /* exp(-e^z) = 2e-24 */
#define Y_STEP 0.5    /* relative error e^(-pi^2 / step) = 3e-9 */

/* The figures given |q|. */
typedef struct {
    double weight;
    double entropy, max_weight;
    double across, along; /* E |w|^2 and E (sum w_j X_j)^2 over r, w_j = p_j (r_j - <p, r>) */
} Node;

/* The integrals over x for one y: t^k E[X^p e^(k s X) exp(-t e^(s X))]. `top` is E[e^z exp(-e^z) C^(n-1)], where C is
   the part of `one` below X: a key is the largest if the n - 1 others lie below it. */
typedef struct {
    double one;                    /* p = 0, k = 0 */
    double of0[5], of1[4], of2[5]; /* p = 0, 1, 2; by k */
    double top;
} Moments;

static double nonnegative_power(double base, size_t exponent) { return exponent ? pow(base, (double)exponent) : 1; }

/* Returns the integral of f = phi exp(-e^z) up to a grid point: `sum`, which is h times the sum over the points before
   it, half of f itself, and the end terms of Euler and Maclaurin. The argument `f` is f times h. */
static double part_below(double s, double h, double sum, double f, double x, double e) {
    double slope = -x - s * e, bend = -1 - s * s * e, third = -s * s * s * e;
    double f1 = f * slope, f3 = f * (slope * slope * slope + 3 * slope * bend + third);
    return fmax(0, sum + f / 2 - h * f1 / 12 + h * h * h * f3 / 720);
}

static Moments integrate_x(size_t n, double s, double y) {
    const double h = fmin(.2, .25 / s);
    Moments m = {0};
    const double end = fmin(X_MAX, (Z_HIGH - y) / s);
    for (int i = 0; h * i - X_MAX <= end; i++) {
        double x = h * i - X_MAX, e = exp(y + s * x), f = h * exp(-x * x / 2 - e) / sqrt(2 * M_PI);
        double bump = e * f; /* k = 1 */
        if (bump > 1e-25) m.top += bump * nonnegative_power(part_below(s, h, m.one, f, x, e), n - 1);
        m.one += f;
        for (int k = 1; k <= 4; k++) {
            m.of0[k] += bump;
            if (k < 4) m.of1[k] += bump * x;
            m.of2[k] += bump * x * x;
            bump *= e;
        }
    }
    return m;
}

/* Adds one point y to the integrals over y. lab/docs/theory.md has the sums over one, two and three keys. */
static void add_point(Node *node, const Moments *m, size_t keys, double y, double *log_sum, double *p2) {
    const double n = (double)keys, two = n * (n - 1), three = two * (n - 2), step = Y_STEP;
    double l1 = nonnegative_power(m->one, keys - 1), l2 = nonnegative_power(m->one, keys - 2);
    double l3 = keys > 2 ? nonnegative_power(m->one, keys - 3) : 0;
    const double *a = m->of0, *b = m->of1, *c = m->of2;
    *log_sum += step * (exp(-exp(y)) - l1 * m->one);
    *p2 += step * n * a[2] * l1;
    node->max_weight += step * n * m->top;
    /* sum p^2 - 2 sum p^3 + (sum p^2)^2 */
    node->across += step * (n * a[2] * l1 - n * a[3] * l1 + (n * a[4] * l1 + two * a[2] * a[2] * l2) / 6);
    /* sum p^2 X^2 - 2 (sum p^2 X)(sum p X) + (sum p^2)(sum p X)^2 */
    node->along +=
        step * (n * c[2] * l1 - (n * c[3] * l1 + two * b[2] * b[1] * l2) +
                (n * c[4] * l1 + two * (2 * b[3] * b[1] + c[2] * a[2]) * l2 + three * a[2] * b[1] * b[1] * l3) / 6);
}

/* Computes the integrals over y, given s. The entropy is ln Z - s sum p_j X_j. The mean of the second term is
   s^2 (1 - E sum p^2), by parts (Stein). */
static void integrate_y(Node *node, size_t keys, double s) {
    const double edge = X_MAX * s, low = Z_LOW - edge - log((double)keys);
    double log_sum = 0, p2 = 0;
    const int steps = (int)ceil((edge + Z_HIGH - low) / Y_STEP);
    for (int i = 0; i <= steps; i++) {
        const double y = low + Y_STEP * i;
        const Moments m = integrate_x(keys, s, y);
        add_point(node, &m, keys, y, &log_sum, &p2);
    }
    node->entropy = log_sum - s * s * (1 - p2);
}

/* The outer integral has nodes in u = ln |q|. The density of a chi is there proportional to exp(d u - e^(2u) / 2),
   which has its maximum at e^(2u) = d. */
TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads) {
    TheoryExact exact = {.score_var = (double)d_k / (divisor * divisor), .max_weight = keys == 1};
    const double d = (double)d_k, peak = log(d) / 2, step = fmin(.2, .7 / sqrt(2 * d));
    Node nodes[2 * NODES + 1] = {0};
    double total = 0, square = 0;
    if (keys < 2) return exact; /* one weight, 1: nothing to integrate */
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
    for (int i = 0; i <= 2 * NODES; i++) {
        const double u = peak + (i - NODES) * step, weight = exp(d * (u - peak) - (exp(2 * u) - d) / 2);
        if (weight < 1e-15) continue;
        nodes[i].weight = weight;
        integrate_y(&nodes[i], keys, exp(u) / divisor);
    }
    for (int i = 0; i <= 2 * NODES; i++) total += nodes[i].weight;
    for (int i = 0; i <= 2 * NODES; i++) {
        const Node *node = &nodes[i];
        const double weight = node->weight / total;
        exact.entropy += weight * node->entropy;
        exact.max_weight += weight * node->max_weight;
        square += weight * ((d - 1) * node->across + node->along);
    }
    exact.grad_rms = sqrt(square) / divisor;
    return exact;
}

/* The variance of an additive score is E tanh^2(sqrt(2) z), z ~ N(0, 1), since d_k entries of v have variance 1 /
   d_k each. The squares of d_k cosines add up to 1. */
TheoryExact theory_exact_scoring(size_t d_k, size_t keys, TheoryScoring scoring, size_t threads) {
    const double divisor = divisor_value(scoring.divisor, d_k), d = (double)d_k;
    const double variances[THEORY_SCORE_COUNT] = {d, .519975745667, 1 / d, d, NAN};
    if (scoring.score == THEORY_DOT) return theory_exact(d_k, keys, divisor, threads);
    return (TheoryExact){variances[scoring.score] / (divisor * divisor), NAN, NAN, NAN};
}
