/* How a claim is tried: a function measures, and fills in a verdict that follows from its numbers. Shared by the files
   claims*.c alone. */
#ifndef SQRTDK_THEORY_CLAIMS_TRY_H
#define SQRTDK_THEORY_CLAIMS_TRY_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "theory/theory.h"

typedef enum {
    VERDICT_RIGHT,
    VERDICT_WRONG,
    VERDICT_PARTLY,
    VERDICT_OTHER_REASON, /* what is claimed holds, but not because of what is said */
    VERDICT_TRAINING,     /* about training: docs/results.md */
    VERDICT_OUTSIDE,      /* this program has nothing to measure it with */
} Verdict;

typedef struct {
    uint64_t seed;
    size_t threads;
    uint32_t number; /* of the claim: each has random numbers of its own */
} Trial;

typedef struct {
    Verdict verdict;
    char measured[640]; /* UTF-8, one line */
    char why[400];
} Outcome;

/* Fails only for want of memory. */
typedef bool (*TryFunction)(const Trial *trial, Outcome *outcome, Error *err);

Rng trial_rng(const Trial *trial, uint32_t part);
/* printf into outcome->measured, behind what is there; into outcome->why, from its beginning. */
void outcome_measured(Outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));
void outcome_why(Outcome *outcome, Verdict verdict, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Where queries and keys come from. Zero stands for the plain case: independent N(0, 1) entries. */
typedef struct {
    size_t d_k, keys, rows;
    double q_std, k_std; /* of the entries; 0: 1 */
    double correlation;  /* of any two entries of one vector */
    double alignment;    /* of a key with its query: k = alignment q + sqrt(1 - alignment^2) z */
    bool cosine;         /* q.k / (|q| |k|) */
} Population;
/* q.k, (rows, keys), not divided by anything; the caller frees it. NULL, with an error, for want of memory. */
double *population_scores(const Population *population, Rng rng, Error *err);

/* Over rows of scores times a multiplier. Means over rows, whose spread gives the errors. */
Estimate rows_mean(const double *scores, size_t rows, size_t keys, double multiplier);
Estimate rows_mean_square(const double *scores, size_t rows, size_t keys, double multiplier);
Estimate rows_entropy(const double *scores, size_t rows, size_t keys, double multiplier);

/* The worked examples: claims_examples.c. */
bool try_vectors(const Trial *trial, Outcome *outcome, Error *err);
bool try_subjects(const Trial *trial, Outcome *outcome, Error *err);
bool try_interval(const Trial *trial, Outcome *outcome, Error *err);
bool try_large_row(const Trial *trial, Outcome *outcome, Error *err);
bool try_small_row(const Trial *trial, Outcome *outcome, Error *err);
bool try_parameters(const Trial *trial, Outcome *outcome, Error *err);
bool try_table_3(const Trial *trial, Outcome *outcome, Error *err);
/* What softmax makes of the scores: claims_softmax.c. */
bool try_derivative(const Trial *trial, Outcome *outcome, Error *err);
bool try_entropy(const Trial *trial, Outcome *outcome, Error *err);
bool try_largest(const Trial *trial, Outcome *outcome, Error *err);
bool try_gradient(const Trial *trial, Outcome *outcome, Error *err);
bool try_sharper(const Trial *trial, Outcome *outcome, Error *err);
bool try_divisor_dk(const Trial *trial, Outcome *outcome, Error *err);
bool try_divisor_2sqrt(const Trial *trial, Outcome *outcome, Error *err);
bool try_britz(const Trial *trial, Outcome *outcome, Error *err);
/* The scores themselves: claims_scores.c. */
bool try_normal(const Trial *trial, Outcome *outcome, Error *err);
bool try_batchnorm(const Trial *trial, Outcome *outcome, Error *err);
bool try_cross_attention(const Trial *trial, Outcome *outcome, Error *err);
bool try_own_dk(const Trial *trial, Outcome *outcome, Error *err);
bool try_mup(const Trial *trial, Outcome *outcome, Error *err);
bool try_float(const Trial *trial, Outcome *outcome, Error *err);
bool try_half(const Trial *trial, Outcome *outcome, Error *err);
/* What might stand in its place: claims_instead.c. */
bool try_additive(const Trial *trial, Outcome *outcome, Error *err);
bool try_additive_cost(const Trial *trial, Outcome *outcome, Error *err);
bool try_values(const Trial *trial, Outcome *outcome, Error *err);
bool try_temperature(const Trial *trial, Outcome *outcome, Error *err);
bool try_qk_norm(const Trial *trial, Outcome *outcome, Error *err);

#endif
