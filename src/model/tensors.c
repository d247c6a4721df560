#include "model/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A size by its letter, as the model's shape has it. */
typedef enum { ONE, V, T, C, HD, F } Letter;
typedef enum { ONCE, IN_EACH_LAYER } Place;
typedef enum { ALWAYS, WITH_BIAS, PRE_NORM, PRE_NORM_WITH_BIAS, UNTIED } Condition;

/* A vector has ONE row: its columns are its entries, and fan_in is that of the layer it belongs to. `columns` are those
   of each column block. In a layer the name stands behind "h.N.". */
static const struct {
    const char *name;
    Place place;
    Letter rows, columns, fan_in;
    Condition exists;
    Start start;
    uint32_t stream;
    size_t blocks; /* 0: one */
} ROWS[ROLE_COUNT] = {
    /*               name                  place          rows columns fan_in exists         start     stream blocks */
    [WTE] = {"wte.weight", ONCE, V, C, V, ALWAYS, START_EMBEDDING, 0, 0},
    [WPE] = {"wpe.weight", ONCE, T, C, T, ALWAYS, START_EMBEDDING, 1, 0},
    [LN_1_W] = {"ln_1.weight", IN_EACH_LAYER, ONE, C, C, ALWAYS, START_ONES, 2, 0},
    [LN_1_B] = {"ln_1.bias", IN_EACH_LAYER, ONE, C, C, WITH_BIAS, START_ZEROS, 3, 0},
    [ATTN_W] = {"attn.c_attn.weight", IN_EACH_LAYER, C, HD, C, ALWAYS, START_MATRIX, 4, ATTENTION_PARTS},
    [ATTN_B] = {"attn.c_attn.bias", IN_EACH_LAYER, ONE, HD, C, WITH_BIAS, START_BIAS, 5, ATTENTION_PARTS},
    [ATTN_PROJ_W] = {"attn.c_proj.weight", IN_EACH_LAYER, HD, C, HD, ALWAYS, START_RESIDUAL, 6, 0},
    [ATTN_PROJ_B] = {"attn.c_proj.bias", IN_EACH_LAYER, ONE, C, HD, WITH_BIAS, START_BIAS, 7, 0},
    [LN_2_W] = {"ln_2.weight", IN_EACH_LAYER, ONE, C, C, ALWAYS, START_ONES, 8, 0},
    [LN_2_B] = {"ln_2.bias", IN_EACH_LAYER, ONE, C, C, WITH_BIAS, START_ZEROS, 9, 0},
    [FC_W] = {"mlp.c_fc.weight", IN_EACH_LAYER, C, F, C, ALWAYS, START_MATRIX, 10, 0},
    [FC_B] = {"mlp.c_fc.bias", IN_EACH_LAYER, ONE, F, C, WITH_BIAS, START_BIAS, 11, 0},
    [MLP_PROJ_W] = {"mlp.c_proj.weight", IN_EACH_LAYER, F, C, F, ALWAYS, START_RESIDUAL, 12, 0},
    [MLP_PROJ_B] = {"mlp.c_proj.bias", IN_EACH_LAYER, ONE, C, F, WITH_BIAS, START_BIAS, 13, 0},
    [LN_F_W] = {"ln_f.weight", ONCE, ONE, C, C, PRE_NORM, START_ONES, 14, 0},
    [LN_F_B] = {"ln_f.bias", ONCE, ONE, C, C, PRE_NORM_WITH_BIAS, START_ZEROS, 15, 0},
    [LM_HEAD] = {"lm_head.weight", ONCE, V, C, V, UNTIED, START_EMBEDDING, 16, 0},
};
static const char *const BLOCK_NAMES[ATTENTION_PARTS] = {[QUERY] = "q", [KEY] = "k", [VALUE] = "v"};

/* Streams are part of every result: a layer has the next 17, and a tensor that comes to the table later takes one from
   2^31 on, which no layer reaches. */
enum { STREAMS_PER_LAYER = 17 };

static size_t size_of(const ModelShape *s, Letter letter) {
    switch (letter) {
    case V: return s->V;
    case T: return s->T;
    case C: return s->C;
    case HD: return attention_width_out(&s->attention);
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
                  .stream = (uint32_t)layer * STREAMS_PER_LAYER + ROWS[role].stream,
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
    if (ROWS[role].place == IN_EACH_LAYER)
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

/* In the order of the table; what is in each layer stands layer by layer, where the first of it stands. */
static void add_each(TensorTable *table, const ModelShape *shape) {
    bool layers = false;
    for (Role role = 0; role < ROLE_COUNT; role++) {
        if (ROWS[role].place == ONCE) add(table, shape, role, 0);
        if (ROWS[role].place == ONCE || layers) continue;
        layers = true;
        for (size_t layer = 0; layer < shape->L; layer++)
            for (Role each = role; each < ROLE_COUNT; each++)
                if (ROWS[each].place == IN_EACH_LAYER) add(table, shape, each, layer);
    }
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
    add_each(table, shape);
    if (size_mul(table->flat, 4 * sizeof(real)) != SIZE_MAX) return true;
    tensors_free(table);
    return error_set(err, STATUS_FAILED, "a model of these sizes has more parameters than memory has addresses");
}

void tensors_free(TensorTable *table) {
    free(table->items);
    free(table->index);
    *table = (TensorTable){0};
}

const char *tensors_find_not_finite(const TensorTable *table, const real *flat) {
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->items[i].count; j++)
            if (!isfinite((double)flat[table->items[i].offset + j])) return table->items[i].name;
    return NULL;
}
