/* The decoder as the papers write it: the forward and backward pass of a training step, in loops and formulas. Read
   plain.c first. The fast engine (src/model, src/ops) computes the same, and the tests compare the two.

   Attention divides dot products by a divisor and does nothing else to them. Only the fast engine has dropout, other
   ways to score, QK-clip and products of bf16 (src/config/refused.c). */
#pragma once

#include "model/transformer.h"

typedef struct PlainSequence PlainSequence; /* the arrays of one sequence (plain.c) */

typedef struct {
    Model *model;             /* belongs to the caller */
    PlainSequence *sequences; /* (max_batch) */
    Arena arena;
} Plain;

/* Allocates the memory for the model's batches: each sequence has activations, attention weights and gradients of all
   parameters. `model`, whose divisor is read at every pass, must outlive it. */
void plain_make(Plain *plain, Model *model);

/* Does what model_pass does, in loops, on the parameters, gradients and losses of the model. It does not use the
   model's activations. The batch has targets. It has no dropout, whatever `training` says, must not get `cached`, and
   computes one shard at a time. It adds to the gradients of the model, which pass->gradients must be. The bits are the
   same for any number of threads: every sequence has separate gradients, which are added up in the order of the
   sequences. */
double plain_pass(Plain *plain, const Batch *batch, const Pass *pass);

/* Returns the logits (T,V) of sequence b after a pass. */
const real *plain_logits(const Plain *plain, size_t b);
