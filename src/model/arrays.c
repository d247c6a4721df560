/* The memory of a model: every array that it ever uses, laid out before the first step, so that a pass allocates
   nothing. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/machine.h"
#include "base/memory.h"
#include "gemm/bf16.h"
#include "model/transformer.h"

static real *take(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(rows, width), sizeof(real));
}

static Activation activation(const ModelShape *s, Arena *arena, size_t layer, size_t rows, size_t width) {
    const Form form = attention_form(&s->attention);
    return (Activation){.layer = layer, .width = width, .form = form, .values = take(arena, rows, width)};
}

/* An array that only products read, which would round it to bf16: so it is rounded once, when it is computed. */
static Operand rounded(Arena *arena, size_t rows, size_t width) {
    return (Operand){bf16_take(arena, rows, width), bf16_stride(width), FORM_BF16};
}
static Activation kept_activation(const ModelShape *s, Arena *arena, size_t layer, size_t rows, size_t width) {
    if (!s->attention.rounds) return activation(s, arena, layer, rows, width);
    return (Activation){.layer = layer, .width = width, .form = FORM_ROUNDED, .rounded = rounded(arena, rows, width)};
}

static LayerNorm layernorm(Arena *arena, Activation y, size_t rows) {
    return (LayerNorm){.y = y, .mean = take(arena, rows, 1), .rstd = take(arena, rows, 1)};
}

/* A post-norm model keeps these in `real`, because there a residual connection reads the output of a LayerNorm, too. */
static LayerNorm block_layernorm(const ModelShape *s, Arena *arena, size_t layer, size_t rows) {
    return layernorm(
        arena, s->pre_norm ? kept_activation(s, arena, layer, rows, s->C) : activation(s, arena, layer, rows, s->C),
        rows);
}

static void lay_out_block(Model *m, size_t layer, size_t rows, Arena *arena) {
    const ModelShape *s = &m->shape;
    const size_t width_in = attention_width_in(&s->attention), width_out = attention_width_out(&s->attention);
    Block *b = &m->blocks[layer];
    b->ln_1 = block_layernorm(s, arena, layer, rows);
    b->qkv = kept_activation(s, arena, layer, rows, width_in);
    b->saved = attention_lay_out(&s->attention, rows, rows / s->T, arena);
    b->att = kept_activation(s, arena, layer, rows, width_out);
    b->proj_1 = activation(s, arena, layer, rows, s->C);
    b->res_1 = b->proj_1; /* one array: the residual connection adds in place */
    b->ln_2 = block_layernorm(s, arena, layer, rows);
    b->fc = kept_activation(s, arena, layer, rows, s->F);
    b->act = kept_activation(s, arena, layer, rows, s->F);
    b->proj_2 = activation(s, arena, layer, rows, s->C);
    b->res_2 = b->proj_2;
}

/* All blocks use the same buffers for their gradients, since the backward pass of a block is done with them before the
   next block's begins. A block hands on only the gradient of its input, which is the output of the block before. So two
   buffers for outputs take turns. Within a block, activations share a buffer when one gradient is computed from the
   other in place, or is equal to it, as for proj and res without dropout:

       buffer    pre-norm                              post-norm
       output    res_2 (and proj_2 without dropout)    ln_2
       inner     ln_2                                  res_2 (and proj_2 without dropout)
       res_1     res_1 (and proj_1 without dropout)    the same
       ln_1      ln_1, and ln_f before the blocks      ln_1
       fc        fc                                    the same
       qkv, att  each its own                          each its own

   In bf16 the buffers fc and qkv are rows of bf16. */
static void lay_out_gradients(Model *m, size_t rows, Arena *arena) {
    const ModelShape *s = &m->shape;
    const bool rounds = s->attention.rounds, dropout = s->dropout > 0;
    const size_t width_in = attention_width_in(&s->attention);
    real *const outputs[2] = {take(arena, rows, s->C), take(arena, rows, s->C)};
    real *const ln_1 = take(arena, rows, s->C), *const att = take(arena, rows, attention_width_out(&s->attention));
    real *const res_1 = take(arena, rows, s->C), *const proj_1 = dropout ? take(arena, rows, s->C) : res_1;
    real *const inner = take(arena, rows, s->C); /* in the second sublayer, what is not the block's output */
    real *const own_proj_2 = dropout ? take(arena, rows, s->C) : NULL;
    real *const qkv = rounds ? NULL : take(arena, rows, width_in), *const fc = rounds ? NULL : take(arena, rows, s->F);
    const Operand rounded_qkv = rounds ? rounded(arena, rows, width_in) : (Operand){0};
    const Operand rounded_fc = rounds ? rounded(arena, rows, s->F) : (Operand){0};
    for (size_t layer = 0; layer < s->L; layer++) {
        Block *b = &m->blocks[layer];
        real *const output = outputs[(layer + 1) % 2];
        b->ln_1.y.gradient = ln_1;
        b->qkv.gradient = qkv;
        b->qkv.rounded_gradient = rounded_qkv;
        b->att.gradient = att;
        b->proj_1.gradient = proj_1;
        b->res_1.gradient = res_1;
        b->ln_2.y.gradient = s->pre_norm ? inner : output;
        b->fc.gradient = fc;
        b->fc.rounded_gradient = rounded_fc;
        b->res_2.gradient = s->pre_norm ? output : inner;
        b->proj_2.gradient = dropout ? own_proj_2 : b->res_2.gradient;
    }
    m->x.gradient = outputs[0];
    m->ln_f.y.gradient = ln_1; /* its backward pass ends before the blocks need the buffer */
    m->logits.gradient = m->logits.values;
    m->partials = take(arena, size_mul(rows / s->T, s->attention.H), attention_partials(&s->attention));
}

/* Takes memory for the weights that products read. The forward pass of a linear layer reads them as they are, and the
   gradient of its input transposed; with the logits it is the other way round. */
static void lay_out_packed(Model *m, bool training, Arena *arena) {
    for (size_t i = 0; i < m->tensors.count; i++) {
        Tensor *t = &m->tensors.items[i];
        const bool output = t->role == output_role(&m->shape);
        for (Orientation as = PLAIN; (output || t->blocks->is_matrix) && as <= TRANSPOSED; as++) {
            const size_t k = t->size[as == TRANSPOSED], n = t->size[as == PLAIN];
            const size_t size = matmul_packed_size(k, n, m->shape.attention.rounds);
            const bool forward = output == (as == TRANSPOSED);
            if (size > 0 && (forward || training)) t->packed[as] = arena_take(arena, size, sizeof(float));
        }
    }
}

/* Numbers of scratch for a thread, in whole cache lines: for attention, or for rows that are rounded next, of an
   activation function and its derivative. */
static size_t scratch_size(const ModelShape *s) {
    const size_t widths[] = {s->C, attention_width_in(&s->attention), size_mul(2, s->F)};
    size_t most = attention_scratch(&s->attention, s->T);
    for (size_t i = 0; s->attention.rounds && i < 3; i++) {
        const size_t rows = size_mul(ROWS_AT_ONCE, widths[i]);
        most = rows > most ? rows : most;
    }
    return size_add(most, CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static void take_arrays(Model *m, bool training) {
    const ModelShape *s = &m->shape;
    const size_t rows = size_mul(model_slice_size(s, m->max_batch), s->T); /* of a slice */
    Arena *arena = &m->arena;
    m->parameters = take(arena, m->tensors.flat, 1);
    if (training) m->gradients = take(arena, m->tensors.flat, 1);
    lay_out_packed(m, training, arena);
    m->x = activation(s, arena, 0, rows, s->C);
    for (size_t layer = 0; layer < s->L; layer++) lay_out_block(m, layer, rows, arena);
    if (s->pre_norm) m->ln_f = layernorm(arena, activation(s, arena, 0, rows, s->C), rows);
    m->logits = activation(s, arena, 0, rows, s->V);
    m->losses = take(arena, m->max_batch, s->T);
    m->sums = take(arena, rows, 1);
    m->scratch_size = scratch_size(s);
    m->scratch = take(arena, m->threads, m->scratch_size);
    m->score_max = take(arena, s->L, s->attention.H);
    if (training) lay_out_gradients(m, rows, arena);
}

static void check_stacks(size_t threads) {
    size_t least = SIZE_MAX;
#pragma omp parallel num_threads((int)threads)
    {
        const size_t left = stack_left();
#pragma omp critical
        if (left < least) least = left;
    }
    memory_check_stack(least);
}

void model_make(Model *m, const ModelShape *shape, size_t max_batch, size_t threads, bool training) {
    char what[64];
    *m = (Model){.shape = *shape, .max_batch = max_batch, .threads = threads};
    /* Every size that reaches the products must fit the int that cblas takes. */
    if (size_mul(max_batch, shape->T) > INT_MAX || shape->C > INT_MAX || shape->F > INT_MAX || shape->V > INT_MAX ||
        attention_width_in(&shape->attention) > INT_MAX)
        usage_error(
            "the model is too large: batch * context, d_model, d_ff, 3 * heads * d_k and the vocabulary must each be at most %d",
            INT_MAX);
    check_stacks(threads);
    m->tensors = tensors_make(shape);
    snprintf(what, sizeof what, "the table of %zu layers", shape->L);
    m->blocks = memory_make(shape->L, sizeof *m->blocks, what);
    do take_arrays(m, training);
    while (arena_allocate(&m->arena, "the model's arrays"));
}

AttentionArrays model_attention(const Model *m, size_t layer, size_t T) {
    const Block *b = &m->blocks[layer];
    AttentionArrays a = {.attention = &m->shape.attention,
                         .T = T,
                         .qkv = activation_operand(&b->qkv),
                         .out = activation_operand(&b->att),
                         .dqkv = gradient_operand(&b->qkv),
                         .partials = m->partials,
                         .saved = b->saved};
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++)
        a.parameters[p] = tensor_at(&m->tensors, m->parameters, attention_role(p), layer);
    return a;
}
