/* What is commonly said about dividing by the root of d_k, each claim beside what this program measures in this run.
   The same in words, with what it means: docs/claims.md.

   A claim is about cases: populations of scores, each divided by something. Every statistic is taken of every case;
   beside it stand the values that are said and those that are expected. The table is in claims_table.c, the figures
   come from claims_sample.c, the verdicts from claims.c. */
#pragma once

#include "show/progress.h"
#include "theory/theory.h"

typedef enum {
    FROM_SCORES,    /* scores q.k of random queries and keys */
    FROM_ADDITIVE,  /* scores v.tanh(W1 q + W2 k) of d_k hidden units; each row has its own W1 and W2 */
    FROM_VALUES,    /* scores and gradients of attention to random values */
    FROM_THEORY,    /* the rows and gradients of theory_measure, with a seed of the claim's own */
    FROM_ROW,       /* the scores in `row` */
    FROM_INTEGRALS, /* one row's entropy, by theory_exact */
    FROM_MODEL,     /* the model's table of tensors */
} Source;

/* A field that is zero means the plain case: independent N(0, 1) entries, divided by sqrt(d_k). */
typedef struct {
    Source from;
    size_t d_k, keys, rows; /* d_k at most 1024, keys 64 */
    ScaleDivisor divisor;
    uint32_t stream;     /* cases of one claim with the same stream share their random numbers */
    size_t queries;      /* so many rows, a matrix, share their keys; 0: each row has its own */
    double q_std, k_std; /* of the entries; 0: 1 */
    double correlation;  /* of any two entries of one vector */
    double alignment;    /* of a key with its query, one to a key: k = alignment q + sqrt(1 - alignment^2) z */
    bool cosine;         /* q.k / (|q| |k|) */
    double row[5];
    size_t key;         /* of the row's: for the figures of a single key */
    double format_max;  /* largest number of the format that overflows */
    double value_scale; /* FROM_VALUES: what the values are multiplied by */
    size_t heads;       /* FROM_MODEL: of d_k, in d_model 512 */
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
    double gradient, gradient_square;             /* FROM_VALUES, FROM_THEORY: |dL/dq| */
    double parameters;                            /* FROM_MODEL: weights of one attention layer */
} Row;

/* From low to high: five standard errors either way, or the range that 95 of 100 matrices have. */
typedef struct {
    double value, low, high;
} Figure;

/* One figure of a field of all rows, x (n), which it may change. */
typedef Figure (*Reduction)(double *x, size_t n);
Figure mean_of(double *x, size_t n);
Figure root_of(double *x, size_t n); /* of the mean */
Figure largest_of(double *x, size_t n);
Figure median_of_rows(double *x, size_t n);
/* E x^2 / (E x)^2 - 3: of the squares of scores their excess kurtosis, 0 for a normal number and 6 / d_k for q.k. */
Figure excess_of(double *x, size_t n);
/* Of matrices of MATRIX_ROWS rows, each of which has the mean, or the largest, of its rows. */
enum { MATRIX_ROWS = 10 };
Figure matrix_mean_of(double *x, size_t n);
Figure matrix_largest_of(double *x, size_t n);

typedef enum {
    VERDICT_RIGHT,
    VERDICT_WRONG,
    VERDICT_PARTLY,
    VERDICT_OTHER_REASON, /* what is claimed holds, but not because of what is said */
    VERDICT_TRAINING,     /* about training: docs/results.md */
    VERDICT_OUTSIDE,      /* this program has nothing to measure it with */
    VERDICT_COUNT
} Verdict;

/* Values for the cases in their order. NAN, and cases beyond the last value: nothing is said. */
typedef struct {
    double within; /* a figure agrees when its interval, widened by this, holds the value */
    size_t count;
    const double *values; /* (count) */
} Target;

typedef struct {
    Reduction take;
    size_t field; /* that it takes: its offset in Row */
    Target said, expected;
    bool aside; /* another reading of what is said: compared in the text, but the verdict does not depend on it */
} Statistic;

enum { CASES_MAX = 9, STATISTICS_MAX = 4 };
typedef Figure Figures[STATISTICS_MAX][CASES_MAX];

typedef struct {
    const char *claim, *source; /* source NULL: in circulation, nobody's in particular */
    Case cases[CASES_MAX];      /* up to the first of no d_k */
    Statistic statistics[STATISTICS_MAX];
    /* Text with figures in it: {1.0:.2f} is statistic 1 of case 0, printed by %.2f; {1.0-2:.2f} those of the cases 0 to
       2, with " / " between them. Before the numbers: ~ the standard error, < and > the ends of the interval; = how
       many figures agree with what is said, ^ the exponent b of figure ~ x^b, where x grows fourfold each case. */
    const char *measured; /* NULL: nothing */
    Verdict if_so;        /* the verdict when all that is said holds; nothing said always does */
    const char *why;
} Claim;

extern const Claim CLAIMS[];
extern const size_t CLAIM_COUNT;

/* Every statistic of every case. Random numbers depend on seed, the claim's number and the case's stream alone. False,
   with an error, for want of memory. After a caught signal the figures are unset. */
bool claim_measure(const Claim *claim, uint32_t number, uint64_t seed, size_t threads, Figures figures, Error *err);

typedef struct {
    Verdict verdict;
    char measured[640], why[400]; /* UTF-8, one line each */
} Outcome;

/* The verdict follows from the figures alone: claim->if_so when every figure agrees with what is said of it, partly
   right when some do, wrong when none does. When a figure is not as expected, `why` says so instead of explaining. */
void claim_judge(const Claim *claim, Figures figures, Outcome *outcome);

/* Tries every claim and prints what is said, what was measured, the verdict, and why; as CSV
   (number,claim,source,measured,verdict,why) when `csv`. The same bits for the same seed, whatever the threads. A
   caught signal ends it early. */
bool claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress, Error *err);
