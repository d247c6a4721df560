/* The memory of a model: every array it ever uses, laid out once, and how activations are wired to each other. The same
   walk measures and allocates. */
#include <limits.h>
#include <stdlib.h>

#include "model/worker.h"

static real *take(Arena *arena, size_t count) { return arena_take(arena, count, sizeof(real)); }

static void lay_out_parameters(Model *m, Arena *arena, bool training) {
    m->parameters = take(arena, m->tensors.flat);
    if (training) m->gradients = take(arena, m->tensors.flat);
}

/* Lengths of a slice's arrays. */
typedef struct {
    size_t rows, C, in, out, F, V, heads;
} Lengths;

static Lengths lengths_of(const Model *m) {
    const ModelShape *s = &m->shape;
    const size_t rows = size_mul(model_slice(s, m->max_batch), s->T), out = size_mul(s->attention.H, s->attention.D);
    return (Lengths){rows,
                     size_mul(rows, s->C),
                     size_mul(rows, size_mul(3, out)),
                     size_mul(rows, out),
                     size_mul(rows, s->F),
                     size_mul(rows, s->V),
                     size_mul(rows, s->attention.H)};
}

/* What each block keeps for the backward pass. */
static void lay_out_block(Block *b, const Lengths *n, Arena *arena) {
    b->attention.ln.y.values = take(arena, n->C);
    b->mlp.ln.y.values = take(arena, n->C);
    b->attention.sum.values = take(arena, n->C);
    b->mlp.sum.values = take(arena, n->C);
    b->attention.ln.mean = take(arena, n->rows);
    b->attention.ln.rstd = take(arena, n->rows);
    b->mlp.ln.mean = take(arena, n->rows);
    b->mlp.ln.rstd = take(arena, n->rows);
    b->qkv.values = take(arena, n->in);
    b->row_max = take(arena, n->heads);
    b->row_sum = take(arena, n->heads);
    b->att.values = take(arena, n->out);
    b->fc.values = take(arena, n->F);
    b->act.values = take(arena, n->F);
}

/* Gradients on their way through a block, in arrays that all blocks share. The two of `x` take turns as the gradients
   of a block's input and output. */
static void lay_out_gradients(Model *m, const Lengths *n, Arena *arena) {
    const ModelShape *s = &m->shape;
    real *const x[2] = {take(arena, n->C), take(arena, n->C)};
    real *const ln_1 = take(arena, n->C), *const ln_2 = take(arena, n->C), *const res_1 = take(arena, n->C);
    real *const res_2 = s->pre_norm ? NULL : take(arena, n->C);
    real *const masked_1 = s->dropout > 0 ? take(arena, n->C) : NULL;
    real *const masked_2 = s->dropout > 0 ? take(arena, n->C) : NULL;
    real *const att = take(arena, n->out), *const qkv = take(arena, n->in), *const fc = take(arena, n->F);
    m->x.gradient = x[s->L % 2];
    m->ln_f.y.gradient = ln_1;
    for (size_t layer = 0; layer < s->L; layer++) {
        Block *b = &m->blocks[layer];
        real *const output = x[(s->L - 1 - layer) % 2];
        b->attention.ln.y.gradient = ln_1;
        b->attention.sum.gradient = res_1;
        b->attention.masked = masked_1;
        b->qkv.gradient = qkv;
        b->att.gradient = att;
        b->mlp.ln.y.gradient = s->pre_norm ? ln_2 : output;
        b->mlp.sum.gradient = s->pre_norm ? output : res_2;
        b->mlp.masked = masked_2;
        b->fc.gradient = b->act.gradient = fc;
    }
}

static void lay_out_activations(Model *m, Arena *arena, bool training) {
    const ModelShape *s = &m->shape;
    const Lengths n = lengths_of(m);
    m->x.values = take(arena, n.C);
    for (size_t layer = 0; layer < s->L; layer++) lay_out_block(&m->blocks[layer], &n, arena);
    if (s->pre_norm) {
        m->ln_f.y.values = take(arena, n.C);
        m->ln_f.mean = take(arena, n.rows);
        m->ln_f.rstd = take(arena, n.rows);
    }
    m->logits = take(arena, n.V);
    m->losses = take(arena, size_mul(m->max_batch, s->T));
    m->sums = take(arena, n.rows);
    m->scratch = take(arena, size_mul(m->threads, attention_scratch(s->T)));
    if (training) lay_out_gradients(m, &n, arena);
}

static void name(Activation *a, ActivationName what, size_t layer, size_t width) {
    a->name = what, a->layer = layer, a->width = width;
}

/* Pre-norm: y = x + f(LN(x)). Post-norm: y = LN(x + f(x)). */
static const Activation *wire_sublayer(Sublayer *s, bool pre_norm, const Activation *x) {
    s->x = x;
    s->f_in = pre_norm ? &s->ln.y : x;
    s->ln_in = pre_norm ? x : &s->sum;
    s->y = pre_norm ? &s->sum : &s->ln.y;
    return s->y;
}

static void wire(Model *m) {
    const ModelShape *s = &m->shape;
    const Activation *x = &m->x;
    name(&m->x, AT_X, 0, s->C);
    for (size_t layer = 0; layer < s->L; layer++) {
        Block *b = &m->blocks[layer];
        name(&b->attention.ln.y, AT_LN_1, layer, s->C);
        name(&b->attention.sum, AT_RES_1, layer, s->C);
        name(&b->qkv, AT_QKV, layer, attention_width_in(&s->attention));
        name(&b->att, AT_ATT, layer, attention_width_out(&s->attention));
        name(&b->mlp.ln.y, AT_LN_2, layer, s->C);
        name(&b->mlp.sum, AT_RES_2, layer, s->C);
        name(&b->fc, AT_FC, layer, s->F);
        name(&b->act, AT_ACT, layer, s->F);
        name(s->pre_norm ? &b->mlp.sum : &b->mlp.ln.y, AT_X, layer + 1, s->C); /* the next block's input */
        b->attention.ln.gain = LN_1_W, b->mlp.ln.gain = LN_2_W;
        b->attention.ln.layer = b->mlp.ln.layer = layer;
        b->attention.dropout_site = dropout_site(layer, SITE_ATTENTION);
        b->mlp.dropout_site = dropout_site(layer, SITE_MLP);
        x = wire_sublayer(&b->mlp, s->pre_norm, wire_sublayer(&b->attention, s->pre_norm, x));
    }
    name(&m->ln_f.y, AT_LN_F, 0, s->C);
    m->ln_f.gain = LN_F_W;
    m->final = s->pre_norm ? &m->ln_f.y : x;
}

/* Every size that reaches the products must fit the int that cblas takes. */
static bool sizes_fit(const ModelShape *s, size_t max_batch) {
    return size_mul(max_batch, s->T) <= INT_MAX && s->C <= INT_MAX && s->F <= INT_MAX && s->V <= INT_MAX &&
           size_mul(3, size_mul(s->attention.H, s->attention.D)) <= INT_MAX;
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
    wire(m);
    return true;
}

AttentionLayer model_attention(const Model *m, size_t layer, size_t T) {
    const Block *b = &m->blocks[layer];
    return (AttentionLayer){.attention = &m->shape.attention,
                            .T = T,
                            .qkv = b->qkv.values,
                            .out = b->att.values,
                            .row_max = b->row_max,
                            .row_sum = b->row_sum};
}

void model_free(Model *m) {
    arena_free(&m->parameter_arena);
    arena_free(&m->activation_arena);
    tensors_free(&m->tensors);
    free(m->blocks);
    m->blocks = NULL;
}
