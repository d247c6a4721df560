/* What is commonly said about dividing by the root of d_k, each claim beside what this program measures in this run.
   The claims and their explanations are the table of docs/claims.md, which is part of the program (claims.S): claims.c
   reads it, judges, and prints. claims_measure.c has a line for each figure that is measured. */
#pragma once

#include "show/progress.h"
#include "theory/theory.h"

/* A row of the table. `why` explains the verdict that stands beside it there. */
enum { CLAIM_TEXT, CLAIM_SOURCE, CLAIM_MEASURED, CLAIM_VERDICT, CLAIM_WHY, CLAIM_CELLS };
typedef struct {
    size_t number;
    char cells[CLAIM_CELLS][1024];
} Claim;

/* Reads at most `limit` claims, in the order of the table, and returns how many there are. */
size_t claims_read(Claim *claims, size_t limit);

/* The test of one claim. */
typedef struct {
    uint64_t seed; /* what is drawn depends on seed and sizes alone */
    size_t threads;
    size_t said, held;   /* figures that the claim states, and how many of them agree with those measured */
    char measured[1024]; /* the measured figures; empty: there is nothing to measure */
} ClaimTest;

/* Measures a claim. After a caught signal figures are missing. */
void claim_measure(size_t number, ClaimTest *test);

/* Puts the figures and their verdict in place of the table's: "right" when all that is said holds, "partly right" when
   some of it does, "wrong" when nothing does. The table may qualify "right" (right for another reason, about training,
   not testable by this program). Where the verdict is another than the table's, `why` says so instead of explaining. */
void claim_judge(const ClaimTest *test, Claim *claim);

/* Tests every claim and prints what is said, what was measured, the verdict, and why; as CSV
   (number,claim,source,measured,verdict,why) when `csv`. For the same seed it prints the same, with any number of
   threads. A caught signal ends it early. */
void claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress);

/* --- How figures are measured (claims_measure.c), for tests */

typedef struct ClaimRow ClaimRow; /* a row of scores */
typedef double ClaimQuantity(const ClaimRow *row);
ClaimQuantity claim_score, claim_square; /* means of the scores and of their squares; there are others */

/* Low to high are five standard errors on either side, or a range that has no error (NAN). */
typedef struct {
    double value, error, low, high;
} Figure;

/* Figures of one kind, for each d_k. A field that is zero means the plain case: independent N(0, 1) entries, a row with
   keys of its own, scores q.k divided by sqrt(d_k). */
typedef struct ClaimLine {
    size_t claim;
    const char *label;
    Figure (*measure)(ClaimTest *test, const struct ClaimLine *line, size_t d_k, double divisor);
    ClaimQuantity *of;
    size_t keys, rows; /* at most 64, 200000 */
    size_t d_k[6];     /* at most 1024, ended by 0 */
    ScaleDivisor divisor;
    bool both;           /* all figures undivided, then all divided by sqrt(d_k) */
    double within;       /* a figure agrees when low to high, widened by this, holds what is said */
    double said[8];      /* in the order of the figures */
    size_t said_count;   /* beyond these, and for NAN, nothing is said */
    double limit;        /* the largest number of the format that overflows */
    size_t place;        /* of the figure in TheoryFigures, where theory_measure draws */
    TheoryScore score;   /* otherwise THEORY_DOT or THEORY_COSINE */
    size_t queries;      /* so many rows, a matrix, share their keys */
    double q_std, k_std; /* standard deviations of the entries of q and k */
    double correlation;  /* between any two entries of one vector */
    double alignment;    /* correlation of each key with the query: k = alignment q + sqrt(1 - alignment^2) z */
    const double *fixed; /* (keys): scores, in place of those drawn; d_k is also the number of a key, from 1 */
} ClaimLine;

/* The mean over rows of a quantity. */
Figure claim_mean(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor);
/* Measures a line, appends label and figures to what was measured, and counts what is said. */
void claim_line(const ClaimLine *line, ClaimTest *test);
