/* What a thread knows during a pass, and the operations it makes on its part of the rows: each calls one of ops/, then
   adds its time to the profile and shows the result to the hook. The lists of operations are in block.c and
   transformer.c, which alone include this with operations.c. */
#ifndef SQRTDK_MODEL_WORKER_H
#define SQRTDK_MODEL_WORKER_H

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
    const Batch *batch;
    size_t id, count;      /* this thread and how many there are */
    size_t first;          /* row of the whole batch that is row 0 here */
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

/* What this thread did since the last call was `operation`; OP_COUNT: nothing that counts. */
void profile(const Worker *w, PassOperation operation);
/* Shows this thread's rows of an activation, or of its gradient, to the model's hook. */
void show(const Worker *w, const Activation *a, bool backward);

/* All threads of the region meet. */
void barrier(const Worker *w);

/* Dropout at a place in the network: 0 the embeddings, then three a layer. */
enum { SITE_EMBEDDING, SITE_WEIGHTS, SITE_ATTENTION, SITE_MLP };
static inline uint32_t dropout_site(size_t layer, int site) { return (uint32_t)(3 * layer) + (uint32_t)site; }
Dropout dropout_at(const Worker *w, uint32_t site);

/* y = x W + b, of this thread's rows. `role` is W's; b stands behind it. */
void linear(const Worker *w, size_t layer, const Activation *y, const Activation *x, Role role);
/* sum = x + dropout(a W + b): the last layer of a sublayer and its residual connection. */
void linear_residual(const Worker *w, size_t layer, const Sublayer *s, const Activation *a, Role role);
void layernorm(const Worker *w, const LayerNorm *ln, const Activation *x);

/* dL/dx = dL/dy W^T, plus `residual` where it is not NULL. Overwrites x's gradient. */
void linear_backward(const Worker *w, size_t layer, const Activation *x, const Activation *y, Role role,
                     const real *residual);
/* From the gradient of the sum to a's, through the branch's dropout. */
void linear_residual_backward(const Worker *w, size_t layer, const Sublayer *s, const Activation *a, Role role);
/* Overwrites x's gradient with that through the LayerNorm, plus `residual` where it is not NULL. */
void layernorm_backward(const Worker *w, const LayerNorm *ln, const Activation *x, const real *residual);

/* The gradients of weights, over all rows, this thread's part of the weights: behind a barrier. dy (B,T,out) is the
   gradient of x W + b. */
void linear_weights(const Worker *w, size_t layer, const Activation *x, const real *dy, size_t out, Role role);
void layernorm_weights(const Worker *w, const LayerNorm *ln, const Activation *x);

/* The gradient of f's output in a sublayer whose sum's gradient has been computed. */
const real *branch_gradient(const Worker *w, const Sublayer *s);

/* block.c */
void block_forward(const Worker *w, size_t layer);
void block_backward(const Worker *w, size_t layer);

#endif
