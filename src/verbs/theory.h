/* What the divisor does to a row of attention before any training, by Monte Carlo: a query q and `keys` keys k_j of
   independent N(0, 1) entries, scores s_j = q.k_j / divisor, weights p = softmax(s), and the gradient of a random
   linear loss on the weights, L = <r, p> with r ~ N(0, I): dL/dq = (1 / divisor) sum_j p_j (r_j - <p, r>) k_j. Other
   ways to score are measured in the same way. Scores, weights and gradients are those of the model's own attention, in
   its precision. Derivations and closed forms: docs/theory.md. */
#pragma once

#include <stdint.h>

#include "base/command.h"
#include "base/statistics.h"
#include "model/attention.h"

/* How a score is made; names in THEORY_SCORES. */
typedef enum {
    THEORY_DOT,
    THEORY_ADDITIVE, /* v.tanh(q + k_j), v ~ N(0, 1/d_k) (Bahdanau, Cho and Bengio 2015) */
    THEORY_COSINE,   /* q.k_j / (|q| |k_j|) (Henry et al. 2020) */
    THEORY_SINK,     /* q.k_j, and one more key whose score and value are 0 */
    THEORY_SOFTCAP,  /* X tanh(q.k_j / X), X = THEORY_CAP (Gemma Team 2024; 30 as in Grok-1) */
    THEORY_SCORE_COUNT
} TheoryScore;
extern const char *const THEORY_SCORES[THEORY_SCORE_COUNT];
#define THEORY_CAP 30.0

typedef struct {
    ScaleDivisor divisor; /* what the score is divided by */
    TheoryScore score;
} TheoryScoring;

typedef struct {
    Estimate score_mean, score_var;            /* mean and variance of the divided scores, without a sink's */
    Estimate entropy;                          /* entropy of a row of weights, in nats */
    Estimate max_weight;                       /* mean of a row's largest weight */
    Estimate grad_mean, grad_rms, grad_median; /* mean, root mean square, median of the norm of dL/dq */
} TheoryFigures;

enum { THEORY_DK_MAX = 65536, THEORY_KEYS_MAX = 1 << 20, THEORY_SAMPLES_MAX = 100000000 };

/* `samples` independent draws of (q, keys, r, v), at least 2, each scored in every way: figures (count). What is drawn
   depends on seed, d_k, keys and the sample's number alone, and sums run in the order of the samples, so neither
   threads nor the other scorings change a bit. Sizes within the limits above. A caught signal ends it early: then
   figures are unset. */
void theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const TheoryScoring *scorings, size_t count, TheoryFigures *figures);

/* The exact values of these figures, where they are known (exact.c): integrals, to about seven digits, for any
   number of keys. */
typedef struct {
    double score_var;  /* d_k / divisor^2; the mean is 0 */
    double entropy;    /* nats */
    double max_weight; /* mean of a row's largest weight */
    double grad_rms;   /* root of the mean of |dL/dq|^2 */
} TheoryExact;

/* d_k and keys >= 1, divisor > 0. The mean and the median of |dL/dq| have no such form. Takes up to a second where the
   scores' standard deviation, sqrt(d_k) / divisor, is 32, and longer with its square. */
TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads);

/* theory_exact for any scoring; a figure without such a form is NAN. */
TheoryExact theory_exact_scoring(size_t d_k, size_t keys, TheoryScoring scoring, size_t threads);
