/* One thread's part of a pass, and the operations it performs (operations.c). Each calls one function of ops/ or of
   attention.h, adds its time to the profile and shows its result to the hook. transformer.c lists them in the order of
   the network. Nothing outside src/model includes this. */
#pragma once

#include "model/transformer.h"

/* What kind of pass it is. */
typedef struct {
    bool training;       /* with dropout of (seed, micro_step) */
    bool with_backward;  /* backward as well, of loss_weight times the sum of the losses */
    bool zero_gradients; /* parameters' gradients start at zero */
    size_t cached;       /* positions of the only sequence that are computed already */
    uint64_t seed, micro_step;
    real loss_weight;
} Pass;

typedef struct {
    Model *m;
    const Pass *pass;
    const Batch *batch;    /* the slice */
    size_t id, count;      /* this thread and how many there are */
    size_t batch_row;      /* row of the whole batch that is row 0 of the slice */
    Range rows;            /* its rows of (B,T) */
    Range pairs;           /* its (sequence, head) pairs */
    bool splits_sequences; /* attention reads rows of other threads */
} Worker;

/* Its columns of a weight's gradient, in whole cache lines. */
static inline Range columns_of(const Worker *w, size_t columns) {
    return range_split(columns, CACHE_LINE, w->id, w->count);
}

/* Ends an operation: the time since the last one ended counts as `op` (OP_COUNT: not at all), and this thread's rows of
   `a` (NULL: none), or of its gradient, are complete. */
void done(const Worker *w, PassOperation op, const Activation *a, Direction direction);
/* Waits until all threads have come here. */
void barrier(const Worker *w);

/* The sites of dropout: the embeddings, then three per layer. */
typedef enum { SITE_EMBEDDING, SITE_WEIGHTS, SITE_PROJ_1, SITE_PROJ_2 } DropoutSite;

/* The forward pass, on this thread's rows; each overwrites its output. `role` is the weight's; its bias is role + 1.
       embedding         x = dropout(wte[token] + wpe[position])
       layernorm         ln.y = LN(x)
       linear            y = x W + b
       self_attention    att from the layer's queries, keys and values
       nonlinearity      act = GELU(fc) or ReLU(fc); if a backward pass follows, fc becomes the derivative
       residual          res = x + dropout(proj)
       unembedding       logits = x W^T, W the token embedding when tied
       loss              of every position; the logits become exp(z - max), see cross_entropy_forward */
void embedding(const Worker *w, const Activation *x);
void layernorm(const Worker *w, const LayerNorm *ln, const Activation *x, Role role, size_t layer);
void linear(const Worker *w, const Activation *y, const Activation *x, Role role, size_t layer);
void self_attention(const Worker *w, const Activation *att, size_t layer);
void nonlinearity(const Worker *w, const Activation *act, const Activation *fc);
void residual(const Worker *w, const Activation *res, const Activation *x, const Activation *proj, size_t layer,
              DropoutSite site);
void unembedding(const Worker *w, const Activation *x);
void loss(const Worker *w);

/* The gradients of activations, on this thread's rows: each overwrites the gradient of its operation's input. Where
   `skip` is not NULL, its gradient is added: the part that comes through the residual connection. */
void loss_backward(const Worker *w);
void unembedding_backward(const Worker *w, const Activation *x);
void layernorm_backward(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer,
                        const Activation *skip);
void linear_backward(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer,
                     const Activation *skip);
void self_attention_backward(const Worker *w, const Activation *qkv, const Activation *att, size_t layer);
void nonlinearity_backward(const Worker *w, const Activation *fc, const Activation *act);
/* Of proj alone; that of x is left to the operation whose `skip` is res. */
void residual_backward(const Worker *w, const Activation *res, const Activation *proj, size_t layer, DropoutSite site);

/* The gradients of weights, summed over all rows of the slice, of this thread's part of the weights: call them after a
   barrier. Each adds to the weights' gradients. */
void unembedding_weights(const Worker *w, const Activation *x);
void layernorm_weights(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer);
void linear_weights(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer);
void self_attention_weights(const Worker *w, size_t layer);   /* of attention's own parameters */
void embedding_weights(const Worker *w, const Activation *x); /* with a barrier of its own */
