/* Where the figures of ./train theory --claims come from: each case that a claim is about is drawn, every row of scores
   is measured, and a reduction makes one figure of the rows. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "theory/theory.h"

typedef enum {
    FROM_SCORES,    /* scores q.k of random queries and keys */
    FROM_ADDITIVE,  /* scores v.tanh(W1 q + W2 k) of d_k hidden units; each row has its own W1 and W2 */
    FROM_VALUES,    /* scores and gradients of attention to random values, undivided, d_k 64 and 32 keys */
    FROM_ROW,       /* the scores in `row` */
    FROM_INTEGRALS, /* one row's entropy, by theory_exact */
    FROM_MODEL,     /* the model's table of tensors */
    FROM_THEORY,    /* TheoryFigures of `rows` samples, by theory_measure; no rows of its own */
} Source;

/* Zero stands for the plain case: independent N(0, 1) entries, divided by sqrt(d_k). */
typedef struct {
    Source from;
    size_t d_k, keys, rows; /* keys at most 64 */
    ScaleDivisor divisor;
    uint32_t stream;     /* cases of one claim with the same stream share their random numbers */
    size_t queries;      /* so many rows, a matrix, share their keys; 0: each row has its own */
    double q_std, k_std; /* of the entries; 0: 1 */
    double correlation;  /* of any two entries of one vector */
    double alignment;    /* of a key with its query, one to a key: k = alignment q + sqrt(1 - alignment^2) z */
    bool cosine;         /* q.k / (|q| |k|) */
    double row[5];
    size_t key;          /* of the row's: for the figures of a single key */
    double format_max;   /* largest number of the format that overflows */
    double value_scale;  /* FROM_VALUES: what the values are multiplied by */
    size_t heads, width; /* FROM_MODEL: heads of d_k in d_model `width` */
} Case;

/* Figures of one row, its scores divided. Shares are in percent. */
typedef struct {
    double score, square;               /* means; that of the square is the variance, as the mean is 0 */
    double largest;                     /* of |score| */
    double inside, beyond;              /* shares of scores in -1..1 and beyond format_max */
    double exp_overflow, safe_overflow; /* 100 when the sum of exp overflows, plain and with the maximum subtracted */
    double entropy, evenness;           /* nats; over ln(keys) */
    double top_weight;
    double steep;                                 /* share of weights with p (1 - p) > 0.01 */
    double key_share, key_weight, key_derivative; /* score over sum of scores, p and p (1 - p) of case.key */
    double bf16_error;                            /* largest change of a weight when scores are rounded to bf16 */
    double temperature_gap;                       /* the same when softmax's temperature stands for the divisor */
    double gradient;                              /* FROM_VALUES: |dL/dq| */
    double parameters;                            /* FROM_MODEL: weights of one attention layer */
} Row;

typedef struct {
    const Case *of;
    size_t count;
    Row *rows; /* (count) */
    TheoryFigures theory;
} Sample;

/* Random numbers depend on seed, the claim's number and the case's stream alone. False, with an error, for want of
   memory. After a caught signal the figures are unset. The caller frees it in any case. */
bool sample_draw(Sample *sample, const Case *of, uint64_t seed, uint32_t claim, size_t threads, Error *err);
void sample_free(Sample *sample);

/* From low to high: five standard errors either way, or the range that 95 of 100 matrices have. */
typedef struct {
    double value, low, high;
} Figure;

/* One figure of all rows; `field` is an offset in Row. */
typedef Figure (*Reduction)(const Sample *sample, size_t field);
Figure mean_of(const Sample *sample, size_t field);
Figure root_of(const Sample *sample, size_t field); /* of the mean */
Figure largest_of(const Sample *sample, size_t field);
Figure median_of_rows(const Sample *sample, size_t field); /* of 400 rows */
/* E x^2 / (E x)^2 - 3: of the squares of scores their excess kurtosis, 0 for a normal number and 6 / d_k for q.k. */
Figure excess_of(const Sample *sample, size_t field);
/* Of 400 matrices, each of which has the mean, or the largest, of its rows. */
Figure matrix_mean_of(const Sample *sample, size_t field);
Figure matrix_largest_of(const Sample *sample, size_t field);
Figure theory_of(const Sample *sample, size_t field); /* FROM_THEORY; the offset is in TheoryFigures */
