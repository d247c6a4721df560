/* The check of every parameter's gradient: what the backward pass computed against differences of the loss, sign and
   all. Needs the double build; `./train gradcheck` and tests/test_gradients.c use it. lab/tests/test_mutants.sh
   shows that it finds mistakes.

   The tolerance: |gradient - difference| <= GRADCHECK_TOLERANCE times the largest gradient of the row. A row whose
   gradients are below GRADCHECK_ZERO times the largest of the whole tensor is zero, and is measured by that: no loss
   depends on b_K, or on q and k where only one key is visible. If the whole tensor is zero, it is measured by the loss.
   So a gradient that is zero and should not be, or is not and should be, is off like any other. No row is measured by
   less than differences can tell, 1e-10 of the loss: a mistake of 1e-4 is found in gradients down to 2e-13 of it. */
#pragma once

#include "train/engine.h"

#define GRADCHECK_TOLERANCE 1e-7
#define GRADCHECK_ZERO 1e-13

/* A tensor, or the columns of one that belong to q, k or v. */
typedef struct {
    const Tensor *tensor;
    Range columns;
    char name[48];
    bool zero;       /* its gradients are rounding errors */
    bool failed;     /* an error is above the tolerance */
    size_t count;    /* entries */
    size_t checked;  /* how many of them were compared */
    double largest;  /* |gradient| of this part; infinite, if one is not finite */
    double scale;    /* the size that gradients are measured in: see above */
    double error;    /* gradient - difference where that is largest */
    double relative; /* |error| / scale */
    size_t at[2];    /* row and column of the error */
} GradientRow;

/* The caller sets the first part: the loss, which is the mean of the mean losses of some micro-batches. Its masks of
   dropout are drawn by seed and micro-step, the same ones every time. */
typedef struct {
    Engine *engine;            /* whose model has its parameters, and their gradients */
    const Batch *batches;      /* (count), with targets, all of the same B and T */
    size_t count;              /* micro-batches */
    uint64_t seed, micro_step; /* micro_step: the first micro-batch's; the others follow */
    size_t entries;            /* at most so many are compared in each row */

    real *losses;         /* (count, B, T) where nothing is perturbed */
    double loss;          /* their mean */
    size_t tensor, block; /* of the next row */
} GradientCheck;

/* Makes the memory of a check and computes the losses. */
void gradcheck_make(GradientCheck *check);

/* Checks the next row, in the order of the tensors. Returns false after the last one, or after a caught signal. Every
   entry of a row is compared or, where there are more than `entries`, a sample drawn by the seed, the largest among
   them. A row that fails raises no error. The parameters are the same afterwards. */
bool gradcheck_next(GradientCheck *check, GradientRow *row);

/* Initializes the parameters, then adds .3 N(0,1) to tensors of one dimension, since gains of 1 and biases of 0
   would hide mistakes. */
void gradcheck_parameters(Model *model, Init init, uint64_t seed);
