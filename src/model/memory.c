/* The memory of a model: every array it ever uses, laid out once. The same code measures and then allocates. */
#include <limits.h>
#include <stdlib.h>

#include "model/transformer.h"

static real *take(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(rows, width), sizeof(real));
}

static Activation activation(Arena *arena, ActivationName name, size_t layer, size_t rows, size_t width) {
    return (Activation){.name = name, .layer = layer, .width = width, .values = take(arena, rows, width)};
}

static LayerNorm layernorm(Arena *arena, ActivationName name, size_t layer, size_t rows, size_t width) {
    return (LayerNorm){
        .y = activation(arena, name, layer, rows, width), .mean = take(arena, rows, 1), .rstd = take(arena, rows, 1)};
}

/* The residual connection adds in place. */
static Activation residual_of(const Activation *proj, ActivationName name) {
    Activation res = *proj;
    res.name = name;
    return res;
}

static void lay_out_block(Model *m, size_t layer, size_t rows, Arena *arena) {
    const ModelShape *s = &m->shape;
    Block *b = &m->blocks[layer];
    b->ln_1 = layernorm(arena, AT_LN_1, layer, rows, s->C);
    b->qkv = activation(arena, AT_QKV, layer, rows, attention_width_in(&s->attention));
    b->saved = attention_lay_out(&s->attention, rows, rows / s->T, arena);
    b->att = activation(arena, AT_ATT, layer, rows, attention_width_out(&s->attention));
    b->proj_1 = activation(arena, AT_PROJ_1, layer, rows, s->C);
    b->res_1 = residual_of(&b->proj_1, AT_RES_1);
    b->ln_2 = layernorm(arena, AT_LN_2, layer, rows, s->C);
    b->fc = activation(arena, AT_FC, layer, rows, s->F);
    b->act = activation(arena, AT_ACT, layer, rows, s->F);
    b->proj_2 = activation(arena, AT_PROJ_2, layer, rows, s->C);
    b->res_2 = residual_of(&b->proj_2, AT_RES_2);
    Activation *output = s->pre_norm ? &b->res_2 : &b->ln_2.y; /* the next block's input */
    output->name = AT_X;
    output->layer = layer + 1;
}

/* Arrays that all blocks share. Those of a block's input and output take turns. */
static void lay_out_gradients(Model *m, size_t rows, Arena *arena) {
    const ModelShape *s = &m->shape;
    const bool pre = s->pre_norm, drops = s->dropout > 0;
    real *const x[2] = {take(arena, rows, s->C), take(arena, rows, s->C)};
    real *const ln_1 = take(arena, rows, s->C), *const ln_2 = take(arena, rows, s->C);
    real *const res_1 = take(arena, rows, s->C), *const res_2 = pre ? NULL : take(arena, rows, s->C);
    real *const proj_1 = drops ? take(arena, rows, s->C) : NULL, *const proj_2 = drops ? take(arena, rows, s->C) : NULL;
    real *const att = take(arena, rows, attention_width_out(&s->attention));
    real *const qkv = take(arena, rows, attention_width_in(&s->attention)), *const fc = take(arena, rows, s->F);
    m->partials = take(arena, size_mul(rows / s->T, s->attention.H), attention_partials(&s->attention));
    m->x.gradient = x[0];
    m->ln_f.y.gradient = ln_1;
    m->logits.gradient = m->logits.values;
    for (size_t layer = 0; layer < s->L; layer++) {
        Block *b = &m->blocks[layer];
        real *const output = x[(layer + 1) % 2];
        b->ln_1.y.gradient = ln_1;
        b->qkv.gradient = qkv;
        b->att.gradient = att;
        b->res_1.gradient = res_1;
        b->proj_1.gradient = drops ? proj_1 : res_1;
        b->ln_2.y.gradient = pre ? ln_2 : output;
        b->fc.gradient = b->act.gradient = fc;
        b->res_2.gradient = pre ? output : res_2;
        b->proj_2.gradient = drops ? proj_2 : b->res_2.gradient;
    }
}

/* Measures while the arenas have no memory. */
static void lay_out(Model *m, bool training) {
    const ModelShape *s = &m->shape;
    const size_t rows = size_mul(model_slice(s, m->max_batch), s->T); /* of a slice */
    Arena *arena = &m->activation_arena;
    m->parameters = take(&m->parameter_arena, m->tensors.flat, 1);
    if (training) m->gradients = take(&m->parameter_arena, m->tensors.flat, 1);
    m->x = activation(arena, AT_X, 0, rows, s->C);
    for (size_t layer = 0; layer < s->L; layer++) lay_out_block(m, layer, rows, arena);
    if (s->pre_norm) m->ln_f = layernorm(arena, AT_LN_F, 0, rows, s->C);
    m->logits = activation(arena, AT_LOGITS, 0, rows, s->V);
    m->losses = take(arena, m->max_batch, s->T);
    m->sums = take(arena, rows, 1);
    m->scratch = take(arena, m->threads, attention_scratch(&s->attention, s->T));
    m->score_max = take(arena, s->L, s->attention.H);
    if (training) lay_out_gradients(m, rows, arena);
}

bool model_make(Model *m, const ModelShape *shape, size_t max_batch, size_t threads, bool training, Error *err) {
    *m = (Model){.shape = *shape, .max_batch = max_batch, .threads = threads};
    /* Every size that reaches the products must fit the int that cblas takes. */
    if (size_mul(max_batch, shape->T) > INT_MAX || shape->C > INT_MAX || shape->F > INT_MAX || shape->V > INT_MAX ||
        attention_width_in(&shape->attention) > INT_MAX)
        return rejected(
            err,
            "the model is too large: batch * context, d_model, d_ff, 3 * heads * d_k and the vocabulary must each be at most %d",
            INT_MAX);
    if (!tensors_make(&m->tensors, shape, err)) return false;
    m->blocks = calloc(shape->L, sizeof *m->blocks);
    if (!m->blocks) return failed(err, "no memory for the table of %zu layers", shape->L);
    lay_out(m, training);
    if (!arena_allocate(&m->parameter_arena, "the parameters", err) ||
        !arena_allocate(&m->activation_arena, "the activations", err))
        return false;
    lay_out(m, training);
    return true;
}

AttentionLayer model_attention(const Model *m, size_t layer, size_t T) {
    const Block *b = &m->blocks[layer];
    AttentionLayer a = {.attention = &m->shape.attention,
                        .T = T,
                        .qkv = b->qkv.values,
                        .out = b->att.values,
                        .partials = m->partials,
                        .saved = b->saved};
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++)
        a.parameters[p] = tensor_at(&m->tensors, m->parameters, ATTN_V + p, layer);
    return a;
}

void model_free(Model *m) {
    arena_free(&m->parameter_arena);
    arena_free(&m->activation_arena);
    tensors_free(&m->tensors);
    free(m->blocks);
    m->blocks = NULL;
}
