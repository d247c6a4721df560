#include "model/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/rng.h"

ModelShape model_shape(const Config *config, size_t vocabulary) {
    size_t D = (size_t)config->model.d_k;
    return (ModelShape){
        .T = (size_t)config->model.context,
        .C = (size_t)config->model.d_model,
        .H = (size_t)config->model.heads,
        .D = D,
        .F = (size_t)config->model.d_ff,
        .V = vocabulary,
        .L = (size_t)config->model.layers,
        .pre_norm = config->model.norm == NORM_PRE,
        .bias = config->model.bias,
        .tied = config->model.tie_embeddings,
        .relu = config->model.activation == ACTIVATION_RELU,
        .dropout = config->model.dropout,
        .multiplier = (real)scale_multiplier(config->attention.scale_divisor, D),
    };
}

/* How a role is named, and whether a layer has one each. */
static const struct {
    const char *name;
    bool in_layer;
} ROLES[ROLE_COUNT] = {
    [WTE] = {"wte.weight", false},
    [WPE] = {"wpe.weight", false},
    [LN_1_W] = {"ln_1.weight", true},
    [LN_1_B] = {"ln_1.bias", true},
    [ATTN_W] = {"attn.c_attn.weight", true},
    [ATTN_B] = {"attn.c_attn.bias", true},
    [ATTN_PROJ_W] = {"attn.c_proj.weight", true},
    [ATTN_PROJ_B] = {"attn.c_proj.bias", true},
    [LN_2_W] = {"ln_2.weight", true},
    [LN_2_B] = {"ln_2.bias", true},
    [FC_W] = {"mlp.c_fc.weight", true},
    [FC_B] = {"mlp.c_fc.bias", true},
    [MLP_PROJ_W] = {"mlp.c_proj.weight", true},
    [MLP_PROJ_B] = {"mlp.c_proj.bias", true},
    [LN_F_W] = {"ln_f.weight", false},
    [LN_F_B] = {"ln_f.bias", false},
    [LM_HEAD] = {"lm_head.weight", false},
};

/* Rows and columns of a role's tensor; columns 0 for a vector, rows 0 when the model has none. */
static void role_size(const ModelShape *s, Role role, size_t size[2]) {
    size_t HD = size_mul(s->H, s->D), QKV = size_mul(3, HD), rows = 0, columns = 0;
    bool is_bias = false;
    switch (role) {
    case WTE: rows = s->V, columns = s->C; break;
    case WPE: rows = s->T, columns = s->C; break;
    case LN_1_B:
    case LN_2_B: is_bias = true; /* fallthrough */
    case LN_1_W:
    case LN_2_W: rows = s->C; break;
    case ATTN_W: rows = s->C, columns = QKV; break;
    case ATTN_B: rows = QKV, is_bias = true; break;
    case ATTN_PROJ_W: rows = HD, columns = s->C; break;
    case FC_W: rows = s->C, columns = s->F; break;
    case FC_B: rows = s->F, is_bias = true; break;
    case MLP_PROJ_W: rows = s->F, columns = s->C; break;
    case ATTN_PROJ_B:
    case MLP_PROJ_B: rows = s->C, is_bias = true; break;
    case LN_F_B: is_bias = true; /* fallthrough */
    case LN_F_W: rows = s->pre_norm ? s->C : 0; break;
    case LM_HEAD: rows = s->tied ? 0 : s->V, columns = s->C; break;
    case ROLE_COUNT: break;
    }
    if (is_bias && !s->bias) rows = 0;
    size[0] = rows;
    size[1] = columns;
}

static void add(TensorTable *table, const ModelShape *shape, Role role, size_t layer) {
    enum { CACHE_LINE = 16 };
    size_t size[2];
    role_size(shape, role, size);
    if (size[0] == 0) return;
    Tensor *t = &table->items[table->count];
    *t = (Tensor){.role = role,
                  .layer = layer,
                  .dimensions = size[1] ? 2 : 1,
                  .size = {size[0], size[1] ? size[1] : 1},
                  .offset = table->flat,
                  .decays = size[1] != 0};
    if (ROLES[role].in_layer)
        snprintf(t->name, sizeof t->name, "h.%zu.%s", layer, ROLES[role].name);
    else
        snprintf(t->name, sizeof t->name, "%s", ROLES[role].name);
    t->count = size_mul(t->size[0], t->size[1]);
    table->index[layer * ROLE_COUNT + role] = table->count++;
    table->parameters = size_add(table->parameters, t->count);
    size_t end = size_add(size_add(table->flat, t->count), CACHE_LINE - 1);
    table->flat = end == SIZE_MAX ? end : end - end % CACHE_LINE;
}

bool tensors_make(TensorTable *table, const ModelShape *shape, Error *err) {
    size_t places = size_mul(shape->L, ROLE_COUNT);
    if (size_mul(places, sizeof(Tensor)) == SIZE_MAX)
        return error_set(err, STATUS_FAILED, "no memory for the table of %zu layers", shape->L);
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

typedef enum { CONSTANT, NORMAL, UNIFORM } Kind;
typedef struct {
    Kind kind;
    double value; /* the constant, the standard deviation, or the bound */
} Rule;

static Rule matrix_rule(const ModelShape *s, const Tensor *t, Init init) {
    double fan_in = (double)t->size[0], fan_out = (double)t->size[1];
    if (t->role == ATTN_W) fan_out = (double)(s->H * s->D); /* W_Q, W_K, W_V, each by itself */
    bool residual = t->role == ATTN_PROJ_W || t->role == MLP_PROJ_W;
    switch (init) {
    case INIT_UNIT: return (Rule){NORMAL, 1 / sqrt(fan_in)};
    case INIT_XAVIER: return (Rule){UNIFORM, sqrt(6 / (fan_in + fan_out))};
    case INIT_TORCH: return (Rule){UNIFORM, 1 / sqrt(fan_in)};
    case INIT_GPT2: return (Rule){NORMAL, residual ? 0.02 / sqrt(2 * (double)s->L) : 0.02};
    }
    return (Rule){CONSTANT, NAN};
}

static Rule rule_of(const ModelShape *s, const Tensor *t, Init init) {
    switch (t->role) {
    case WTE:
    case WPE:
    case LM_HEAD: return (Rule){NORMAL, EMBEDDING_STD};
    case LN_1_W:
    case LN_2_W:
    case LN_F_W: return (Rule){CONSTANT, 1};
    case LN_1_B:
    case LN_2_B:
    case LN_F_B: return (Rule){CONSTANT, 0};
    case ATTN_B:
    case ATTN_PROJ_B:
    case FC_B:
    case MLP_PROJ_B: {
        double fan_in = (double)(t->role == ATTN_PROJ_B ? s->H * s->D : t->role == MLP_PROJ_B ? s->F : s->C);
        return init == INIT_TORCH ? (Rule){UNIFORM, 1 / sqrt(fan_in)} : (Rule){CONSTANT, 0};
    }
    default: return matrix_rule(s, t, init);
    }
}

/* Four numbers at a time, as they are drawn. */
static void draw(const Rule *rule, const Rng *rng, size_t block, real *out, size_t n) {
    double four[4];
    if (rule->kind == NORMAL)
        rng_normals(rng, block, four);
    else
        for (size_t j = 0; j < 4; j++) four[j] = rule->kind == CONSTANT ? 1 : 2 * rng_uniform(rng, 4 * block + j) - 1;
    for (size_t j = 0; j < n; j++) out[j] = (real)(rule->value * four[j]);
}

void tensors_initialise(const TensorTable *table, const ModelShape *shape, Init init, uint64_t seed, size_t threads,
                        real *flat) {
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const Rule rule = rule_of(shape, t, init);
        const Rng rng = rng_make(seed, RNG_INIT, (uint32_t)(t->layer * ROLE_COUNT + t->role));
#pragma omp parallel for num_threads((int)threads) schedule(static)
        for (size_t j = 0; j < t->count; j += 4)
            draw(&rule, &rng, j / 4, flat + t->offset + j, t->count - j < 4 ? t->count - j : 4);
    }
}

static double rule_variance(Rule rule) {
    return rule.kind == NORMAL ? rule.value * rule.value : rule.kind == UNIFORM ? rule.value * rule.value / 3 : 0;
}

const char *tensors_find_not_finite(const TensorTable *table, const real *flat) {
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->items[i].count; j++)
            if (!isfinite((double)flat[table->items[i].offset + j])) return table->items[i].name;
    return NULL;
}

void tensors_query_variance(const ModelShape *s, Init init, double *weight, double *bias) {
    const Tensor w = {.role = ATTN_W, .size = {s->C, 3 * s->H * s->D}}, b = {.role = ATTN_B, .size = {w.size[1], 1}};
    *weight = rule_variance(rule_of(s, &w, init));
    *bias = s->bias ? rule_variance(rule_of(s, &b, init)) : 0;
}

double flops_per_step(const ModelShape *s, double tokens) {
    double C = (double)s->C, F = (double)s->F, V = (double)s->V, L = (double)s->L, T = (double)s->T;
    double HD = (double)s->H * (double)s->D;
    return tokens * (6 * (L * (4 * C * HD + 2 * C * F) + C * V) + 12 * L * HD * T);
}
