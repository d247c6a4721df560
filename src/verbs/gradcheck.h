/* The check of every gradient: what the backward pass computes against differences of the loss, sign and all, for each
   parameter tensor and for each activation. Needs the double build; `./train gradcheck` and
   tests/test_gradients_model.c use it. tests/test_mutants.sh shows that it finds mistakes.

   The tolerance: |analytic - difference| <= GRADCHECK_TOLERANCE times the largest gradient of the row. Some rows are
   so small that the rounding of their differences, 4 eps loss / step, is more than that (q and k under a large
   divisor). Then this rounding is the tolerance, but no more than GRADCHECK_TOLERANCE times the largest gradient of
   the whole tensor. A gradient that is expected to be zero must be below GRADCHECK_ZERO times the largest of its
   whole tensor, or times the loss where the whole tensor is expected to be zero. Every other gradient must not be
   zero. */
#pragma once

#include "base/command.h"
#include "verbs/perturbed_loss.h"

#define GRADCHECK_TOLERANCE 1e-7
#define GRADCHECK_ZERO 1e-13

/* A tensor or an activation, or the part of one that belongs to q, k or v. */
typedef struct {
    char name[48];
    bool is_activation, expected_zero;
    bool rounded;          /* passed only because of the rounding of its differences */
    size_t count, checked; /* entries, and how many of them were compared */
    double largest;        /* |analytic| of this part */
    double error;          /* analytic - difference where that is largest */
    double relative;       /* |error| / largest; where expected_zero or rounded, over the whole tensor's largest */
    size_t at[2];          /* where the error is: row (of an activation: micro-batch, sequence, position), column */
    const char *failure;   /* NULL: passed; or how it failed, as "is off" */
} GradientRow;

typedef struct {
    GradientRow *rows; /* in the order of the forward pass, tensors before activations */
    size_t count;
} GradientTable;

/* Returns a table of all gradients. Every entry of a row is compared or, where there are more than `entries`, a sample
   drawn by loss->seed, the largest among them. Prints the table to `print`, unless that is NULL, row by row as they are
   checked. A row that fails is no error; a loss that is not smooth is (perturbed_loss_make). After a caught signal rows
   are missing. The parameters are the same afterwards. */
GradientTable gradcheck_model(const TrainingLoss *loss, size_t entries, FILE *print);

/* The same in two parts. gradcheck_make makes all memory and raises all errors, so gradcheck_run may be called in a
   parallel region; it fills in check->table. A check does not move in between. */
typedef struct {
    PerturbedLoss loss;
    size_t entries; /* at most so many are compared in each row of the table */
    FILE *print;
    GradientTable table;
} GradientCheck;
void gradcheck_make(GradientCheck *check, const TrainingLoss *loss, size_t entries, FILE *print);
void gradcheck_run(GradientCheck *check);
void gradcheck_print(const GradientRow *row, FILE *out);

/* Initializes the parameters, then adds .3 N(0,1) to tensors of one dimension, since gains of 1 and biases of 0
   would hide mistakes. */
void gradcheck_parameters(Model *model, Init init, uint64_t seed);
