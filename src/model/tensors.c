/* The table of parameters: one row per tensor, and what follows from it for a model's sizes. Everything that walks over
   parameters (arrays, initialization, optimizer, checkpoint, gradient check) asks this table, so a tensor is described
   once. */
#include "model/tensors.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"

ModelShape model_shape(const Config *config, size_t vocabulary) {
    return (ModelShape){
        .T = config->model.context,
        .C = config->model.d_model,
        .F = config->model.d_ff,
        .V = vocabulary,
        .L = config->model.layers,
        .attention = attention_make(config),
        .pre_norm = config->model.norm == NORM_PRE,
        .bias = config->model.bias,
        .tied = config->model.tie_embeddings,
        .activation = config->model.activation,
        .dropout = config->model.dropout,
    };
}

double model_linear_weights(const ModelShape *s) {
    const double C = (double)s->C, F = (double)s->F;
    const double in = (double)attention_width_in(&s->attention), out = (double)attention_width_out(&s->attention);
    return (double)s->L * (C * in + out * C + 2 * C * F);
}

double model_flops(const ModelShape *s, double tokens) {
    const double C = (double)s->C, V = (double)s->V, L = (double)s->L;
    return tokens * (6 * (model_linear_weights(s) + C * V) + 3 * L * attention_flops(&s->attention, s->T));
}

typedef enum { ONE, V, T, C, H, D, HD, F, SCALES } Letter; /* a size by its letter */
typedef enum { ALWAYS, WITH_BIAS, PRE_NORM, PRE_NORM_WITH_BIAS, UNTIED, SCORED } Condition;

/* Every result depends on the streams, so they never change. Each layer has the next 17 of them. A tensor that is added
   to the table takes one from LATER on, 2^31, which the layers do not reach. */
enum { STREAMS_PER_LAYER = 17 };
#define LATER 0x80000000u

/* A vector has ONE row: its columns are its entries, and fan_in is its layer's. `columns` counts those of each column
   block. A tensor of layer N has "h.N." before its name. SCORED tensors are attention's own parameters and exist if the
   configured score needs them. */
static const struct {
    const char *name;
    Letter rows, columns, fan_in;
    Condition exists;
    Initializer initializer;
    uint32_t stream;
    size_t blocks;
} ROWS[ROLE_COUNT] = {
    /* clang-format off */
    /*               name                  rows cols fan_in exists          start      stream blocks */
    [WTE] =         {"wte.weight",         V,   C,  V,  ALWAYS,             INITIAL_EMBEDDING, 0, 1},
    [WPE] =         {"wpe.weight",         T,   C,  T,  ALWAYS,             INITIAL_EMBEDDING, 1, 1},
    [LN_1_W] =      {"ln_1.weight",        ONE, C,  C,  ALWAYS,             INITIAL_ONES,      2, 1},
    [LN_1_B] =      {"ln_1.bias",          ONE, C,  C,  WITH_BIAS,          INITIAL_ZEROS,     3, 1},
    [ATTN_W] =      {"attn.c_attn.weight", C,   HD, C,  ALWAYS,             INITIAL_MATRIX,    4, ATTENTION_PARTS},
    [ATTN_B] =      {"attn.c_attn.bias",   ONE, HD, C,  WITH_BIAS,          INITIAL_BIAS,      5, ATTENTION_PARTS},
    [ATTN_V] =      {"attn.v.weight",      H,   D,  D,  SCORED,             INITIAL_FAN_IN, LATER + 0, 1},
    [ATTN_Q_NORM] = {"attn.q_norm.weight", ONE, D,  D,  SCORED,             INITIAL_ONES,   LATER + 1, 1},
    [ATTN_K_NORM] = {"attn.k_norm.weight", ONE, D,  D,  SCORED,             INITIAL_ONES,   LATER + 2, 1},
    [ATTN_SCALE] =  {"attn.scale",         ONE, SCALES, D, SCORED,          INITIAL_MULTIPLIER, LATER + 3, 1},
    [ATTN_SINKS] =  {"attn.sinks",         ONE, H,  D,  SCORED,             INITIAL_ZEROS,  LATER + 4, 1},
    [ATTN_PROJ_W] = {"attn.c_proj.weight", HD,  C,  HD, ALWAYS,             INITIAL_RESIDUAL,  6, 1},
    [ATTN_PROJ_B] = {"attn.c_proj.bias",   ONE, C,  HD, WITH_BIAS,          INITIAL_BIAS,      7, 1},
    [LN_2_W] =      {"ln_2.weight",        ONE, C,  C,  ALWAYS,             INITIAL_ONES,      8, 1},
    [LN_2_B] =      {"ln_2.bias",          ONE, C,  C,  WITH_BIAS,          INITIAL_ZEROS,     9, 1},
    [FC_W] =        {"mlp.c_fc.weight",    C,   F,  C,  ALWAYS,             INITIAL_MATRIX,   10, 1},
    [FC_B] =        {"mlp.c_fc.bias",      ONE, F,  C,  WITH_BIAS,          INITIAL_BIAS,     11, 1},
    [MLP_PROJ_W] =  {"mlp.c_proj.weight",  F,   C,  F,  ALWAYS,             INITIAL_RESIDUAL, 12, 1},
    [MLP_PROJ_B] =  {"mlp.c_proj.bias",    ONE, C,  F,  WITH_BIAS,          INITIAL_BIAS,     13, 1},
    [LN_F_W] =      {"ln_f.weight",        ONE, C,  C,  PRE_NORM,           INITIAL_ONES,     14, 1},
    [LN_F_B] =      {"ln_f.bias",          ONE, C,  C,  PRE_NORM_WITH_BIAS, INITIAL_ZEROS,    15, 1},
    [LM_HEAD] =     {"lm_head.weight",     V,   C,  V,  UNTIED,             INITIAL_EMBEDDING, 16, 1},
    /* clang-format on */
};
_Static_assert((int)ATTN_V + (int)ATTENTION_PARAMETERS == (int)ATTN_PROJ_W,
               "attention's own roles follow AttentionParameter");
static const char *const BLOCK_NAMES[ATTENTION_PARTS] = {[QUERY] = "q", [KEY] = "k", [VALUE] = "v"};

static size_t size_of(const ModelShape *s, Letter letter) {
    const AttentionConfig *a = &s->attention;
    const size_t hd = attention_width_out(a), scales = attention_parameter(a, PARAMETER_MULTIPLIER).heads;
    return (const size_t[]){1, s->V, s->T, s->C, a->H, a->D, hd, s->F, scales}[letter]; /* in the order of Letter */
}

static bool exists(const ModelShape *s, TensorRole role) {
    const AttentionParameter own = attention_parameter_of(role);
    const bool scored = own != ATTENTION_PARAMETERS && attention_parameter(&s->attention, own).size > 0;
    const bool holds[] = {[ALWAYS] = true,          [WITH_BIAS] = s->bias,
                          [PRE_NORM] = s->pre_norm, [PRE_NORM_WITH_BIAS] = s->pre_norm && s->bias,
                          [UNTIED] = !s->tied,      [SCORED] = scored};
    return holds[ROWS[role].exists];
}

bool tensor_describe(Tensor *t, const ModelShape *shape, TensorRole role, size_t layer) {
    if (!exists(shape, role)) return false;
    const bool vector = ROWS[role].rows == ONE;
    const size_t rows = size_of(shape, ROWS[role].rows), blocks = ROWS[role].blocks;
    const size_t columns = size_of(shape, ROWS[role].columns), width = size_mul(blocks, columns);
    *t = (Tensor){.role = role,
                  .stream = (uint32_t)layer * STREAMS_PER_LAYER + ROWS[role].stream,
                  .dimensions = vector ? 1 : 2,
                  .size = {vector ? width : rows, vector ? 1 : width},
                  .width = width,
                  .count = size_mul(rows, width),
                  .block_count = blocks};
    for (size_t i = 0; i < blocks; i++) {
        const double lr_scale = blocks == 1 || i == VALUE ? 1 : shape->attention.qk_lr_scale;
        t->blocks[i] = (ColumnBlock){.name = blocks == 1 ? "" : BLOCK_NAMES[i],
                                     .begin = i * columns,
                                     .end = (i + 1) * columns,
                                     .fan_in = size_of(shape, ROWS[role].fan_in),
                                     .fan_out = columns,
                                     .initializer = ROWS[role].initializer,
                                     .init_scale = blocks == 1 || i == VALUE ? 1 : shape->attention.qk_init_scale,
                                     .lr_scale = lr_scale,
                                     .decays = !vector && lr_scale > 0,
                                     .is_matrix = ROWS[role].initializer == INITIAL_MATRIX ||
                                                  ROWS[role].initializer == INITIAL_RESIDUAL};
    }
    if (role >= LAYER_FIRST && role <= LAYER_LAST)
        snprintf(t->name, sizeof t->name, "h.%zu.%s", layer, ROWS[role].name);
    else snprintf(t->name, sizeof t->name, "%s", ROWS[role].name);
    return true;
}

static void add(TensorTable *table, const ModelShape *shape, TensorRole role, size_t layer) {
    Tensor *t = &table->items[table->count];
    if (!tensor_describe(t, shape, role, layer)) return;
    t->offset = table->flat;
    table->index[layer * ROLE_COUNT + role] = table->count++;
    table->parameters = size_add(table->parameters, t->count);
    size_t end = size_add(size_add(table->flat, t->count), CACHE_LINE - 1);
    table->flat = end == SIZE_MAX ? end : end - end % CACHE_LINE;
}

TensorTable tensors_make(const ModelShape *shape) {
    const size_t most = size_mul(shape->L, ROLE_COUNT);
    char what[64];
    snprintf(what, sizeof what, "the table of %zu layers", shape->L);
    TensorTable table = {.items = memory_make(most, sizeof *table.items, what)};
    table.index = memory_make(most, sizeof *table.index, what);
    for (size_t i = 0; i < most; i++) table.index[i] = SIZE_MAX;
    for (TensorRole role = 0; role < LAYER_FIRST; role++) add(&table, shape, role, 0);
    for (size_t layer = 0; layer < shape->L; layer++)
        for (TensorRole role = LAYER_FIRST; role <= LAYER_LAST; role++) add(&table, shape, role, layer);
    for (TensorRole role = LAYER_LAST + 1; role < ROLE_COUNT; role++) add(&table, shape, role, 0);
    if (size_mul(table.flat, 4 * sizeof(real)) == SIZE_MAX)
        runtime_error("a model of these sizes has more parameters than memory has addresses");
    return table;
}

const Tensor *tensor_find(const TensorTable *table, TensorRole role, size_t layer) {
    const size_t i = table->index[layer * ROLE_COUNT + role];
    return i == SIZE_MAX ? NULL : &table->items[i];
}

real *tensor_at(const TensorTable *table, real *flat, TensorRole role, size_t layer) {
    const Tensor *tensor = tensor_find(table, role, layer);
    return tensor ? flat + tensor->offset : NULL;
}

const char *tensors_find_not_finite(const TensorTable *table, const real *flat) {
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->items[i].count; j++)
            if (!isfinite((double)flat[table->items[i].offset + j])) return table->items[i].name;
    return NULL;
}
