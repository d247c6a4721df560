/* What a thread knows during a pass, and the operations it makes on its part of the rows: each calls one of ops/, then
   adds its time to the profile and shows the result to the hook. block.c and transformer.c list them. Nothing outside
   src/model includes this. */
#pragma once

#include "base/range.h"
#include "model/transformer.h"

/* What kind of pass it is. */
typedef struct {
    bool training;       /* with dropout of (seed, micro_step) */
    bool with_backward;  /* backward as well, of loss_weight times the sum of the losses */
    bool zero_gradients; /* parameters' gradients start at zero */
    uint64_t seed, micro_step;
    real loss_weight;
} Pass;

typedef struct {
    Model *m;
    const Pass *pass;
    const Batch *batch;    /* the slice */
    size_t id, count;      /* this thread and how many there are */
    size_t batch_row;      /* row of the whole batch that is row 0 here */
    Range rows;            /* its rows of (B,T) */
    Range pairs;           /* its (sequence, head) pairs */
    bool splits_sequences; /* attention reads rows of other threads */
} Worker;

enum { LINE = 16 }; /* columns to a cache line: threads split gradients at multiples of it */
static inline Range columns_of(const Worker *w, size_t columns) { return range_split(columns, LINE, w->id, w->count); }

static inline real *weight(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->parameters, role, layer);
}
static inline real *gradient(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->gradients, role, layer);
}
static inline real *scratch_of(const Worker *w) {
    return w->m->scratch + w->id * attention_scratch(&w->m->shape.attention, w->m->shape.T);
}

/* Ends an operation: what this thread did since the last one counts as `op` (OP_COUNT: as nothing), and its rows of `a`
   (NULL: none), or of the gradient, are complete. */
void done(const Worker *w, PassOperation op, const Activation *a, Direction direction);
/* All threads of the region meet. */
void barrier(const Worker *w);

/* Dropout at a place in the network: 0 the embeddings, then three a layer. */
typedef enum { SITE_EMBEDDING, SITE_WEIGHTS, SITE_PROJ_1, SITE_PROJ_2 } DropoutSite;
Dropout dropout_at(const Worker *w, size_t layer, DropoutSite site);

/* y = x W + b, of this thread's rows. `role` is W's. */
void linear(const Worker *w, const Activation *y, const Activation *x, Role role, size_t layer);
/* res = x + dropout(proj) */
void residual(const Worker *w, const Activation *res, const Activation *x, const Activation *proj, size_t layer,
              DropoutSite site);
/* ln = LN(x). `role` is the gain's. */
void layernorm(const Worker *w, const LayerNorm *ln, const Activation *x, Role role, size_t layer);

/* Overwrites x's gradient with dL/dy W^T, plus `skip`'s where it is not NULL: what comes past this layer. */
void linear_backward(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer,
                     const Activation *skip);
/* Overwrites proj's gradient; that of x is left to whoever computes the other part of it. */
void residual_backward(const Worker *w, const Activation *res, const Activation *proj, size_t layer, DropoutSite site);
/* Overwrites x's gradient with that through the LayerNorm, plus `skip`'s where it is not NULL. */
void layernorm_backward(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer,
                        const Activation *skip);

/* The gradients of weights, over all rows, this thread's part of the weights: behind a barrier. */
void linear_weights(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer);
void layernorm_weights(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer);

/* block.c: from the block's input x to its output, which is returned; backward from the output's gradient to x's. */
const Activation *block_forward(const Worker *w, size_t layer, const Activation *x);
void block_backward(const Worker *w, size_t layer, const Activation *x);
