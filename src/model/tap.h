/* A look into a pass while it runs: what a model's tap is shown of each activation, and of its gradient. */
#ifndef SQRTDK_MODEL_TAP_H
#define SQRTDK_MODEL_TAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

/* The activations, named as in BlockActivations. Each array is shown once: a block's output is the next block's
   PLACE_X, so RES_2 is seen in post-norm models alone, LN_2 in pre-norm models alone. */
typedef enum {
    PLACE_X, /* (B,T,C): a block's input, of block 0 behind its dropout; layer L: the last block's output */
    PLACE_LN_1,
    PLACE_QKV, /* (B,T,3HD) */
    PLACE_ATT, /* (B,T,HD) */
    PLACE_RES_1,
    PLACE_LN_2,
    PLACE_FC,  /* (B,T,F): before the activation */
    PLACE_ACT, /* (B,T,F): after it */
    PLACE_RES_2,
    PLACE_LN_F,   /* of no layer, as is the next: layer 0 */
    PLACE_LOGITS, /* (B,T,V): before they become probabilities */
} Place;

typedef struct {
    Place place;
    size_t layer;
    bool backward;             /* values are dL/d(the activation), over all its uses */
    real *values;              /* (rows, width), where they lie */
    size_t first, rows, width; /* row `first` of (B,T) is the first of them; there may be none */
} TapView;

/* `look` is called by each thread for its own rows, all at the same time: forward as soon as the values are there (it
   may change them, and what follows is computed from what it leaves), backward as soon as the gradient is complete. */
typedef struct {
    void (*look)(void *context, const TapView *view);
    void *context;
} Tap;

#endif
