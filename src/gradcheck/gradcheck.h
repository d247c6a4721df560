/* The check of every gradient: what forward and backward by hand say, against differences of the loss, sign and all,
   for each parameter tensor and for the input of each layer. Needs the double build; `./train gradcheck` is built on it
   (gradcheck/report.h), and so is tests/test_gradients_model.c. tests/test_mutants.sh shows that it sees mistakes.

   The tolerance: |analytic - difference| <= GRADCHECK_TOLERANCE times the largest gradient of the row. Where a row is
   so small that the rounding of its differences is more than that (q and k under a large divisor: 4 eps loss / step),
   then that, but no more than GRADCHECK_TOLERANCE times the largest of the whole tensor. What must vanish must be below
   GRADCHECK_ZERO times the largest of its whole tensor; everything else must not be zero. */
#pragma once

#include "model/transformer.h"
#include "show/progress.h"

#define GRADCHECK_TOLERANCE 1e-7
#define GRADCHECK_ZERO 1e-13
enum { GRADCHECK_ENTRIES = 64 };

/* What is differentiated: the mean of the mean losses of some micro-batches, with dropout's masks drawn by seed and
   number, the same ones every time. */
typedef struct {
    Model *model;         /* with gradients, its parameters set (gradcheck_parameters); they are the same afterwards */
    const Batch *batches; /* (count), with targets, all of the same B and T */
    size_t count;
    uint64_t seed, micro_step; /* of the first micro-batch; the others follow. The seed draws the sample as well */
    size_t entries;            /* looked at in each row of the table: all of them or, where there are more than this, a
                                  seeded sample with the largest among it; 0: GRADCHECK_ENTRIES */
    Progress *progress;        /* NULL: none is shown */
} GradientCheck;

/* A tensor or the input of a layer, or the part of one that belongs to q, k or v. */
typedef struct {
    char name[48];
    bool is_input, expected_zero; /* expected_zero: must be zero */
    bool rounded;                 /* passed because of the rounding of its differences */
    size_t count, checked;        /* numbers, and how many of them were looked at */
    double largest, whole;        /* largest |analytic| of this part, and of the whole tensor */
    double error;                 /* analytic - difference where that is largest, for entry `at` */
    size_t dimensions, at[2];     /* of the whole tensor; inputs: row (micro-batch, sequence, position), column */
    const char *failure;          /* NULL: passed; or in a word why not: OVER, ZERO, NOT 0, NAN */
} GradientRow;

typedef struct {
    GradientRow *rows;
    size_t count, failed;
    int signal; /* that cut the check short, or 0 */
} GradientTable;

/* Fills the table, which is to be freed with gradcheck_free also after a failure. Rows that fail are no failure of the
   function; that is no memory, or a loss that is not smooth there (a unit of a ReLU exactly on its kink). */
bool gradcheck_model(const GradientCheck *check, GradientTable *table, Error *err);
void gradcheck_free(GradientTable *table);

/* |error| in units of the row's largest gradient; of the whole tensor's where the row must vanish or is `rounded`. */
double gradcheck_relative(const GradientRow *row);
/* The row to report. Where inputs fail, the one nearest the loss: there the backward pass first goes wrong. Else the
   failing tensor furthest above the tolerance; and where all agree, the row nearest to it. */
const GradientRow *gradcheck_worst(const GradientTable *table);

/* Initialises the parameters, then moves those of one dimension by .3 N(0,1): gains of 1 and biases of 0 hide
   mistakes. */
void gradcheck_parameters(Model *model, Init init, uint64_t seed);
