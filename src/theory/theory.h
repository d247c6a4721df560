/* What the divisor does to a row of attention before any training, by Monte Carlo: a query q and `keys` keys k_j of
   independent N(0, 1) entries, scores s_j = q.k_j / divisor, weights p = softmax(s), and the gradient of a random
   linear loss on the weights, L = <r, p> with r ~ N(0, I): dL/dq = (1 / divisor) sum_j p_j (r_j - <p, r>) k_j. The
   same for other ways to score. Derivations and closed forms: docs/theory.md. */
#pragma once

#include <stdint.h>

#include "base/command.h"
#include "base/statistics.h"
#include "config/scale.h"

/* How a score is made; names in THEORY_SCORES. */
typedef enum {
    THEORY_DOT,
    THEORY_ADDITIVE, /* v.tanh(q + k_j), v ~ N(0, 1/d_k) (Bahdanau, Cho and Bengio 2015) */
    THEORY_COSINE,   /* q.k_j / (|q| |k_j|) (Henry et al. 2020) */
    THEORY_SINK,     /* q.k_j, and a key more whose score is 0 and whose value is 0 */
    THEORY_SOFTCAP,  /* X tanh(q.k_j / X), X = THEORY_CAP (Gemma Team 2024; 30 is that of Grok-1) */
    THEORY_SCORE_COUNT
} TheoryScore;
extern const char *const THEORY_SCORES[THEORY_SCORE_COUNT];
#define THEORY_CAP 30.0

typedef struct {
    ScaleDivisor divisor; /* of the score */
    TheoryScore score;
} TheoryScoring;

/* What a row of attention is made from. The key after the last is the sink: its row in k and its r are 0. */
typedef struct {
    size_t d_k, keys;
    double *q, *v; /* (d_k) */
    double *k;     /* (keys + 1, d_k) */
    double *r;     /* (keys + 1) */
    double *dot;   /* (keys): q.k_j */
} TheoryDraw;

/* The scores before the divisor, into scores (keys + 1), and the derivatives of each with respect to q, (keys + 1,
   d_k): k, or `slopes`, which is overwritten. Returns the number of scores, which is keys but for the sink's. */
size_t theory_scores(TheoryScore score, const TheoryDraw *draw, double *scores, double *slopes,
                     const double **derivatives);

typedef struct {
    Estimate score_mean, score_var;            /* of the scores after dividing, a sink's left out */
    Estimate entropy;                          /* of a row of weights, in nats */
    Estimate max_weight;                       /* mean of a row's largest weight */
    Estimate grad_mean, grad_rms, grad_median; /* of the Euclidean norm of dL/dq */
} TheoryFigures;

enum { THEORY_DK_MAX = 65536, THEORY_KEYS_MAX = 1 << 20, THEORY_SAMPLES_MAX = 100000000 };

/* `samples` independent draws of (q, keys, r, v), at least 2, each scored in every way: figures (count). What is drawn
   depends on seed, d_k, keys and the sample's number alone, and sums run in the order of the samples, so neither
   threads nor the other scorings change a bit. Sizes within the limits above. A caught signal ends it early, with
   *signal set and the figures unset. Fails for want of memory. */
bool theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const TheoryScoring *scorings, size_t count, TheoryFigures *figures, int *signal, Error *err);

/* One row of softmax(multiplier * scores), without cancellation however saturated it is. */
typedef struct {
    double entropy, max_weight;
    size_t top; /* where the largest weight is */
} TheoryRow;
TheoryRow theory_softmax(const double *scores /* (n) */, size_t n, double multiplier, double *p /* (n) */);

double theory_dot(const double *x, const double *y, size_t n);

/* The root of a figure, with its error; 0 has none. */
Estimate theory_root(Estimate square);

/* |dL/dq|, without cancellation either: r is measured from r at the largest weight, as in a saturated row r_top - <p,
   r> would be a difference of equal numbers. p becomes p_j (r_j - <p, r>); k is what theory_scores calls derivatives;
   sum (d_k) is scratch. */
double theory_gradient_norm(double *p /* (keys) */, const double *r /* (keys) */, const double *k /* (keys, d_k) */,
                            size_t keys, size_t d_k, size_t top, double multiplier, double *sum);

/* The same figures without chance, where they can be had (exact.c): integrals, to about seven digits, for any number of
   keys. */
typedef struct {
    double score_var;  /* d_k / divisor^2; the mean is 0 */
    double entropy;    /* nats */
    double max_weight; /* mean of a row's largest weight */
    double grad_rms;   /* root of the mean of |dL/dq|^2 */
} TheoryExact;

/* d_k and keys >= 1, divisor > 0. The mean and the median of |dL/dq| have no such form. Takes up to a second where the
   scores' standard deviation, sqrt(d_k) / divisor, is 32, and longer with its square. */
TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads);

/* The same of any scoring: NAN where there is no such form here. */
TheoryExact theory_exact_scoring(size_t d_k, size_t keys, TheoryScoring scoring, size_t threads);

/* The verb (command.c). */
extern const Verb theory_verb;
