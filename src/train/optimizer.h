/* AdamW (Loshchilov and Hutter 2019, algorithm 2) and SGD with momentum (as torch.optim.SGD, but for the decay, which
   is decoupled here too), the schedule of the learning rate, and clipping by the global norm. */
#pragma once

#include "base/memory.h"
#include "model/tensors.h"

typedef struct {
    OptimizerKind kind;
    double beta1, beta2, eps, momentum, weight_decay, grad_clip;
    size_t threads, flat;
    real *m, *v;          /* flat: first and second moment (AdamW); velocity and NULL (SGD) */
    double *partial_sums; /* of the norm */
    Arena arena;
} Optimizer;

bool optimizer_make(Optimizer *optimizer, const Config *config, size_t flat, size_t threads, Error *err);
void optimizer_free(Optimizer *optimizer);

/* Learning rate of step t = 0 .. steps: lr (t+1) / (warmup+1) while t < warmup, then along half a cosine from lr down
   to min_lr at t = steps. */
double learning_rate(const Config *config, size_t step);

/* Euclidean norm of all gradients, summed in double in an order that no thread changes. */
double gradient_norm(Optimizer *optimizer, const real *gradients);

/* One update, number `step` (from 0), of the parameters from the gradients times min(1, grad_clip / (norm + 1e-6)).
   A column block's learning rate is `lr` times its lr_scale; weight decay, decoupled, is by `lr` itself, on tensors of
   two dimensions only; AdamW's moments are bias-corrected. */
void optimizer_step(Optimizer *optimizer, const TensorTable *tensors, real *parameters, const real *gradients,
                    double norm, double lr, size_t step);
