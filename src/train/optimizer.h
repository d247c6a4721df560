/* AdamW (Loshchilov and Hutter 2019, algorithm 2), SGD with momentum (as torch.optim.SGD, except that the decay is
   decoupled here too), and Muon (Jordan et al. 2024) for the matrices of the blocks with AdamW for the rest; the
   schedule of the learning rate, and clipping by the global norm. */
#pragma once

#include "base/memory.h"
#include "model/tensors.h"

/* One of Muon's matrices, (rows, columns), in a flat array from `offset` on; its rows are `width` apart. */
typedef struct {
    size_t offset, rows, columns, width;
    double lr_scale;
} Matrix;

typedef struct {
    const Config *config; /* belongs to the caller; must outlive this */
    size_t threads, flat;
    real *m;              /* (flat): the first moment; the velocity for SGD and Muon's matrices */
    real *v;              /* (flat): the second moment; zeros in Muon's matrices; NULL for SGD */
    double *partial_sums; /* of squares, for the norm */
    Matrix *matrices;     /* (matrix_count): Muon's, the most expensive first; none with AdamW or SGD */
    size_t matrix_count;
    real *workspace; /* (threads, workspace_size): where Muon computes the update of a matrix */
    size_t workspace_size;
    Arena arena;
} Optimizer;

void optimizer_make(Optimizer *optimizer, const Config *config, const TensorTable *tensors, size_t threads);

/* Returns the learning rate of step t = 0 .. steps: lr (t+1) / (warmup+1) while t < warmup, then along half a cosine
   from lr down to min_lr at t = steps. */
double learning_rate(const Config *config, size_t step);

/* Returns the Euclidean norm of all gradients, summed in double, in the same order for any number of threads. */
double gradient_norm(Optimizer *optimizer, const real *gradients);

/* Makes update number `step` (from 0) of the parameters from the gradients times min(1, grad_clip / (norm + 1e-6)). A
   column block's learning rate is `lr` times its lr_scale; with lr_scale 0 the block stays as it is. AdamW's moments
   are bias-corrected. Weight decay is decoupled: tensors of two dimensions are multiplied by 1 - lr * weight_decay,
   whatever the lr_scale. Muon's matrices have muon_lr times lr / train.lr in place of `lr`, and decay by
   train.weight_decay; the other tensors then decay by train.adamw_decay. Ranks divide Muon's matrices among them: all
   call this with the same gradients, and end with the same parameters. */
void optimizer_step(Optimizer *optimizer, const TensorTable *tensors, real *parameters, const real *gradients,
                    double norm, double lr, size_t step);
