/* What a claim is made of. It is about cases: populations of scores, each divided by something. Every statistic is
   taken of every case; beside it stand the values that are said and those that are expected. The table: claims_table.c.
   Shared by the files claims*.c and their test alone. */
#pragma once

#include "theory/claims_sample.h"

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
    size_t field; /* that it takes: its offset in Row, or in TheoryFigures for theory_of */
    Target said, expected;
    bool aside; /* another reading of what is said: compared in the text, but the verdict does not depend on it */
} Statistic;

enum { CASES_MAX = 9, STATISTICS_MAX = 4 };

typedef struct {
    const char *claim, *source; /* source NULL: in circulation, nobody's in particular */
    Case cases[CASES_MAX];      /* up to the first of no d_k */
    Statistic statistics[STATISTICS_MAX];
    /* Text with figures in it: {1.0:.2f} is statistic 1 of case 0, printed by %.2f; {1.0-2:.2f} those of the cases 0 to
       2, with " / " between them. Before the numbers: ~ the standard error, < and > the ends of the interval; = how
       many figures agree with what is said, ^ the exponent b of figure ~ x^b, where x grows fourfold from case to case.
     */
    const char *measured; /* NULL: nothing */
    Verdict if_so;        /* the verdict when all that is said holds; nothing said always does */
    const char *why;
} Claim;

extern const Claim CLAIMS[];
extern const size_t CLAIM_COUNT;

typedef struct {
    Verdict verdict;
    char measured[640], why[400]; /* UTF-8, one line each */
} Outcome;

/* The verdict follows from the figures alone: claim->if_so when every figure agrees with what is said of it, partly
   right when some do, wrong when none does. When a figure is not as expected, `why` says so instead of explaining. */
void claim_judge(const Claim *claim, Figure figures[][CASES_MAX] /* (statistics) */, Outcome *outcome);
