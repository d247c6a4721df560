/* The memory of a model: every array it ever uses, laid out once. The same walk measures and allocates. */
#include <limits.h>
#include <stdlib.h>

#include "model/transformer.h"

static real *take(Arena *arena, size_t count) { return arena_take(arena, count, sizeof(real)); }

static void lay_out_parameters(Model *m, Arena *arena, bool training) {
    m->parameters = take(arena, m->tensors.flat);
    if (training) m->gradients = take(arena, m->tensors.flat);
}

/* Lengths of a slice's arrays. */
typedef struct {
    size_t rows, C, in, out, F, V;
} Lengths;

static Lengths lengths_of(const Model *m) {
    const ModelShape *s = &m->shape;
    const size_t rows = size_mul(model_slice(s, m->max_batch), s->T);
    return (Lengths){rows,
                     size_mul(rows, s->C),
                     size_mul(rows, attention_width_in(&s->attention)),
                     size_mul(rows, attention_width_out(&s->attention)),
                     size_mul(rows, s->F),
                     size_mul(rows, s->V)};
}

static Activation activation(ActivationName name, size_t layer, size_t width, real *values) {
    return (Activation){.name = name, .layer = layer, .width = width, .values = values};
}

static void lay_out_block(Model *m, size_t layer, const Lengths *n, Arena *arena) {
    const ModelShape *s = &m->shape;
    Block *b = &m->blocks[layer];
    real *const ln_1 = take(arena, n->C), *const ln_2 = take(arena, n->C);
    real *const res_1 = take(arena, n->C), *const res_2 = take(arena, n->C);
    b->ln_1.mean = take(arena, n->rows);
    b->ln_1.rstd = take(arena, n->rows);
    b->ln_2.mean = take(arena, n->rows);
    b->ln_2.rstd = take(arena, n->rows);
    b->qkv = activation(AT_QKV, layer, attention_width_in(&s->attention), take(arena, n->in));
    b->saved = attention_lay_out(&s->attention, n->rows, arena);
    b->att = activation(AT_ATT, layer, attention_width_out(&s->attention), take(arena, n->out));
    b->fc = activation(AT_FC, layer, s->F, take(arena, n->F));
    b->act = activation(AT_ACT, layer, s->F, take(arena, n->F));
    b->ln_1.y = activation(AT_LN_1, layer, s->C, ln_1);
    b->proj_1 = activation(AT_PROJ_1, layer, s->C, res_1);
    b->res_1 = activation(AT_RES_1, layer, s->C, res_1);
    b->proj_2 = activation(AT_PROJ_2, layer, s->C, res_2);
    /* The block's output is the next block's input. */
    b->ln_2.y = s->pre_norm ? activation(AT_LN_2, layer, s->C, ln_2) : activation(AT_X, layer + 1, s->C, ln_2);
    b->res_2 = s->pre_norm ? activation(AT_X, layer + 1, s->C, res_2) : activation(AT_RES_2, layer, s->C, res_2);
}

/* Gradients on their way through a block, in arrays that all blocks share. The two of `x` take turns as the gradients
   of a block's input and output. */
static void lay_out_gradients(Model *m, const Lengths *n, Arena *arena) {
    const ModelShape *s = &m->shape;
    const bool drops = s->dropout > 0;
    real *const x_0 = take(arena, n->C), *const x_1 = take(arena, n->C);
    real *const ln_1 = take(arena, n->C), *const ln_2 = take(arena, n->C), *const res_1 = take(arena, n->C);
    real *const res_2 = s->pre_norm ? NULL : take(arena, n->C);
    real *const proj_1 = drops ? take(arena, n->C) : NULL, *const proj_2 = drops ? take(arena, n->C) : NULL;
    real *const att = take(arena, n->out), *const qkv = take(arena, n->in), *const fc = take(arena, n->F);
    m->x.gradient = s->L % 2 ? x_1 : x_0;
    m->ln_f.y.gradient = ln_1;
    m->logits.gradient = m->logits.values;
    for (size_t layer = 0; layer < s->L; layer++) {
        Block *b = &m->blocks[layer];
        real *const output = (s->L - 1 - layer) % 2 ? x_1 : x_0;
        b->ln_1.y.gradient = ln_1;
        b->qkv.gradient = qkv;
        b->att.gradient = att;
        b->res_1.gradient = res_1;
        b->proj_1.gradient = drops ? proj_1 : res_1;
        b->ln_2.y.gradient = s->pre_norm ? ln_2 : output;
        b->fc.gradient = b->act.gradient = fc;
        b->res_2.gradient = s->pre_norm ? output : res_2;
        b->proj_2.gradient = drops ? proj_2 : b->res_2.gradient;
    }
}

static void lay_out_activations(Model *m, Arena *arena, bool training) {
    const ModelShape *s = &m->shape;
    const Lengths n = lengths_of(m);
    m->x = activation(AT_X, 0, s->C, take(arena, n.C));
    for (size_t layer = 0; layer < s->L; layer++) lay_out_block(m, layer, &n, arena);
    if (s->pre_norm) {
        m->ln_f.y = activation(AT_LN_F, 0, s->C, take(arena, n.C));
        m->ln_f.mean = take(arena, n.rows);
        m->ln_f.rstd = take(arena, n.rows);
    }
    m->logits = activation(AT_LOGITS, 0, s->V, take(arena, n.V));
    m->losses = take(arena, size_mul(m->max_batch, s->T));
    m->sums = take(arena, n.rows);
    m->scratch = take(arena, size_mul(m->threads, attention_scratch(&s->attention, s->T)));
    if (training) lay_out_gradients(m, &n, arena);
}

/* Every size that reaches the products must fit the int that cblas takes. */
static bool sizes_fit(const ModelShape *s, size_t max_batch) {
    return size_mul(max_batch, s->T) <= INT_MAX && s->C <= INT_MAX && s->F <= INT_MAX && s->V <= INT_MAX &&
           attention_width_in(&s->attention) <= INT_MAX;
}

static bool prepare(Model *m, const ModelShape *shape, size_t max_batch, size_t threads, Error *err) {
    *m = (Model){.shape = *shape, .max_batch = max_batch, .threads = threads};
    if (!sizes_fit(shape, max_batch))
        return error_set(
            err, STATUS_USAGE,
            "the model is too large: batch * context, d_model, d_ff, 3 * heads * d_k and the vocabulary must each be at most %d",
            INT_MAX);
    if (!tensors_make(&m->tensors, shape, err)) return false;
    m->blocks = calloc(shape->L, sizeof *m->blocks);
    if (!m->blocks) return error_set(err, STATUS_FAILED, "no memory for the table of %zu layers", shape->L);
    return true;
}

bool model_measure(const ModelShape *shape, size_t max_batch, size_t threads, bool training, ModelMemory *memory,
                   Error *err) {
    Model m;
    bool ok = prepare(&m, shape, max_batch, threads, err);
    if (ok) {
        Arena parameters = {0}, activations = {0};
        lay_out_parameters(&m, &parameters, training);
        lay_out_activations(&m, &activations, training);
        *memory = (ModelMemory){parameters.used, activations.used};
    }
    model_free(&m);
    return ok;
}

bool model_make(Model *m, const ModelShape *shape, size_t max_batch, size_t threads, bool training, Error *err) {
    if (!prepare(m, shape, max_batch, threads, err)) return false;
    lay_out_parameters(m, &m->parameter_arena, training);
    lay_out_activations(m, &m->activation_arena, training);
    if (!arena_allocate(&m->parameter_arena, "the parameters", err)) return false;
    if (!arena_allocate(&m->activation_arena, "the activations", err)) return false;
    lay_out_parameters(m, &m->parameter_arena, training);
    lay_out_activations(m, &m->activation_arena, training);
    return true;
}

AttentionLayer model_attention(const Model *m, size_t layer, size_t T) {
    const Block *b = &m->blocks[layer];
    return (AttentionLayer){
        .attention = &m->shape.attention, .T = T, .qkv = b->qkv.values, .out = b->att.values, .saved = b->saved};
}

void model_free(Model *m) {
    arena_free(&m->parameter_arena);
    arena_free(&m->activation_arena);
    tensors_free(&m->tensors);
    free(m->blocks);
    m->blocks = NULL;
}
