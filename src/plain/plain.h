/* The decoder as the papers write it: the forward and backward pass of a training step, in loops and formulas. Read
   plain.c first. The fast engine (src/model, src/ops) computes the same, and the tests compare the two.

   Attention divides dot products by a divisor and does nothing else to them: dropout, other ways to score, QK-clip and
   products of bf16 are the fast engine's alone (src/config/refused.c). */
#pragma once

#include "model/tensors.h"

typedef struct PlainSequence PlainSequence; /* what one sequence computes (plain.c) */

typedef struct {
    size_t max_batch, threads;
    PlainSequence *sequences; /* (max_batch) */
    Arena arena;
} Plain;

/* Takes the memory for batches of up to max_batch sequences: each has activations, attention weights and gradients of
   all parameters. `shape`, whose divisor is read at every pass, and `tensors` stay the caller's and must outlive it.
   Missing memory is an error of status STATUS_FAILED. */
void plain_make(Plain *plain, const ModelShape *shape, const TensorTable *tensors, size_t max_batch, size_t threads);

/* One pass over a batch: tokens and targets (B,T) with B <= max_batch and T <= shape.T; weights (all parameters) and
   gradients are flat, as the table of tensors says. Overwrites losses (B,T) and returns their sum. Adds the
   gradients of loss_weight times this sum to `gradients`; if that is NULL, there is no backward pass. The bits are the
   same for any number of threads, because every sequence has gradients of its own, which are added up in the order of
   the sequences. */
double plain_forward_backward(Plain *plain, real *losses, real *gradients, real *weights, const int32_t *tokens,
                              const int32_t *targets, size_t B, size_t T, double loss_weight);

/* After a pass: the logits (T,V) of sequence b. */
const real *plain_logits(const Plain *plain, size_t b);
