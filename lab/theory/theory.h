/* The effect of the divisor on a row of attention before any training, by Monte Carlo. A query q and `keys` keys k_j
   have independent N(0, 1) entries. The scores are s_j = q.k_j / divisor, the weights p = softmax(s). The loss is
   random and linear in the weights, L = <r, p> with r ~ N(0, I), and has the gradient dL/dq = (1 / divisor) sum_j p_j
   (r_j - <p, r>) k_j. Other ways to score are measured in the same way. The attention of the model (model/attention.h)
   computes scores, weights and gradients, in its precision. Derivations and closed forms: lab/docs/theory.md. */
#pragma once

#include <stdint.h>

#include "base/rng.h"
#include "lab/statistics.h"
#include "model/attention.h"

/* Writes the standard normal numbers of the indices first .. first + count - 1. */
void theory_normals(const Rng *rng, uint64_t first, size_t count, double *out);

/* A way to score. */
typedef struct {
    const char *name;      /* "dot" */
    DivisorChoice divisor; /* what its scores are divided by */
    AttentionConfig
        attention; /* what makes it another way than the dot product; the sizes and the divisor are not set */
} TheoryScoring;

/* The scorings of each d_k: four divisors of the dot product, and then the other ways to score. */
enum { THEORY_DIVISORS = 4, THEORY_SCORINGS = 8 };
void theory_scorings(size_t d_k, TheoryScoring scorings[THEORY_SCORINGS]);

/* The figures of a scoring, in the order of the columns of --csv. */
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
