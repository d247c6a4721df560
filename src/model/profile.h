/* The time of a pass, by operation. */
#pragma once

#include <stddef.h>

/* The operations of a pass that are timed. */
typedef enum {
    OP_PACK,  /* weights */
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

/* One thread's time in each operation, and the bytes of right operands that its products packed, for the benchmark. */
typedef struct {
    double last;        /* when the previous operation ended */
    size_t last_packed; /* the thread's packed bytes then */
    double seconds[OP_COUNT];
    size_t packed[OP_COUNT];
    char padding[64]; /* so that no two threads share a cache line */
} Profile;
