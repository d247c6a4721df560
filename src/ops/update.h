/* The updates that treat each number by itself: a function and a row of the table for each value of
   train.optimizer. train/optimizer.c calls them on ranges of the flat arrays, and updates Muon's whole matrices. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

/* The constants of one update. */
typedef struct {
    real clip;      /* multiplies the gradient */
    real lr, decay; /* of a column block; decay multiplies the parameter: 1 - lr * weight_decay, or 1 */
    real beta1, beta2, momentum, eps;
    real one_minus_beta1, one_minus_beta2;   /* rounded from double: 1 - (float)beta is off for a beta near 1 */
    real bias_correction1, bias_correction2; /* 1 / (1 - beta^t), the second under a root */
} Update;

/* Updates the parameters p (n) and their moments m and v by the gradient g. v is NULL where an optimizer has one
   moment, which is then a velocity. */
typedef void UpdateFunction(const Update *u, real *restrict p, real *restrict m, real *restrict v,
                            const real *restrict g, size_t n);

/* The optimizers in the order of train.optimizer's choices. */
typedef struct {
    const char *name;       /* of `update`, for people */
    size_t moments;         /* of a tensor that `update` changes: 1 or 2 */
    UpdateFunction *update; /* of each number by itself */
    bool muon;              /* the matrices of the blocks have one moment, and Muon updates them instead of `update` */
} OptimizerRow;
extern const OptimizerRow OPTIMIZERS[];
