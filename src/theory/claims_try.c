#include "theory/claims_try.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Rng trial_rng(const Trial *trial, uint32_t part) {
    /* The lower half of the streams is for values of d_k (theory_measure). */
    return rng_make(trial->seed, RNG_THEORY, 0x80000000u | trial->number << 8 | part);
}

void outcome_measured(Outcome *outcome, const char *format, ...) {
    size_t length = strlen(outcome->measured);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome->measured + length, sizeof outcome->measured - length, format, arguments);
    va_end(arguments);
}

void outcome_why(Outcome *outcome, Verdict verdict, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome->why, sizeof outcome->why, format, arguments);
    va_end(arguments);
    outcome->verdict = verdict;
}

static double dot(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* x (n + 1): the last number is what all entries share. */
static void make_vector(double *x, size_t n, double deviation, double correlation) {
    double shared = sqrt(correlation) * x[n], own = sqrt(1 - correlation);
    for (size_t i = 0; i < n; i++) x[i] = deviation * (shared + own * x[i]);
}

double *population_scores(const Population *p, Rng rng, Error *err) {
    const size_t d = p->d_k, drawn = (p->keys + 1) * (d + 1);
    double q_std = p->q_std > 0 ? p->q_std : 1, k_std = p->k_std > 0 ? p->k_std : 1,
           rest = sqrt(1 - p->alignment * p->alignment);
    double *scores = malloc(p->rows * p->keys * sizeof *scores), *q = malloc(drawn * sizeof *q);
    if (!scores || !q) {
        error_set(err, STATUS_FAILED, "no memory for %zu rows of scores", p->rows);
        free(scores);
        free(q);
        return NULL;
    }
    for (size_t row = 0; row < p->rows; row++) {
        rng_fill_normal(&rng, (uint64_t)row * ((drawn + 3) / 4 * 4), drawn, q);
        make_vector(q, d, q_std, p->correlation);
        for (size_t j = 0; j < p->keys; j++) {
            double *k = q + (j + 1) * (d + 1);
            make_vector(k, d, k_std, p->correlation);
            if (p->alignment > 0)
                for (size_t i = 0; i < d; i++) k[i] = p->alignment * q[i] + rest * k[i];
            double score = dot(q, k, d);
            scores[row * p->keys + j] = p->cosine ? score / sqrt(dot(q, q, d) * dot(k, k, d)) : score;
        }
    }
    free(q);
    return scores;
}

/* A mean over rows with its error, summed up as it goes (Welford). */
typedef struct {
    double count, mean, squares;
} Running;
static void running_add(Running *r, double x) {
    double off = x - r->mean;
    r->mean += off / ++r->count;
    r->squares += off * (x - r->mean);
}
static Estimate running_estimate(const Running *r) {
    return (Estimate){r->mean, sqrt(r->squares / (r->count - 1) / r->count)};
}

Estimate rows_mean(const double *scores, size_t rows, size_t keys, double multiplier) {
    Running r = {0};
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        for (size_t j = 0; j < keys; j++) sum += scores[row * keys + j];
        running_add(&r, multiplier * sum / (double)keys);
    }
    return running_estimate(&r);
}

Estimate rows_mean_square(const double *scores, size_t rows, size_t keys, double multiplier) {
    Running r = {0};
    for (size_t row = 0; row < rows; row++)
        running_add(&r, multiplier * multiplier * dot(scores + row * keys, scores + row * keys, keys) / (double)keys);
    return running_estimate(&r);
}

Estimate rows_entropy(const double *scores, size_t rows, size_t keys, double multiplier) {
    enum { KEYS_MAX = 256 };
    double p[KEYS_MAX];
    Running r = {0};
    for (size_t row = 0; row < rows && keys <= KEYS_MAX; row++)
        running_add(&r, theory_softmax(scores + row * keys, keys, multiplier, p).entropy);
    return running_estimate(&r);
}
