/* The arrays of a pass, and the hook that is shown them while it runs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

/* In the order of the forward pass. The output of a block is the next one's input and is shown once, as AT_X: so
   AT_LN_2 is seen in pre-norm models alone, AT_RES_2 in post-norm models alone. */
typedef enum {
    AT_X, /* (B,T,C): the input of block `layer`; of layer 0 behind the embeddings' dropout, of layer L the last output
           */
    AT_LN_1,
    AT_QKV,    /* (B,T,3HD) */
    AT_ATT,    /* (B,T,HD) */
    AT_PROJ_1, /* (B,T,C), as the next three: what the residual connection adds, before dropout */
    AT_RES_1,
    AT_LN_2,
    AT_FC,  /* (B,T,F): before the activation function */
    AT_ACT, /* (B,T,F): after it */
    AT_PROJ_2,
    AT_RES_2,
    AT_LN_F,   /* of no layer, as is the next: layer 0 */
    AT_LOGITS, /* (B,T,V): before they become probabilities */
    AT_COUNT,
} ActivationName;

/* One array of the forward pass and the one of its gradient. B is the slice's. */
typedef struct {
    ActivationName name;
    size_t layer, width;
    real *values;   /* (B,T,width) */
    real *gradient; /* the same shape, shared by all layers; NULL in a model made without gradients */
} Activation;

typedef enum { FORWARD, BACKWARD } Direction;

/* What a hook is shown: one thread's rows of an activation, or of its gradient. */
typedef struct {
    const Activation *activation;
    Direction direction; /* BACKWARD: values are dL/d(the activation), over all its uses */
    real *values;        /* (rows, width), where they lie */
    size_t rows;         /* there may be none */
    size_t batch_row;    /* the first of them, counted in the batch's (B,T) */
    size_t slice_row;    /* the same, counted in the slice's, as the activation's arrays are */
} HookView;

/* `function` is called by each thread for its own rows, all at the same time: forward as soon as the values are there
   (it may change them, and what follows is computed from what it leaves), backward as soon as the gradient is complete.
 */
typedef struct {
    void (*function)(void *context, const HookView *view);
    void *context;
} Hook;
