#include "model/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A size by its letter, as the model's shape has it. */
typedef enum { ONE, V, T, C, HD, F } Letter;
typedef enum { ALWAYS, WITH_BIAS, PRE_NORM, PRE_NORM_WITH_BIAS, UNTIED } Condition;
enum { QKV = 3 };

/* A vector has no rows: its columns are its entries, and fan_in is that of the layer it belongs to. A tensor of several
   column blocks has `columns` in each. */
static const struct {
    const char *name;
    bool in_layer; /* one in each layer, named h.N.name */
    Letter rows, columns, fan_in;
    Condition exists;
    Start start;
    size_t blocks; /* 0: 1 */
} ROWS[ROLE_COUNT] = {
    [WTE] = {"wte.weight", false, V, C, V, ALWAYS, START_EMBEDDING, 0},
    [WPE] = {"wpe.weight", false, T, C, T, ALWAYS, START_EMBEDDING, 0},
    [LN_1_W] = {"ln_1.weight", true, ONE, C, C, ALWAYS, START_ONES, 0},
    [LN_1_B] = {"ln_1.bias", true, ONE, C, C, WITH_BIAS, START_ZEROS, 0},
    [ATTN_W] = {"attn.c_attn.weight", true, C, HD, C, ALWAYS, START_MATRIX, QKV},
    [ATTN_B] = {"attn.c_attn.bias", true, ONE, HD, C, WITH_BIAS, START_BIAS, QKV},
    [ATTN_PROJ_W] = {"attn.c_proj.weight", true, HD, C, HD, ALWAYS, START_RESIDUAL, 0},
    [ATTN_PROJ_B] = {"attn.c_proj.bias", true, ONE, C, HD, WITH_BIAS, START_BIAS, 0},
    [LN_2_W] = {"ln_2.weight", true, ONE, C, C, ALWAYS, START_ONES, 0},
    [LN_2_B] = {"ln_2.bias", true, ONE, C, C, WITH_BIAS, START_ZEROS, 0},
    [FC_W] = {"mlp.c_fc.weight", true, C, F, C, ALWAYS, START_MATRIX, 0},
    [FC_B] = {"mlp.c_fc.bias", true, ONE, F, C, WITH_BIAS, START_BIAS, 0},
    [MLP_PROJ_W] = {"mlp.c_proj.weight", true, F, C, F, ALWAYS, START_RESIDUAL, 0},
    [MLP_PROJ_B] = {"mlp.c_proj.bias", true, ONE, C, F, WITH_BIAS, START_BIAS, 0},
    [LN_F_W] = {"ln_f.weight", false, ONE, C, C, PRE_NORM, START_ONES, 0},
    [LN_F_B] = {"ln_f.bias", false, ONE, C, C, PRE_NORM_WITH_BIAS, START_ZEROS, 0},
    [LM_HEAD] = {"lm_head.weight", false, V, C, V, UNTIED, START_EMBEDDING, 0},
};
static const char *const BLOCK_NAMES[QKV] = {"q", "k", "v"};

/* Random streams are 17 layer + role and part of every result: a role that comes later takes streams from 2^31 on. */
enum { STREAMS_PER_LAYER = 17 };
_Static_assert((int)ROLE_COUNT == (int)STREAMS_PER_LAYER, "a new role has no stream of the first 17: see above");

static size_t size_of(const ModelShape *s, Letter letter) {
    switch (letter) {
    case V: return s->V;
    case T: return s->T;
    case C: return s->C;
    case HD: return size_mul(s->attention.H, s->attention.D);
    case F: return s->F;
    case ONE: break;
    }
    return 1;
}

static bool exists(const ModelShape *s, Condition condition) {
    switch (condition) {
    case WITH_BIAS: return s->bias;
    case PRE_NORM: return s->pre_norm;
    case PRE_NORM_WITH_BIAS: return s->pre_norm && s->bias;
    case UNTIED: return !s->tied;
    case ALWAYS: break;
    }
    return true;
}

bool tensor_describe(Tensor *t, const ModelShape *shape, Role role, size_t layer) {
    if (!exists(shape, ROWS[role].exists)) return false;
    const bool vector = ROWS[role].rows == ONE;
    const size_t rows = size_of(shape, ROWS[role].rows), blocks = ROWS[role].blocks ? ROWS[role].blocks : 1;
    const size_t columns = size_of(shape, ROWS[role].columns), width = size_mul(blocks, columns);
    *t = (Tensor){.role = role,
                  .layer = layer,
                  .stream = (uint32_t)(layer * STREAMS_PER_LAYER + role),
                  .dimensions = vector ? 1 : 2,
                  .size = {vector ? width : rows, vector ? 1 : width},
                  .width = width,
                  .count = size_mul(rows, width),
                  .block_count = blocks};
    for (size_t i = 0; i < blocks; i++)
        t->blocks[i] = (ColumnBlock){.name = blocks == 1 ? "" : BLOCK_NAMES[i],
                                     .begin = i * columns,
                                     .end = (i + 1) * columns,
                                     .fan_in = size_of(shape, ROWS[role].fan_in),
                                     .fan_out = columns,
                                     .start = ROWS[role].start,
                                     .decays = !vector};
    if (ROWS[role].in_layer)
        snprintf(t->name, sizeof t->name, "h.%zu.%s", layer, ROWS[role].name);
    else
        snprintf(t->name, sizeof t->name, "%s", ROWS[role].name);
    return true;
}

static void add(TensorTable *table, const ModelShape *shape, Role role, size_t layer) {
    enum { CACHE_LINE = 16 };
    Tensor *t = &table->items[table->count];
    if (!tensor_describe(t, shape, role, layer)) return;
    t->offset = table->flat;
    table->index[layer * ROLE_COUNT + role] = table->count++;
    table->parameters = size_add(table->parameters, t->count);
    size_t end = size_add(size_add(table->flat, t->count), CACHE_LINE - 1);
    table->flat = end == SIZE_MAX ? end : end - end % CACHE_LINE;
}

bool tensors_make(TensorTable *table, const ModelShape *shape, Error *err) {
    size_t places = size_mul(shape->L, ROLE_COUNT);
    *table = (TensorTable){0};
    if (size_mul(places, sizeof(Tensor)) != SIZE_MAX)
        *table =
            (TensorTable){.items = calloc(places, sizeof *table->items), .index = calloc(places, sizeof *table->index)};
    if (!table->items || !table->index) {
        tensors_free(table);
        return error_set(err, STATUS_FAILED, "no memory for the table of %zu layers", shape->L);
    }
    for (size_t i = 0; i < places; i++) table->index[i] = SIZE_MAX;
    for (Role role = 0; role < LN_1_W; role++) add(table, shape, role, 0);
    for (size_t layer = 0; layer < shape->L; layer++)
        for (Role role = LN_1_W; role < LN_F_W; role++) add(table, shape, role, layer);
    for (Role role = LN_F_W; role < ROLE_COUNT; role++) add(table, shape, role, 0);
    if (size_mul(table->flat, 4 * sizeof(real)) != SIZE_MAX) return true;
    tensors_free(table);
    return error_set(err, STATUS_FAILED, "a model of these sizes has more parameters than memory has addresses");
}

void tensors_free(TensorTable *table) {
    free(table->items);
    free(table->index);
    *table = (TensorTable){0};
}

const ColumnBlock *tensor_block(const Tensor *tensor, const char *name) {
    size_t i = 0;
    while (i + 1 < tensor->block_count && strcmp(tensor->blocks[i].name, name) != 0) i++;
    return &tensor->blocks[i];
}

const char *tensors_find_not_finite(const TensorTable *table, const real *flat) {
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->items[i].count; j++)
            if (!isfinite((double)flat[table->items[i].offset + j])) return table->items[i].name;
    return NULL;
}
