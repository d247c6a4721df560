/* Every sample writes its own few numbers; what is summed is summed afterwards, by one thread, in their order. */
#include "theory/theory.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/rng.h"

enum { CHUNK = 16 }; /* samples a thread takes at a time */

typedef struct {
    size_t d_k, keys, samples, count;
    const ScaleDivisor *divisors;
    Rng rng;
    double *score, *square;       /* (samples): mean over a row of q.k, and of its square */
    double *entropy, *max, *grad; /* (count, samples) */
    double *scratch;              /* (threads, scratch_size) */
    size_t scratch_size;          /* of one thread */
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

static void take_sample(const Measurement *m, size_t sample, double *scratch) {
    const size_t d_k = m->d_k, keys = m->keys, drawn = d_k + keys * d_k + keys;
    double *q = scratch, *k = q + d_k, *r = k + keys * d_k, *scores = r + keys, *p = scores + keys, *sum = p + keys;
    double total = 0, squares = 0;
    rng_fill_normal(&m->rng, (uint64_t)sample * ((drawn + 3) / 4 * 4), drawn, q);
    for (size_t j = 0; j < keys; j++) {
        scores[j] = theory_dot(q, k + j * d_k, d_k);
        total += scores[j];
        squares += scores[j] * scores[j];
    }
    m->score[sample] = total / (double)keys;
    m->square[sample] = squares / (double)keys;
    for (size_t i = 0; i < m->count; i++) {
        double multiplier = scale_multiplier(m->divisors[i], d_k);
        TheoryRow row = theory_softmax(scores, keys, multiplier, p);
        m->entropy[i * m->samples + sample] = row.entropy;
        m->max[i * m->samples + sample] = row.max_weight;
        m->grad[i * m->samples + sample] = theory_gradient_norm(p, r, k, keys, d_k, row.top, multiplier, sum);
    }
}

/* The scores of one row share their q: what is independent is the rows, so errors come from how rows differ. */
static void find_score_moments(const Measurement *m, double *row, Estimate *mean, Estimate *variance) {
    *mean = estimate_mean(m->score, m->samples);
    for (size_t i = 0; i < m->samples; i++)
        row[i] = m->square[i] - 2 * mean->value * m->score[i] + mean->value * mean->value;
    *variance = estimate_mean(row, m->samples);
    /* Scores are uncorrelated, even within a row, so this makes it unbiased as for independent ones. */
    double count = (double)m->samples * (double)m->keys, factor = count / (count - 1);
    *variance = (Estimate){factor * variance->value, factor * variance->error};
}

static void find_figures(const Measurement *m, TheoryFigures *figures) {
    double *row = m->scratch; /* (samples) */
    Estimate mean, variance;
    find_score_moments(m, row, &mean, &variance);
    for (size_t i = 0; i < m->count; i++) {
        double c = scale_multiplier(m->divisors[i], m->d_k), *grad = m->grad + i * m->samples;
        TheoryFigures *f = &figures[i];
        f->score_mean = (Estimate){c * mean.value, c * mean.error};
        f->score_var = (Estimate){c * c * variance.value, c * c * variance.error};
        f->entropy = estimate_mean(m->entropy + i * m->samples, m->samples);
        f->max_weight = estimate_mean(m->max + i * m->samples, m->samples);
        f->grad_mean = estimate_mean(grad, m->samples);
        for (size_t s = 0; s < m->samples; s++) row[s] = grad[s] * grad[s];
        Estimate square = estimate_mean(row, m->samples);
        f->grad_rms = (Estimate){sqrt(square.value), 0};
        if (square.value > 0) f->grad_rms.error = square.error / (2 * f->grad_rms.value);
        f->grad_median = estimate_median(grad, m->samples);
    }
}

/* One block for all arrays. The scratch of the threads serves as `row` above: it must be long enough for that. */
static double *lay_out(Measurement *m, size_t threads, Error *err) {
    size_t own = size_add(size_mul(m->keys, m->d_k), size_add(size_mul(2, m->d_k), size_mul(3, m->keys)));
    size_t scratch = size_mul(threads, own), results = size_mul(m->samples, size_add(2, size_mul(3, m->count)));
    if (scratch < m->samples) scratch = m->samples;
    size_t bytes = size_mul(size_add(scratch, results), sizeof(double)), machine = memory_of_machine();
    double *memory = bytes < machine ? malloc(bytes) : NULL;
    if (!memory) {
        error_set(err, STATUS_FAILED,
                  "d_k %zu with %zu keys and %zu samples needs %.3g GB for %zu threads, and this machine has %.3g GB",
                  m->d_k, m->keys, m->samples, (double)bytes / 1e9, threads, (double)machine / 1e9);
        return NULL;
    }
    m->scratch_size = own;
    m->scratch = memory;
    m->score = m->scratch + scratch;
    m->square = m->score + m->samples;
    m->entropy = m->square + m->samples;
    m->max = m->entropy + m->count * m->samples;
    m->grad = m->max + m->count * m->samples;
    return memory;
}

bool theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const ScaleDivisor *divisors, size_t count, TheoryFigures *figures, int *signal, Error *err) {
    Measurement m = {.d_k = d_k, .keys = keys, .samples = samples, .divisors = divisors, .count = count};
    m.rng = rng_make(seed, RNG_THEORY, (uint32_t)d_k);
    double *memory = lay_out(&m, threads, err);
    if (!memory) return false;
#pragma omp parallel num_threads((int)threads)
    {
        double *scratch = m.scratch + m.scratch_size * (size_t)omp_get_thread_num();
#pragma omp for schedule(dynamic, CHUNK)
        for (size_t sample = 0; sample < samples; sample++)
            if (!interrupt_signal()) take_sample(&m, sample, scratch);
    }
    *signal = interrupt_signal();
    if (!*signal) find_figures(&m, figures);
    free(memory);
    return true;
}
