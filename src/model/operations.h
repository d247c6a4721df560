/* A thread's part of a batch, and the operations that it performs (operations.c). An operation NAME computes what
   plain_NAME of src/plain/plain.c does, and the benchmark knows it by this name. NAME_backward is often two operations,
   for the gradient of the input and of the weight; hidden_* is a linear layer and its activation function.
   transformer.c lists the operations in the order of the network. Included only by operations.c and transformer.c. */
#pragma once

#include "model/transformer.h"

/* A thread's rows of a slice of a shard of a batch. */
typedef struct {
    Model *m;
    const Batch *batch;
    const Pass *pass;
    real loss_weight;      /* the weight of each target's loss in the loss that is differentiated */
    Range sequences;       /* of each shard: those in the slice, counted from the shard's first */
    size_t id, count;      /* the thread's number in its shard, and the shard's number of threads */
    real *gradients;       /* of parameters: its shard's, which these threads sum together */
    size_t batch_row;      /* Batch row minus array row, of the rows of its shard. */
    Range shard_rows;      /* its shard's rows of the arrays, over which gradients of parameters are summed */
    Range rows;            /* the rows that it computes */
    Range pairs;           /* its (sequence, head) pairs */
    bool splits_sequences; /* the threads split sequences, so attention reads rows of other threads */
} Part;

/* Returns whether the slice is the first whose gradients are added up. */
static inline bool is_first_slice(const Part *p) { return p->pass->zero_gradients && p->sequences.begin == 0; }

/* Returns the columns of a parameter's gradient that this thread computes, in whole cache lines. A narrow model has
   fewer lines than there may be threads. So of two gradients that are computed one after the other, the second one's
   columns (`from_the_middle`) begin with the other half of the threads. */
static inline Range columns_of(const Part *p, size_t columns, bool from_the_middle) {
    return range_split(columns, CACHE_LINE, (p->id + (from_the_middle ? p->count / 2 : 0)) % p->count, p->count);
}

/* Packs this thread's share of the weights, before the first slice of a pass. */
void pack_weights(const Part *p);

/* The sites of dropout: the embeddings, then three per layer. */
typedef enum { DROPOUT_EMBEDDING, DROPOUT_ATTENTION_WEIGHTS, DROPOUT_ATTENTION_OUTPUT, DROPOUT_MLP_OUTPUT } DropoutSite;

/* The forward pass, on this thread's rows; each operation overwrites its output. `role` is the weight's, in the layer
   of the output; its bias is role + 1.

       embedding_forward       x = dropout(wte[token] + wpe[position])
       layernorm_forward       ln.y = LN(x)
       linear_forward          y = x W + b
       attention_forward       att from the layer's queries, keys and values
       hidden_forward          fc = x W + b, act = activation(fc); if a backward pass follows, fc becomes the derivative
       residual_forward        res = x + dropout(proj)
       logits_forward          logits = x W^T, W the token embedding when tied
       cross_entropy_forward   the loss of every position; the logits become exp(z - max) */
void embedding_forward(const Part *p, const Activation *x);
void layernorm_forward(const Part *p, const LayerNorm *ln, const Activation *x, TensorRole role);
void linear_forward(const Part *p, const Activation *y, const Activation *x, TensorRole role);
void attention_forward(const Part *p, const Activation *att);
void hidden_forward(const Part *p, const Activation *act, const Activation *fc, const Activation *x);
void residual_forward(const Part *p, const Activation *res, const Activation *x, const Activation *proj,
                      DropoutSite site);
void logits_forward(const Part *p, const Activation *x);
void cross_entropy_forward(const Part *p);

/* The gradients of activations, on this thread's rows; each operation overwrites the gradient of its input. A residual
   connection res = x + f(x) hands the gradient of res to f (dropout_backward) and to x: after f's backward pass
   residual_backward adds it to the gradient of x. Where f begins with a LayerNorm, layernorm_backward_input does that;
   `residual` is res, or NULL. */
void cross_entropy_backward(const Part *p);
void logits_backward_input(const Part *p, const Activation *x);
void layernorm_backward_input(const Part *p, const Activation *x, const LayerNorm *ln, TensorRole role,
                              const Activation *residual);
void linear_backward_input(const Part *p, const Activation *x, const Activation *y, TensorRole role);
void residual_backward(const Part *p, const Activation *x, const Activation *res);
void attention_backward(const Part *p, const Activation *att);
/* Measures the gradients of attention in this thread's rows, if the pass asks for it (query_norms). */
void attention_measure(const Part *p, const Activation *att);
void hidden_backward(const Part *p, const Activation *fc, const Activation *proj);
/* dL/dx = dL/dy times the mask. Without dropout, and for the embeddings, both gradients are one array. */
void dropout_backward(const Part *p, const Activation *x, const Activation *y, DropoutSite site);

/* The gradients of parameters, summed over all rows of the shard, for this thread's tile of the parameters: call these
   operations after a barrier. Each adds to the parameters' gradients, except that linear_backward_weight overwrites the
   weight's in the first slice, and adds to the bias's. */
void logits_backward_weight(const Part *p, const Activation *x);
void layernorm_backward_weight(const Part *p, const Activation *x, const LayerNorm *ln, TensorRole role);
void linear_backward_weight(const Part *p, const Activation *x, const Activation *y, TensorRole role);
void attention_parameters_backward(const Part *p, const Activation *att);
void embedding_backward(const Part *p, const Activation *x);
