/* What the divisor does to a row of attention before any training, by Monte Carlo: a query q and `keys` keys k_j of
   independent N(0, 1) entries, scores s_j = q.k_j / divisor, weights p = softmax(s), and the gradient of a loss that
   asks the weights for something at random, L = <r, p> with r ~ N(0, I):
       dL/dq = (1 / divisor) sum_j p_j (r_j - <p, r>) k_j.
   Derivations and closed forms: docs/theory.md; the closed forms themselves: theory/exact.h. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/statistics.h"
#include "config/scale.h"

typedef struct {
    Estimate score_mean, score_var;            /* of the scores after dividing */
    Estimate entropy;                          /* of a row of weights, in nats */
    Estimate max_weight;                       /* mean of a row's largest weight */
    Estimate grad_mean, grad_rms, grad_median; /* of the Euclidean norm of dL/dq */
} TheoryFigures;

enum { THEORY_DK_MAX = 65536, THEORY_KEYS_MAX = 1 << 20, THEORY_SAMPLES_MAX = 100000000 };

/* `samples` independent draws of (q, keys, r), at least 2, each looked at with every divisor: figures (count). What is
   drawn depends on seed, d_k, keys and the sample's number alone, and sums run in the order of the samples, so neither
   threads nor what else is asked for change a bit. Sizes within the limits above. A caught signal ends it early, with
   *signal set and the figures unset. Fails for want of memory. */
bool theory_measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads,
                    const ScaleDivisor *divisors, size_t count, TheoryFigures *figures, int *signal, Error *err);

/* One row of softmax(multiplier * scores), without cancellation however saturated it is. */
typedef struct {
    double entropy, max_weight;
    size_t top; /* where the largest weight is */
} TheoryRow;
TheoryRow theory_softmax(const double *scores /* (n) */, size_t n, double multiplier, double *p /* (n) */);
