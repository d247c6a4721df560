/* Every sample writes its own few numbers; what is summed is summed afterwards, by one thread, in their order. */
#include "theory/theory.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/rng.h"

const char *const THEORY_SCORES[THEORY_SCORE_COUNT] = {"dot", "additive", "cosine", "sink", "softcap"};

enum { CHUNK = 16 }; /* samples a thread takes at a time */

/* What is measured of a row; of its scores, before the divisor, the mean and that of their squares. */
enum { SCORE, SQUARE, ENTROPY, MAX_WEIGHT, GRADIENT, MEASURED };

typedef struct {
    size_t d_k, keys, samples, count;
    const TheoryScoring *scorings;
    Rng rng, v_rng;
    double *measured;    /* (count, MEASURED, samples) */
    double *scratch;     /* (threads, scratch_size) */
    size_t scratch_size; /* of one thread */
} Measurement;

/* The largest exponential is 1 and is left out of `rest`: what the others lack is not lost beside it. */
TheoryRow theory_softmax(const double *scores, size_t n, double multiplier, double *p) {
    size_t top = 0;
    double rest = 0, mean = 0;
    for (size_t j = 1; j < n; j++)
        if (scores[j] > scores[top]) top = j;
    for (size_t j = 0; j < n; j++) {
        double below = multiplier * (scores[j] - scores[top]);
        p[j] = exp(below);
        if (j == top) continue;
        rest += p[j];
        mean += p[j] * below;
    }
    for (size_t j = 0; j < n; j++) p[j] /= 1 + rest;
    /* H = -sum p ln p, with ln p_j = below_j - ln(1 + rest) */
    return (TheoryRow){.entropy = log1p(rest) - mean / (1 + rest), .max_weight = p[top], .top = top};
}

double theory_dot(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

double theory_gradient_norm(double *p, const double *r, const double *k, size_t keys, size_t d_k, size_t top,
                            double multiplier, double *sum) {
    double mean = 0, largest = 0;
    for (size_t j = 0; j < keys; j++) mean += p[j] * (r[j] - r[top]);
    for (size_t j = 0; j < keys; j++) {
        p[j] *= r[j] - r[top] - mean;
        largest = fmax(largest, fabs(p[j]));
    }
    if (largest == 0) return 0; /* one key, or all others at weight zero */
    for (size_t i = 0; i < d_k; i++) sum[i] = 0;
    for (size_t j = 0; j < keys; j++) {
        double scaled = p[j] / largest; /* so that squares do not underflow */
        for (size_t i = 0; i < d_k; i++) sum[i] += scaled * k[j * d_k + i];
    }
    return multiplier * largest * sqrt(theory_dot(sum, sum, d_k));
}

/* The derivative, 1 - tanh^2, without cancellation where tanh is near 1. */
static double tanh_and_derivative(double x, double *derivative) {
    const double e = exp(-2 * fabs(x)), share = 1 / (1 + e);
    *derivative = 4 * e * share * share;
    return copysign((1 - e) * share, x);
}

static void additive_scores(const TheoryDraw *draw, double *scores, double *slopes) {
    for (size_t j = 0; j < draw->keys; j++) {
        scores[j] = 0;
        for (size_t i = 0; i < draw->d_k; i++) {
            double derivative, t = tanh_and_derivative(draw->q[i] + draw->k[j * draw->d_k + i], &derivative);
            scores[j] += draw->v[i] * t;
            slopes[j * draw->d_k + i] = draw->v[i] * derivative;
        }
    }
}

/* With one entry the cosine is 1 or -1, and its derivative 0, exactly. */
static void cosine_scores(const TheoryDraw *draw, double *scores, double *slopes) {
    const size_t d_k = draw->d_k;
    const double q_norm = sqrt(theory_dot(draw->q, draw->q, d_k)), per_q_norm = 1 / q_norm;
    double *q = slopes + draw->keys * d_k; /* q / |q|, where a sink would be */
    for (size_t i = 0; i < d_k; i++) q[i] = draw->q[i] / q_norm;
    for (size_t j = 0; j < draw->keys; j++) {
        const double *k = draw->k + j * d_k, k_norm = sqrt(theory_dot(k, k, d_k));
        scores[j] = draw->dot[j] / (q_norm * k_norm);
        for (size_t i = 0; i < d_k; i++) slopes[j * d_k + i] = (k[i] / k_norm - scores[j] * q[i]) * per_q_norm;
    }
}

static void softcap_scores(const TheoryDraw *draw, double *scores, double *slopes) {
    for (size_t j = 0; j < draw->keys; j++) {
        double derivative;
        scores[j] = THEORY_CAP * tanh_and_derivative(draw->dot[j] / THEORY_CAP, &derivative);
        for (size_t i = 0; i < draw->d_k; i++) slopes[j * draw->d_k + i] = derivative * draw->k[j * draw->d_k + i];
    }
}

size_t theory_scores(TheoryScore score, const TheoryDraw *draw, double *scores, double *slopes,
                     const double **derivatives) {
    *derivatives = score == THEORY_DOT || score == THEORY_SINK ? draw->k : slopes;
    switch (score) {
    case THEORY_ADDITIVE: additive_scores(draw, scores, slopes); break;
    case THEORY_COSINE: cosine_scores(draw, scores, slopes); break;
    case THEORY_SOFTCAP: softcap_scores(draw, scores, slopes); break;
    default:
        for (size_t j = 0; j < draw->keys; j++) scores[j] = draw->dot[j];
        scores[draw->keys] = 0;
    }
    return draw->keys + (score == THEORY_SINK);
}

/* Streams below 2^30 are values of d_k, those from 2^31 on are the claims'. */
enum { V_STREAM = 1 << 30 };

static uint64_t first_number(size_t sample, size_t drawn) { return (uint64_t)sample * ((drawn + 3) / 4 * 4); }

static void take_draw(const Measurement *m, size_t sample, TheoryDraw *draw) {
    const size_t d_k = m->d_k, keys = m->keys;
    const uint64_t first = first_number(sample, d_k + keys * d_k + keys), vectors = d_k + keys * d_k;
    rng_fill_normal(&m->rng, first, vectors, draw->q); /* and k, which follows it */
    rng_fill_normal(&m->rng, first + vectors, keys, draw->r);
    rng_fill_normal(&m->v_rng, first_number(sample, d_k), d_k, draw->v);
    for (size_t i = 0; i < d_k; i++) {
        draw->v[i] /= sqrt((double)d_k);
        draw->k[keys * d_k + i] = 0;
    }
    draw->r[keys] = 0;
    for (size_t j = 0; j < keys; j++) draw->dot[j] = theory_dot(draw->q, draw->k + j * d_k, d_k);
}

/* The order of lay_out. */
static void take_sample(const Measurement *m, size_t sample, double *scratch) {
    const size_t d_k = m->d_k, keys = m->keys, rows = keys + 1;
    TheoryDraw draw = {.d_k = d_k, .keys = keys, .q = scratch, .k = scratch + d_k};
    double *slopes = draw.k + rows * d_k, *sum = slopes + rows * d_k, *scores = sum + d_k, *p = scores + rows;
    draw.v = p + rows;
    draw.r = draw.v + d_k;
    draw.dot = draw.r + rows;
    take_draw(m, sample, &draw);
    for (size_t i = 0; i < m->count; i++) {
        const double *derivatives, multiplier = scale_multiplier(m->scorings[i].divisor, d_k);
        const size_t n = theory_scores(m->scorings[i].score, &draw, scores, slopes, &derivatives);
        const TheoryRow row = theory_softmax(scores, n, multiplier, p);
        double *const out = m->measured + i * MEASURED * m->samples + sample, total = 0;
        for (size_t j = 0; j < keys; j++) total += scores[j];
        out[SCORE * m->samples] = total / (double)keys;
        out[SQUARE * m->samples] = theory_dot(scores, scores, keys) / (double)keys;
        out[ENTROPY * m->samples] = row.entropy;
        out[MAX_WEIGHT * m->samples] = row.max_weight;
        out[GRADIENT * m->samples] = theory_gradient_norm(p, draw.r, derivatives, n, d_k, row.top, multiplier, sum);
    }
}

static Estimate times(double factor, Estimate e) { return (Estimate){factor * e.value, factor * e.error}; }

Estimate theory_root(Estimate square) {
    const double root = sqrt(square.value);
    return (Estimate){root, root > 0 ? square.error / 2 / root : 0};
}

static TheoryFigures figures_of(const Measurement *m, size_t scoring) {
    const size_t n = m->samples;
    double *const score = m->measured + scoring * MEASURED * n, *const square = score + SQUARE * n;
    double *const gradient = score + GRADIENT * n;
    const double c = scale_multiplier(m->scorings[scoring].divisor, m->d_k), scores = (double)n * (double)m->keys;
    const Estimate mean = estimate_mean(score, n);
    TheoryFigures f = {.score_mean = times(c, mean),
                       .entropy = estimate_mean(score + ENTROPY * n, n),
                       .max_weight = estimate_mean(score + MAX_WEIGHT * n, n),
                       .grad_mean = estimate_mean(gradient, n)};
    /* The scores of one row share their q: what is independent is the rows, so errors come from how rows differ. */
    for (size_t i = 0; i < n; i++) square[i] = square[i] - 2 * mean.value * score[i] + mean.value * mean.value;
    /* Scores are uncorrelated, even within a row, so the factor makes it unbiased as for independent ones. Additive
       scores of a row correlate by less than a half: a bias of less than variance / (2 samples). */
    f.score_var = times(c * c, times(scores / (scores - 1), estimate_mean(square, n)));
    for (size_t i = 0; i < n; i++) square[i] = gradient[i] * gradient[i];
    f.grad_rms = theory_root(estimate_mean(square, n));
    f.grad_median = estimate_median(gradient, n);
    return f;
}

/* One block for all arrays. */
static bool lay_out(Measurement *m, size_t threads, Error *err) {
    const size_t rows = m->keys + 1, results = size_mul(m->samples, MEASURED * m->count);
    m->scratch_size = size_add(size_mul(2 * rows, m->d_k), size_add(size_mul(3, m->d_k), 4 * rows));
    const size_t bytes = size_mul(size_add(size_mul(threads, m->scratch_size), results), sizeof(double));
    const size_t machine = memory_of_machine();
    m->measured = bytes < machine ? malloc(bytes) : NULL;
    if (!m->measured)
        return failed(
            err, "d_k %zu with %zu keys and %zu samples needs %.3g GB for %zu threads, and this machine has %.3g GB",
            m->d_k, m->keys, m->samples, (double)bytes / 1e9, threads, (double)machine / 1e9);
    m->scratch = m->measured + results;
    return true;
}

bool theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const TheoryScoring *scorings, size_t count, TheoryFigures *figures, int *signal, Error *err) {
    Measurement m = {.d_k = d_k, .keys = keys, .samples = samples, .scorings = scorings, .count = count};
    m.rng = rng_make(seed, RNG_THEORY, (uint32_t)d_k);
    m.v_rng = rng_make(seed, RNG_THEORY, V_STREAM | (uint32_t)d_k);
    if (!lay_out(&m, threads, err)) return false;
#pragma omp parallel num_threads((int)threads)
    {
        double *scratch = m.scratch + m.scratch_size * (size_t)omp_get_thread_num();
#pragma omp for schedule(dynamic, CHUNK)
        for (size_t sample = 0; sample < samples; sample++)
            if (!interrupt_signal()) take_sample(&m, sample, scratch);
    }
    *signal = interrupt_signal();
    for (size_t i = 0; i < count && !*signal; i++) figures[i] = figures_of(&m, i);
    free(m.measured);
    return true;
}
