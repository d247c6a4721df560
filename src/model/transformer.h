/* The decoder: token and position embeddings, L blocks of attention and feed-forward with residual connections, output
   embedding, cross-entropy. Both passes are written by hand; docs/backward.md derives them.

   A step's work is cut in three ways.

   Shards: equal ranges of a batch with gradients of their own (train.shards). A pass may compute several of them at the
   same time. Then the threads are divided among the shards, which share nothing but the parameters.

   Slices: a large shard goes through forward and backward a few thousand positions at a time and adds up their
   gradients, so that memory does not grow with the batch and activations stay near the processor.

   Threads: one parallel region per slice. Each thread carries its own sequences through every layer with
   single-threaded products; weight gradients are split by strips of the weights after a barrier, so no sum depends on
   the threads' order. Where sequences cannot be shared evenly, rows are split. ops/ knows nothing of threads. */
#pragma once

#include "model/tensors.h"

/* Returns the number of sequences of a slice of a batch of B, or with B = 0 of any batch: as many as fit into
   SLICE_ROWS positions, at least one. */
enum { SLICE_ROWS = 4096 };
static inline size_t model_slice_size(const ModelShape *shape, size_t B) {
    size_t sequences = SLICE_ROWS / shape->T ? SLICE_ROWS / shape->T : 1;
    return B > 0 && B < sequences ? B : sequences;
}

/* The rows of an activation that are computed in scratch at a time and then rounded. They stay in the second-level
   cache, and are one tile of AMX's products. */
enum { ROWS_AT_ONCE = 32 };

/* One array of the forward pass and the array of its gradient. B is the slice's, here and below. With bf16, an array
   that only products read is kept rounded (gemm/bf16.h), and there is none of `real`. */
typedef struct {
    size_t layer, width;
    Form form;      /* in which products read `real` */
    real *values;   /* (B,T,width); NULL: kept rounded */
    real *gradient; /* (B,T,width), shared by layers (arrays.c); NULL: kept rounded, or there is none, as in a model
                       made without gradients and for the output of the activation function */
    Operand rounded, rounded_gradient;
} Activation;

/* Returns the values, or the gradient, as products read them. */
static inline Operand activation_operand(const Activation *a) {
    return a->values ? (Operand){a->values, a->width, a->form} : a->rounded;
}
static inline Operand gradient_operand(const Activation *a) {
    return a->gradient ? (Operand){a->gradient, a->width, a->form} : a->rounded_gradient;
}

/* A LayerNorm's output and what it keeps for the backward pass. */
typedef struct {
    Activation y;
    real *mean, *rstd; /* (B,T) */
} LayerNorm;

/* The arrays of a block that the backward pass needs, by sublayer, in the order of a pre-norm model. proj and res are
   one array: the residual connection adds in place. The gradient of proj is the gradient of res times the dropout mask.
   If a backward pass follows, then fc's values become the activation function's derivative. The gradient of act has no
   array: the gradient of fc is computed from it in place. */
typedef struct {
    LayerNorm ln_1; /* (B,T,C) */
    Activation qkv; /* (B,T,3HD) */
    Activation att; /* (B,T,HD) */
    AttentionSaved saved;
    Activation proj_1;        /* (B,T,C): before dropout and the residual connection */
    Activation res_1;         /* (B,T,C): after them */
    LayerNorm ln_2;           /* (B,T,C) */
    Activation fc;            /* (B,T,F): before the activation function */
    Activation act;           /* (B,T,F): after it */
    Activation proj_2, res_2; /* (B,T,C), as proj_1 and res_1 */
} Block;

typedef struct {
    ModelShape shape;
    TensorTable tensors;
    size_t threads, max_batch;    /* max_batch: sequences of T that a batch may have */
    real *parameters, *gradients; /* flat, as the table says */
    Arena arena;                  /* of all arrays */

    Activation x;      /* (B,T,C): embeddings after dropout, input of block 0 */
    Block *blocks;     /* (L) */
    LayerNorm ln_f;    /* pre-norm only */
    Activation logits; /* (B,T,V); the gradient overwrites the values */
    real *losses;      /* (max_batch,T) */
    real *sums;        /* (B,T) */
    real *partials;    /* (B,H,attention_partials): of the layer in progress */
    real *score_max;   /* (L,H): the largest score of the last pass, or of those since they were forgotten; NaN where a
                          row of scores has no finite softmax */
    real *scratch;     /* (threads, scratch_size) */
    size_t scratch_size;                  /* numbers of one thread */
    size_t targets;                       /* how many targets of the last pass's batch count */
    size_t correct;                       /* how many of them have the largest logit; 0 after a backward pass */
    void (*clock)(const char *operation); /* NULL, or for the benchmark: see operation_ended */
} Model;

/* Tell the clock, if there is one, that this thread begins what is timed, or has just ended an operation. */
static inline void operation_ended(const Model *model, const char *operation) {
    if (model->clock) model->clock(operation);
}
static inline void operations_begin(const Model *model) { operation_ended(model, ""); }

/* Makes the table of tensors and all arrays, in one arena; with `training` there are gradients. Parameters are zero
   until initialized or loaded. It writes nothing to them, so they take no pages yet. */
void model_make(Model *model, const ModelShape *shape, size_t max_batch, size_t threads, bool training);

/* One batch: tokens and targets (B, T) with B <= max_batch, T <= shape.T, every id below V. If targets is NULL,
   only the logits are computed. A target of -1 does not count. */
typedef struct {
    const int32_t *tokens, *targets;
    size_t B, T;
} Batch;
/* Returns the number of targets that count; 0 without targets. */
size_t batch_targets(const Batch *batch);

/* A pass over a batch, or over some of its shards. All zero, it is the forward pass without dropout. */
typedef struct {
    bool training; /* with dropout, drawn for (seed, micro_step) */
    uint64_t seed, micro_step;
    bool with_backward; /* differentiates batch_weight * (mean loss of the targets), and adds to the gradients */
    double batch_weight;
    bool zero_gradients;               /* with_backward: starts them at zero */
    double *query_norms, *score_norms; /* NULL, or (L,H,B,T): with_backward, the norms that attention_gradient_norms
                                          computes, of a batch that is one slice */
    size_t cached;        /* continues one sequence, whose first `cached` positions the last pass computed with the same
                             parameters: their keys and values are still in the blocks' arrays. No targets */
    bool same_parameters; /* as in the last pass, whose packed weights are read again */
    size_t batch_shards;  /* the shards of the batch; 0: it is one, whose gradients are the model's */
    Range shards;         /* which this pass computes at the same time, as many as model_shards_at_once */
    real *const *gradients; /* an array for each of these shards, to which it adds */
    double *losses;         /* the sum of each one's losses, to which it adds */
} Pass;
/* Returns the sequences of the batch that the pass computes. */
Range pass_sequences(const Batch *batch, const Pass *pass);

/* Returns the number of shards to compute at the same time, if a batch has enough of them. It divides the number of
   threads, and slices of so many shards fit into the arrays. */
size_t model_shards_at_once(const Model *model, size_t batch_shards);

/* Computes the logits, and if there are targets the losses of every position; returns their sum (0 without targets).
   With targets, the logits are overwritten (see cross_entropy_rows). Logits and activations are the last slice's. A
   batch without shards is one slice if it fits (model_slice_size). Plain: plain_pass. */
double model_pass(Model *model, const Batch *batch, const Pass *pass);
static inline double model_forward(Model *model, const Batch *batch) { return model_pass(model, batch, &(Pass){0}); }

/* Forgets the largest scores of earlier passes. A pass over shards leaves that to its caller. */
void model_forget_scores(Model *model);

/* After a pass: the first head, as layer * H + head, with a row of scores without a finite softmax; SIZE_MAX: none. */
size_t model_find_not_finite(const Model *model);

/* Shrinks W_Q and W_K where score_max is above the limit (attention_clip). */
void model_qk_clip(Model *model, double limit);

/* A layer's attention over sequences of T, with the arrays of the last pass and without dropout: for measurements. */
AttentionArrays model_attention(const Model *model, size_t layer, size_t T);
