/* Where the time of a pass goes, for the benchmark: each thread adds up what it spends on each operation. */
#pragma once

#include <stddef.h>

#include "base/real.h"

typedef enum {
    OP_CLEAR, /* gradients to zero */
    OP_EMBEDDING,
    OP_LAYERNORM,
    OP_LINEAR, /* q, k, v; the projection; both layers of the feed-forward */
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

typedef struct {
    double last; /* when the operation before this one ended */
    double seconds[OP_COUNT];
    char padding[64]; /* so that no two threads share a cache line */
} Profile;
