/* The one table of parameters: each tensor described once, with name and orientation as in GPT-2 (y = x W + b,
   W (in, out)). Allocation, initialisation, optimizer, checkpoint and parameter count all walk it. */
#ifndef SQRTDK_MODEL_TENSORS_H
#define SQRTDK_MODEL_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/real.h"
#include "config/config.h"

/* Sizes of a model. Letters as everywhere: C d_model, H heads, D d_k, F d_ff, V vocabulary, L layers, T context. */
typedef struct {
    size_t T, C, H, D, F, V, L;
    bool pre_norm, bias, tied, relu;
    double dropout;
    real multiplier; /* of the scores */
} ModelShape;

ModelShape model_shape(const Config *config, size_t vocabulary);

/* Standard deviation of the embeddings' initial entries, whatever `init` is. */
#define EMBEDDING_STD 0.02

typedef enum {
    WTE,
    WPE,
    LN_1_W,
    LN_1_B,
    ATTN_W,
    ATTN_B,
    ATTN_PROJ_W,
    ATTN_PROJ_B,
    LN_2_W,
    LN_2_B,
    FC_W,
    FC_B,
    MLP_PROJ_W,
    MLP_PROJ_B,
    LN_F_W,
    LN_F_B,
    LM_HEAD,
    ROLE_COUNT,
} Role;

typedef struct {
    char name[32];
    Role role;
    size_t layer;
    size_t dimensions, size[2]; /* 1 or 2; size[1] is 1 for vectors */
    size_t count, offset;       /* numbers, and where they start in a flat array */
    bool decays;                /* weight decay: every tensor of two dimensions */
} Tensor;

typedef struct {
    Tensor *items;
    size_t count;
    size_t parameters; /* numbers in all tensors */
    size_t flat;       /* length of a flat array that holds them all, gaps for alignment included */
    size_t *index;     /* (L, ROLE_COUNT): item, or SIZE_MAX when the model has no such tensor */
} TensorTable;

/* The table's memory is the caller's to free with tensors_free. Fails when a size does not fit. */
bool tensors_make(TensorTable *table, const ModelShape *shape, Error *err);
void tensors_free(TensorTable *table);

/* Where a tensor starts in `flat`; NULL when the model has none (bias = no, tied). Layer 0 for what is no layer's. */
static inline real *tensor_at(const TensorTable *table, real *flat, Role role, size_t layer) {
    size_t item = table->index[layer * ROLE_COUNT + role];
    return item == SIZE_MAX ? NULL : flat + table->items[item].offset;
}

/* The name of the first tensor with a NaN or an infinity in `flat`, or NULL. */
const char *tensors_find_not_finite(const TensorTable *table, const real *flat);

/* Draws every parameter (rules in docs/model.md). What is drawn depends on seed, tensor and index alone. */
void tensors_initialise(const TensorTable *table, const ModelShape *shape, Init init, uint64_t seed, size_t threads,
                        real *flat);

/* Variance of an entry of W_Q and W_K, and of b_Q and b_K, right after initialisation. */
void tensors_query_variance(const ModelShape *shape, Init init, double *weight, double *bias);

/* Floating-point operations of one training step over `tokens` tokens. A token costs 6 for each weight of the linear
   layers, output head included, and 12 L H D T for the attention's products (Chowdhery et al. 2022, PaLM, appendix
   B); the causal half that is skipped is counted, as is usual. */
double flops_per_step(const ModelShape *shape, double tokens);

#endif
