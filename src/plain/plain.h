/* The decoder as the papers write it: the forward and backward pass of a training step, in loops and formulas. Read
   plain.c first. The fast engine (src/model, src/ops) computes the same, and the tests compare the two.

   Letters: T positions of a sequence, C d_model, H heads, D d_k, F d_ff, V vocabulary, L layers. Arrays are row-major,
   and weights have GPT-2's orientation, y = x W + b with W (in, out). dx is the gradient of the loss with respect to x.

   A forward function overwrites its output. A backward function adds to every gradient that it is given, so that what
   is used twice gets both parts; its caller starts gradients at zero. Attention divides dot products by a divisor and
   does nothing else to them: dropout, other ways to score, QK-clip and products of bf16 are the fast engine's alone
   (src/config/refused.c). */
#pragma once

#include "model/tensors.h"

/* --- The layers, for one sequence, in the order in which it passes. */

/* The parameters of a layer and their gradients: a linear layer's W (in,out) and b (out), a LayerNorm's gain W (C) and
   bias b (C). b and db are NULL in a model without biases. */
typedef struct {
    real *W, *b, *dW, *db;
} PlainParameters;

/* Token and position embeddings: x_t = wte[token_t] + wpe[t]. x (T,C), tokens (T), wte (V,C), wpe (T or more, C). */
void plain_embedding_forward(real *x, const int32_t *tokens, const real *wte, const real *wpe, size_t T, size_t C);
void plain_embedding_backward(real *dwte, real *dwpe, const real *dx, const int32_t *tokens, size_t T, size_t C);

/* Layer normalization (Ba, Kiros, Hinton 2016). y, x (T,C). */
void plain_layernorm_forward(real *y, const real *x, PlainParameters w, size_t T, size_t C);
void plain_layernorm_backward(real *dx, const real *dy, const real *x, PlainParameters w, size_t T, size_t C);

/* Linear layer. y (T,out), x (T,in). */
void plain_linear_forward(real *y, const real *x, PlainParameters w, size_t T, size_t in, size_t out);
void plain_linear_backward(real *dx, const real *dy, const real *x, PlainParameters w, size_t T, size_t in, size_t out);

/* Causal multi-head attention (Vaswani et al. 2017, equation 1). out (T,HD), head by head; qkv (T,3HD): the queries of
   all heads, then their keys, then their values. p (H,T,T) receives the attention weights, zero where key > query. */
void plain_attention_forward(real *out, real *p, const real *qkv, size_t T, size_t H, size_t D, real divisor);
void plain_attention_backward(real *dqkv, const real *dout, const real *p, const real *qkv, size_t T, size_t H,
                              size_t D, real divisor);

/* Residual connection: y = x + branch, all (n). */
void plain_residual_forward(real *y, const real *x, const real *branch, size_t n);
void plain_residual_backward(real *dx, real *dbranch, const real *dy, size_t n);

/* GELU in its tanh form (Hendrycks and Gimpel 2016) and ReLU (Nair and Hinton 2010), entry by entry; y, x (n). */
void plain_gelu_forward(real *y, const real *x, size_t n);
void plain_gelu_backward(real *dx, const real *dy, const real *x, size_t n);
void plain_relu_forward(real *y, const real *x, size_t n);
void plain_relu_backward(real *dx, const real *dy, const real *x, size_t n);

/* Logits: one for each character of the vocabulary. logits (T,V), x (T,C), W (V,C): the token embedding where it is
   tied to the output. */
void plain_logits_forward(real *logits, const real *x, const real *W, size_t T, size_t C, size_t V);
void plain_logits_backward(real *dx, real *dW, const real *dlogits, const real *x, const real *W, size_t T, size_t C,
                           size_t V);

/* Cross-entropy of the next character, in nats: losses (T), probabilities (T,V), targets (T). A target below 0 does not
   count: its loss and gradient are 0. The loss whose gradient is taken is `weight` times the sum of the losses. */
void plain_cross_entropy_forward(real *losses, real *probabilities, const real *logits, const int32_t *targets,
                                 size_t T, size_t V);
void plain_cross_entropy_backward(real *dlogits, const real *probabilities, const int32_t *targets, real weight,
                                  size_t T, size_t V);

/* --- The decoder. */

typedef struct PlainSequence PlainSequence; /* what one sequence computes (plain.c) */

typedef struct {
    size_t max_batch, threads;
    PlainSequence *sequences; /* (max_batch) */
    Arena arena;
} Plain;

/* Takes the memory for batches of up to max_batch sequences: each has activations, attention weights and gradients of
   all parameters. `shape`, whose divisor is read at every pass, and `tensors` stay the caller's and must outlive it.
   Fails when memory is missing. Free with plain_free, also after a failure. */
bool plain_make(Plain *plain, const ModelShape *shape, const TensorTable *tensors, size_t max_batch, size_t threads,
                Error *err);
void plain_free(Plain *plain);

/* One pass over a batch: tokens and targets (B,T) with B <= max_batch and T <= shape.T; weights (all parameters) and
   gradients are flat, as the table of tensors says. Overwrites losses (B,T) and returns their sum. Adds to `gradients`
   those of loss_weight times this sum; with gradients NULL there is no backward pass. The bits are the same for any
   number of threads, because every sequence has gradients of its own, which are added up in the order of the
   sequences. */
double plain_forward_backward(Plain *plain, real *losses, real *gradients, real *weights, const int32_t *tokens,
                              const int32_t *targets, size_t B, size_t T, double loss_weight);

/* After a pass: the logits (T,V) of sequence b. */
const real *plain_logits(const Plain *plain, size_t b);
