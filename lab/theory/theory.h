/* The effect of the divisor on a row of attention before any training, by Monte Carlo. A query q and `keys` keys k_j
   have independent N(0, 1) entries. The scores are s_j = q.k_j / divisor, the weights p = softmax(s). The loss is
   random and linear in the weights, L = <r, p> with r ~ N(0, I), and has the gradient dL/dq = (1 / divisor) sum_j p_j
   (r_j - <p, r>) k_j. Other ways to score are measured in the same way. The attention of the model (model/attention.h)
   computes scores, weights and gradients, in its precision. Derivations and closed forms: lab/docs/theory.md. */
#pragma once

#include <stdint.h>

#include "base/command.h"
#include "lab/statistics.h"
#include "model/attention.h"

/* Ways to score, whose names are in THEORY_SCORES. */
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
    ScaleDivisor divisor;
    TheoryScore score;
} TheoryScoring;

typedef struct {
    Estimate score_mean, score_var;            /* mean and variance of the divided scores, without a sink's */
    Estimate entropy;                          /* entropy of a row of weights, in nats */
    Estimate max_weight;                       /* mean of a row's largest weight */
    Estimate grad_mean, grad_rms, grad_median; /* mean, root mean square, median of the norm of dL/dq */
} TheoryFigures;

enum { THEORY_DK_MAX = 65536, THEORY_KEYS_MAX = 1 << 20, THEORY_SAMPLES_MAX = 100000000 };

/* Measures figures (count) of `samples` independent draws of (q, keys, r, v), at least 2, each scored in `count` ways.
   The sizes are within the limits above. A draw depends only on seed, d_k, keys and the number of the sample, and sums
   are in the order of the samples, so neither threads nor the other scorings change a bit. After a caught signal
   returns early and leaves the figures unset. */
void theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const TheoryScoring *scorings, size_t count, TheoryFigures *figures);

/* The exact values of these figures, as far as they are known: integrals, to about seven digits, for any number of
   keys. */
typedef struct {
    double score_var;  /* d_k / divisor^2; the mean is 0 */
    double entropy;    /* nats */
    double max_weight; /* mean of a row's largest weight */
    double grad_rms;   /* root of the mean of |dL/dq|^2 */
} TheoryExact;

/* Computes them, for d_k and keys >= 1 and divisor > 0. This takes up to a second where the standard deviation of the
   scores, sqrt(d_k) / divisor, is 32, and longer with its square. */
TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads);

/* Computes them for any scoring. A figure that is not known is NAN. */
TheoryExact theory_exact_scoring(size_t d_k, size_t keys, TheoryScoring scoring, size_t threads);
