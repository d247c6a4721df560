/* The same figures without chance, where they can be had: not Monte Carlo but integrals, for any number of keys.
   Given |q|, the scores are s X_j with s = |q| / divisor and X_j independent N(0, 1); the key's part across q is
   independent of the weights; and 1 / Z^m = (1 / (m-1)!) integral of t^(m-1) e^(-tZ) dt, which makes a product of what
   was a ratio of sums over the keys. What is left are integrals over one key's X, over t and over |q|, which the
   trapezoidal rule does to about seven digits. Derivation: docs/theory.md. */
#pragma once

#include <stddef.h>

typedef struct {
    double score_var;  /* d_k / divisor^2; the mean is 0 */
    double entropy;    /* nats */
    double max_weight; /* mean of a row's largest weight */
    double grad_rms;   /* root of the mean of |dL/dq|^2 */
} TheoryExact;

/* d_k and keys >= 1, divisor > 0. The mean and the median of |dL/dq| have no such form. Takes up to a second where the
   scores' standard deviation, sqrt(d_k) / divisor, is 32, and longer in proportion. NaN for want of memory. */
TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads);
