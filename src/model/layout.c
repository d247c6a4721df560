/* The memory of a model: every array it ever uses, laid out once. The same walk measures and allocates. */
#include <limits.h>
#include <stdlib.h>

#include "model/transformer.h"
#include "ops/attention.h"

static real *take(Arena *arena, size_t count) { return arena_take(arena, count, sizeof(real)); }

static void lay_out_parameters(Model *m, Arena *arena, bool training) {
    m->parameters = take(arena, m->tensors.flat);
    if (training) m->gradients = take(arena, m->tensors.flat);
}

static void lay_out_activations(Model *m, Arena *arena, bool training) {
    const ModelShape *s = &m->shape;
    size_t rows = size_mul(model_slice(s, m->max_batch), s->T), C = size_mul(rows, s->C),
           HD = size_mul(rows, size_mul(s->H, s->D));
    size_t F = size_mul(rows, s->F), V = size_mul(rows, s->V), heads = size_mul(rows, s->H), QKV = size_mul(3, HD);
    m->x = take(arena, C);
    for (size_t layer = 0; layer < s->L; layer++) {
        m->blocks[layer] = (BlockActivations){
            .ln_1 = take(arena, C),
            .ln_2 = take(arena, C),
            .res_1 = take(arena, C),
            .res_2 = take(arena, C),
            .mean_1 = take(arena, rows),
            .rstd_1 = take(arena, rows),
            .mean_2 = take(arena, rows),
            .rstd_2 = take(arena, rows),
            .qkv = take(arena, QKV),
            .row_max = take(arena, heads),
            .row_sum = take(arena, heads),
            .att = take(arena, HD),
            .fc = take(arena, F),
            .act = take(arena, F),
        };
    }
    if (s->pre_norm) {
        m->ln_f = take(arena, C);
        m->mean_f = take(arena, rows);
        m->rstd_f = take(arena, rows);
    }
    m->logits = take(arena, V);
    m->losses = take(arena, size_mul(m->max_batch, s->T));
    m->sums = take(arena, rows);
    m->scratch = take(arena, size_mul(m->threads, attention_scratch(s->T)));
    if (!training) return;
    m->d = (Gradients){
        .x = {take(arena, C), take(arena, C)},
        .ln_1 = take(arena, C),
        .ln_2 = take(arena, C),
        .res_1 = take(arena, C),
        .res_2 = s->pre_norm ? NULL : take(arena, C),
        .proj = s->dropout > 0 ? take(arena, C) : NULL,
        .mlp = s->dropout > 0 ? take(arena, C) : NULL,
        .att = take(arena, HD),
        .qkv = take(arena, QKV),
        .fc = take(arena, F),
    };
}

/* Every size that reaches the products must fit the int that cblas takes. */
static bool sizes_fit(const ModelShape *s, size_t max_batch) {
    return size_mul(max_batch, s->T) <= INT_MAX && s->C <= INT_MAX && s->F <= INT_MAX && s->V <= INT_MAX &&
           size_mul(3, size_mul(s->H, s->D)) <= INT_MAX;
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

void model_free(Model *m) {
    arena_free(&m->parameter_arena);
    arena_free(&m->activation_arena);
    tensors_free(&m->tensors);
    free(m->blocks);
    m->blocks = NULL;
}
