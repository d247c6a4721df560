/* What a pass shows of itself while it runs: its activations and their gradients to a hook, its time to a profile. */
#pragma once

#include <stddef.h>

#include "gemm/bf16.h"

/* One array of the forward pass and the array of its gradient. B is the slice's. Under precision = bf16 some
   of them are kept in rows of bf16 (gemm/bf16.h), and have no array of `real`. */
typedef struct {
    const char *name; /* "attn.c_attn output": the layer that computes it */
    size_t layer, width;
    real *values;   /* (B,T,width); NULL if there is `kept` */
    Bf16 *kept;     /* NULL, or (B,T,width) in place of `values`; of c_fc's output the derivative of the activation
                       function is kept */
    real *gradient; /* (B,T,width), shared by layers (arrays.c); NULL in a model made without gradients and in bf16 for
                       c_attn's output, c_fc's and that of the activation function */
    Bf16 *kept_gradient; /* NULL, or (B,T,width) in place of `gradient`, for c_attn's output and c_fc's */
} Activation;

typedef enum { FORWARD, BACKWARD } Direction;

/* What a hook is shown: one thread's rows of an activation, or of its gradient. */
typedef struct {
    const Activation *activation;
    Direction direction; /* BACKWARD: `values` are dL/d(the activation), summed over its uses */
    real *values;        /* (rows, width), in the activation's array; NULL if that is NULL */
    size_t rows;         /* may be 0 */
    size_t batch_row;    /* the first of these rows, counted in the batch's (B,T) */
    size_t slice_row;    /* the same row, counted in the slice's (B,T), as in the activation's arrays */
} HookView;

/* `function` is called by each thread for its own rows, all at the same time: forward as soon as the values are
   computed (it may change `values`, and what follows is computed from the changed ones), backward as soon as the
   gradient is complete. */
typedef struct {
    void (*function)(void *context, const HookView *view);
    void *context;
} Hook;

/* The operations of a pass that are timed. */
typedef enum {
    OP_CLEAR, /* gradients to zero */
    OP_EMBEDDING,
    OP_LAYERNORM,
    OP_LINEAR, /* q, k, v; the projection; both layers of the feed-forward network */
    OP_ATTENTION,
    OP_RESIDUAL, /* with the dropout of the branch */
    OP_ACTIVATION,
    OP_LOGITS,
    OP_LOSS,
    OP_LOSS_BACK,
    OP_LOGITS_BACK, /* inputs and weights */
    OP_LAYERNORM_BACK,
    OP_LINEAR_BACK,
    OP_LINEAR_WEIGHTS,
    OP_ATTENTION_BACK,
    OP_RESIDUAL_BACK,
    OP_ACTIVATION_BACK,
    OP_EMBEDDING_BACK,
    OP_WAIT, /* at barriers */
    OP_COUNT,
} PassOperation;

/* One thread's time in each operation, for the benchmark. */
typedef struct {
    double last; /* when the previous operation ended */
    double seconds[OP_COUNT];
    char padding[64]; /* so that no two threads share a cache line */
} Profile;
