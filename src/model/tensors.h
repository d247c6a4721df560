/* The sizes of a model and the one table of its parameters: each tensor is one row (tensors.c), with name and
   orientation as in GPT-2 (y = x W + b, W (in, out)). Allocation, initialization, optimizer, checkpoint, gradient check
   and parameter count all walk it. */
#pragma once

#include "model/attention.h"

/* Letters as everywhere: T context, C d_model, F d_ff, V vocabulary, L layers; in `attention`, H heads and D d_k. */
typedef struct {
    size_t T, C, F, V, L;
    AttentionConfig attention; /* H, D, and how scores are made */
    ActivationFunction activation;
    bool pre_norm, bias, tied;
    double dropout;
} ModelShape;

ModelShape model_shape(const Config *config, size_t vocabulary);

/* Returns the number of weights in the blocks' linear layers. */
double model_linear_weights(const ModelShape *shape);

/* Returns the floating-point operations of one training step over `tokens` tokens: per token 6 for each weight of the
   linear layers, output head included, and 3 L attention_flops, which is 12 L H D T for dot products (Chowdhery et al.
   2022, PaLM, appendix B). The causal half that is skipped is counted, as is usual. */
double model_flops(const ModelShape *shape, double tokens);

/* The role of a tensor. The bias of a linear layer or LayerNorm comes right after its weight, as role + 1. */
typedef enum {
    WTE,
    WPE,
    LN_1_W,
    LN_1_B,
    ATTN_W,
    ATTN_B,
    ATTN_V, /* from here to ATTN_SINKS: attention's own parameters, in the order of AttentionParameter */
    ATTN_Q_NORM,
    ATTN_K_NORM,
    ATTN_SCALE,
    ATTN_SINKS,
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
    LAYER_FIRST = LN_1_W, /* every layer has its own, from this one */
    LAYER_LAST = MLP_PROJ_B,
} TensorRole;

/* Returns the weight of the logits (V,C). */
static inline TensorRole output_role(const ModelShape *shape) { return shape->tied ? WTE : LM_HEAD; }

/* Returns which of attention's own parameters a tensor is; ATTENTION_PARAMETERS if it is none of them. */
static inline AttentionParameter attention_parameter_of(TensorRole role) {
    const bool own = role >= ATTN_V && role < ATTN_PROJ_W;
    return own ? (AttentionParameter)(role - ATTN_V) : ATTENTION_PARAMETERS;
}
static inline TensorRole attention_role(AttentionParameter parameter) {
    return (TensorRole)((int)ATTN_V + (int)parameter);
}

/* The initialization of a tensor's entries; initialization.c has the distributions. */
typedef enum {
    INITIAL_ZEROS,
    INITIAL_ONES,
    INITIAL_EMBEDDING,  /* N(0, .02^2) whatever model.init is */
    INITIAL_MATRIX,     /* as model.init says, by fan_in and fan_out */
    INITIAL_RESIDUAL,   /* as INITIAL_MATRIX, but smaller under gpt2: it writes into the residual stream */
    INITIAL_BIAS,       /* as model.init says, by fan_in */
    INITIAL_FAN_IN,     /* N(0, 1 / fan_in) whatever model.init is */
    INITIAL_MULTIPLIER, /* the multiplier of the scores */
} Initializer;

/* Columns of a tensor that belong together: queries, keys and values inside c_attn, in the order of AttentionPart; any
   other tensor is one block. Each block has an initialization of its own, from the tensor's one stream, and an update
   of its own. */
typedef struct {
    const char *name; /* "q"; "" if the block is the whole tensor */
    size_t begin, end;
    size_t fan_in, fan_out;
    Initializer initializer;
    double init_scale, lr_scale; /* factors of the initial entries and of the learning rate; lr_scale 0: not learned */
    bool decays;                 /* weight decay: in every tensor of two dimensions, if the block is learned */
    bool is_matrix; /* all or some weights of a linear layer in a block: what Muon updates, if it is chosen, and
                       whose gradients linear_backward_weight overwrites first */
} ColumnBlock;

enum { COLUMN_BLOCKS_MAX = ATTENTION_PARTS };
enum { CACHE_LINE = 16 }; /* in numbers; tensors begin, and threads split columns, at multiples of it */

typedef struct {
    char name[32];
    TensorRole role;
    uint32_t stream;            /* of the random numbers from which its entries are drawn */
    size_t dimensions, size[2]; /* dimensions: 1 or 2; size[1] is 1 for vectors */
    size_t count, offset;       /* how many numbers, and where they start in a flat array */
    size_t width;               /* number of columns: size[1], or size[0] of a vector */
    size_t block_count;
    ColumnBlock blocks[COLUMN_BLOCKS_MAX];
    float *packed[2]; /* by Orientation: a weight of linear layers or of the logits, packed for products (matmul_pack);
                         NULL where no product reads it so, and with OpenBLAS */
} Tensor;

typedef struct {
    Tensor *items;
    size_t *index; /* (L, ROLE_COUNT): index into items; SIZE_MAX: the model has no such tensor */
    size_t count;
    size_t parameters; /* numbers in all tensors */
    size_t flat;       /* length of a flat array that holds them all, each from the start of a cache line */
} TensorTable;

/* Makes the table of a model. */
TensorTable tensors_make(const ModelShape *shape);

/* Makes one row of a model's table, without its offset. Returns false when the model has no such tensor. */
bool tensor_describe(Tensor *tensor, const ModelShape *shape, TensorRole role, size_t layer);

/* Returns NULL when the model has no such tensor (bias = no, tied embeddings). One outside the layers has layer 0. */
const Tensor *tensor_find(const TensorTable *table, TensorRole role, size_t layer);
/* Returns where a tensor starts in `flat`, or NULL when the model has no such tensor. */
real *tensor_at(const TensorTable *table, real *flat, TensorRole role, size_t layer);
/* Returns the name of the first tensor with a NaN or an infinity in `flat`, or NULL. */
const char *tensors_find_not_finite(const TensorTable *table, const real *flat);
