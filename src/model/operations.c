/* The operations of operations.h. Each takes from the model the arrays that one function of ops/ or of attention.h
   needs, and calls it on this thread's rows or its strip of a weight, since ops/ knows neither the model nor threads.
   In the forward pass and in the gradients of activations, attention alone reads rows of other threads, and only where
   threads share sequences; the gradients of weights are sums over all rows, after a barrier. */
#include <omp.h>

#include "gemm/bf16.h"
#include "model/operations.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

_Static_assert((int)ACTIVATION_ROWS == (int)ACTIVATION_COUNT, "add the activation function to src/ops/activation.c");

static bool rounds(const Part *p) { return p->m->shape.attention.rounds; }
static size_t rows_of(const Part *p) { return range_size(p->rows); }
static size_t rows_of_shard(const Part *p) { return range_size(p->shard_rows); }
static size_t T_of(const Part *p) { return p->batch->T; }

/* The tokens and targets by their row in the arrays; targets may be NULL. */
static const int32_t *tokens_of(const Part *p) { return p->batch->tokens + p->batch_row; }
static const int32_t *targets_of(const Part *p) {
    const int32_t *targets = p->batch->targets;
    return targets ? targets + p->batch_row : NULL;
}

static real *values(const Part *p, const Activation *a) { return a->values + p->rows.begin * a->width; }
static real *gradients(const Part *p, const Activation *a) { return a->gradient + p->rows.begin * a->width; }

/* The first of the shard's rows. */
static real *shard_values(const Part *p, const Activation *a) { return a->values + p->shard_rows.begin * a->width; }
static real *shard_gradients(const Part *p, const Activation *a) {
    return a->gradient + p->shard_rows.begin * a->width;
}

/* An activation, or a gradient, from a row on, as products read it. */
static Operand operand(const Activation *x, size_t row) { return operand_from(activation_operand(x), row, 0); }
static Operand gradient_from(const Activation *y, size_t row) { return operand_from(gradient_operand(y), row, 0); }

/* This thread's scratch: for attention, or for rows that are computed and then kept in another form. */
static real *scratch_of(const Part *p) { return p->m->scratch + (size_t)omp_get_thread_num() * p->m->scratch_size; }

/* Rows of an activation that may be kept in another form are computed a few at a time, so that they are still in a
   cache when they are rounded. Returns how many from `row` on; all where `reals`, their array, is not NULL. */
static size_t rows_at_once(const Part *p, const real *reals, size_t row) {
    const size_t left = p->rows.end - row;
    return reals || left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
}
/* Returns where rows from `row` on are computed: in their array, or else in scratch. */
static real *computed(const Part *p, real *reals, size_t row, size_t width) {
    return reals ? reals + row * width : scratch_of(p);
}
/* A whole parameter tensor and its gradient; NULL when the model has no such tensor. */
static real *weight(const Part *p, TensorRole role, size_t layer) {
    return tensor_at(&p->m->tensors, p->m->parameters, role, layer);
}
static real *weight_gradient(const Part *p, TensorRole role, size_t layer) {
    return tensor_at(&p->m->tensors, p->gradients, role, layer);
}

/* A weight as the right operand of products: packed, or for OpenBLAS as it is. */
static Operand weight_operand(const Part *p, TensorRole role, size_t layer, Orientation as) {
    const Tensor *t = tensor_find(&p->m->tensors, role, layer);
    if (t->packed[as]) return (Operand){t->packed[as], 0, FORM_PACKED};
    return (Operand){p->m->parameters + t->offset, t->width, FORM_REAL};
}

void start_clock(const Part *p) {
    if (!p->m->profiles) return;
    Profile *own = &p->m->profiles[omp_get_thread_num()];
    own->last = omp_get_wtime();
    own->last_packed = matmul_packed_bytes();
}

void end_operation(const Part *p, PassOperation op) {
    if (!p->m->profiles) return;
    Profile *own = &p->m->profiles[omp_get_thread_num()];
    const double now = omp_get_wtime();
    const size_t packed = matmul_packed_bytes();
    own->seconds[op] += now - own->last;
    own->packed[op] += packed - own->last_packed;
    own->last = now;
    own->last_packed = packed;
}

static Dropout dropout_at(const Part *p, size_t layer, DropoutSite site) {
    const Pass *pass = p->pass;
    const double probability = pass->training ? p->m->shape.dropout : 0;
    return dropout_make(probability, pass->seed, pass->micro_step, (uint32_t)(3 * layer) + site);
}

/* Threads take panels in turns, one weight's after another's, since a weight may have fewer panels than there are
   threads. */
void op_pack_weights(const Part *p) {
    const TensorTable *table = &p->m->tensors;
    size_t panels = 0; /* of the weights before */
    for (size_t i = 0; i < 2 * table->count; i++) {
        const Tensor *t = &table->items[i / 2];
        const Orientation as = i % 2 ? TRANSPOSED : PLAIN;
        const Product product = {.op_b = as,
                                 .n = t->size[as == PLAIN],
                                 .k = t->size[as == TRANSPOSED],
                                 .b = {p->m->parameters + t->offset, t->width, FORM_REAL},
                                 .rounds = rounds(p)};
        const Range own = range_split(product.n, PACKED_COLUMNS, (p->id + panels) % p->count, p->count);
        if (!t->packed[as]) continue;
        matmul_pack(&product, own, t->packed[as]);
        panels += (product.n + PACKED_COLUMNS - 1) / PACKED_COLUMNS;
    }
    end_operation(p, OP_PACK);
}

void op_embedding_forward(const Part *p, const Activation *x) {
    const Dropout dropout = dropout_at(p, 0, DROPOUT_EMBEDDING);
    embedding_forward(x->values, tokens_of(p), weight(p, WTE, 0), weight(p, WPE, 0), T_of(p), x->width, p->rows);
    dropout_rows(values(p, x), values(p, x), NULL, &dropout, p->batch_row + p->rows.begin, rows_of(p), x->width);
    end_operation(p, OP_EMBEDDING);
}

void op_embedding_backward_weight(const Part *p, const Activation *x) {
    embedding_backward(weight_gradient(p, WTE, 0), weight_gradient(p, WPE, 0), shard_gradients(p, x),
                       tokens_of(p) + p->shard_rows.begin, rows_of_shard(p), T_of(p), x->width,
                       columns_of(p, x->width, false), columns_of(p, x->width, true));
    end_operation(p, OP_EMBEDDING_BACK);
}

void op_layernorm_forward(const Part *p, const LayerNorm *ln, const Activation *x, TensorRole role) {
    const Activation *y = &ln->y;
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        real *out = computed(p, y->values, r, y->width);
        n = rows_at_once(p, y->values, r);
        layernorm_forward(out, ln->mean + r, ln->rstd + r, x->values + r * x->width, weight(p, role, y->layer),
                          weight(p, role + 1, y->layer), n, x->width);
        operand_keep(operand(y, r), out, y->width, n, y->width);
    }
    end_operation(p, OP_LAYERNORM);
}

void op_layernorm_backward_input(const Part *p, const Activation *x, const LayerNorm *ln, TensorRole role,
                                 const Activation *residual) {
    layernorm_backward_input(gradients(p, x), residual ? gradients(p, residual) : NULL, gradients(p, &ln->y),
                             values(p, x), weight(p, role, ln->y.layer), ln->mean + p->rows.begin,
                             ln->rstd + p->rows.begin, rows_of(p), x->width);
    end_operation(p, OP_LAYERNORM_BACK);
}

void op_layernorm_backward_weight(const Part *p, const Activation *x, const LayerNorm *ln, TensorRole role) {
    layernorm_backward_weight(weight_gradient(p, role, ln->y.layer), weight_gradient(p, role + 1, ln->y.layer),
                              shard_gradients(p, &ln->y), shard_values(p, x), ln->mean + p->shard_rows.begin,
                              ln->rstd + p->shard_rows.begin, rows_of_shard(p), x->width,
                              columns_of(p, x->width, role >= LN_2_W));
    end_operation(p, OP_LAYERNORM_BACK);
}

void op_linear_forward(const Part *p, const Activation *y, const Activation *x, TensorRole role) {
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        real *out = computed(p, y->values, r, y->width);
        n = rows_at_once(p, y->values, r);
        linear_forward(out, operand(x, r), weight_operand(p, role, y->layer, PLAIN), weight(p, role + 1, y->layer), n,
                       x->width, y->width, rounds(p));
        operand_keep(operand(y, r), out, y->width, n, y->width);
    }
    end_operation(p, OP_LINEAR);
}

void op_linear_backward_input(const Part *p, const Activation *x, const Activation *y, TensorRole role,
                              const Activation *residual) {
    linear_backward_input(gradients(p, x), gradient_from(y, p->rows.begin),
                          weight_operand(p, role, y->layer, TRANSPOSED), rows_of(p), x->width, y->width, rounds(p));
    end_operation(p, OP_LINEAR_BACK);
    if (!residual) return;
    residual_add(gradients(p, x), gradients(p, residual), rows_of(p) * x->width);
    end_operation(p, OP_RESIDUAL_BACK);
}

/* Returns the strip of a weight's gradient that this thread computes. The weights of a block follow each other in the
   parameters, and each thread has an equal part of them all: a wide strip of one weight, or strips of two. In a narrow
   strip of each weight, a thread would compute less from every row that its products pack. */
static Tile own_strip(const Part *p, TensorRole role, size_t layer) {
    const TensorTable *table = &p->m->tensors;
    const Tensor *t = tensor_find(table, role, layer), *last = tensor_find(table, MLP_PROJ_W, layer);
    const size_t first = tensor_find(table, ATTN_W, layer)->offset, at = t->offset - first;
    const Range own = range_split(last->offset + last->count - first, 1, p->id, p->count);
    return tile_strip(t->size[0], t->size[1], CACHE_LINE, range_within(own, (Range){at, at + t->count}));
}

void op_linear_backward_weight(const Part *p, const Activation *x, const Activation *y, TensorRole role) {
    real *bias = weight_gradient(p, role + 1, y->layer);
    const Operand dy = gradient_from(y, p->shard_rows.begin);
    linear_backward_weight(weight_gradient(p, role, y->layer), operand(x, p->shard_rows.begin), dy, rows_of_shard(p),
                           y->width, own_strip(p, role, y->layer), !begins(p), rounds(p));
    if (bias) linear_backward_bias(bias, dy, rows_of_shard(p), columns_of(p, y->width, role >= LN_2_W));
    end_operation(p, OP_LINEAR_WEIGHTS);
}

static AttentionArrays attention_of(const Part *p, size_t layer) {
    AttentionArrays a = model_attention(p->m, layer, T_of(p));
    a.dropout = dropout_at(p, layer, DROPOUT_ATTENTION_WEIGHTS);
    a.batch_row = p->batch_row;
    a.cached = p->pass->cached;
    return a;
}

void op_attention_forward(const Part *p, const Activation *att) {
    const AttentionArrays a = attention_of(p, att->layer);
    attention_forward(&a, p->pairs, scratch_of(p));
    end_operation(p, OP_ATTENTION);
}

void op_attention_measure(const Part *p, const Activation *att) {
    const AttentionArrays a = attention_of(p, att->layer);
    const size_t T = T_of(p), H = p->m->shape.attention.H;
    if (!p->pass->query_norms) return;
    for (size_t row = p->rows.begin, count; row < p->rows.end; row += count) {
        const size_t first = row % T;
        count = T - first < p->rows.end - row ? T - first : p->rows.end - row;
        if (count > ATTENTION_TILE) count = ATTENTION_TILE;
        for (size_t head = 0; head < H; head++) {
            const size_t at = (att->layer * H + head) * rows_of_shard(p) + row;
            attention_gradient_norms(&a, row / T * H + head, att->gradient, first, count, p->pass->query_norms + at,
                                     p->pass->score_norms + at, scratch_of(p));
        }
    }
}

void op_attention_backward(const Part *p, const Activation *att) {
    const AttentionArrays a = attention_of(p, att->layer);
    attention_backward(&a, p->pairs, att->gradient, scratch_of(p));
    end_operation(p, OP_ATTENTION_BACK);
}

/* One thread of the shard adds up all its partial gradients: they are too few to be split among threads. */
void op_attention_parameters_backward(const Part *p, const Activation *att) {
    const size_t H = p->m->shape.attention.H;
    const Range pairs = {p->shard_rows.begin / T_of(p) * H, p->shard_rows.end / T_of(p) * H};
    const AttentionArrays a = attention_of(p, att->layer);
    real *own[ATTENTION_PARAMETERS];
    if (p->id != 0 || attention_partials(a.attention) == 0) return;
    for (AttentionParameter i = 0; i < ATTENTION_PARAMETERS; i++)
        own[i] = weight_gradient(p, attention_role(i), att->layer);
    attention_parameters_backward(&a, pairs, own);
    end_operation(p, OP_ATTENTION_BACK);
}

void op_hidden_forward(const Part *p, const Activation *act, const Activation *fc, const Activation *x) {
    const bool with_backward = p->pass->with_backward;
    const size_t F = fc->width;
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        n = rows_at_once(p, fc->values, r);
        real *in = computed(p, fc->values, r, F), *out = act->values ? act->values + r * F : in + n * F;
        const size_t step = fc->values ? n : 1; /* a row that is rounded next stays in the first-level cache */
        linear_forward(in, operand(x, r), weight_operand(p, FC_W, fc->layer, PLAIN), weight(p, FC_B, fc->layer), n,
                       x->width, F, rounds(p));
        end_operation(p, OP_LINEAR);
        for (size_t i = 0; i < n; i += step) {
            real *z = in + i * F;
            ACTIVATIONS[p->m->shape.activation].forward(out, with_backward ? z : NULL, z, step * F);
            operand_keep(operand(act, r + i), out, F, 1, F);
            if (with_backward) operand_keep(operand(fc, r + i), z, F, 1, F);
        }
        end_operation(p, OP_ACTIVATION);
    }
}

void op_hidden_backward(const Part *p, const Activation *fc, const Activation *proj) {
    const size_t F = fc->width;
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        n = rows_at_once(p, fc->values, r);
        real *dx = computed(p, fc->gradient, r, F), *derivative = fc->values ? fc->values + r * F : dx + n * F;
        const size_t step = fc->values ? n : 1;
        linear_backward_input(dx, gradient_from(proj, r), weight_operand(p, MLP_PROJ_W, proj->layer, TRANSPOSED), n, F,
                              proj->width, rounds(p));
        end_operation(p, OP_LINEAR_BACK);
        for (size_t i = 0; i < n; i += step) {
            real *dz = dx + i * F;
            if (!fc->values) operand_read(derivative, F, operand(fc, r + i), 1, F);
            activation_backward(dz, dz, derivative, step * F);
            operand_keep(gradient_from(fc, r + i), dz, F, 1, F);
        }
        end_operation(p, OP_ACTIVATION_BACK);
    }
}

void op_residual_forward(const Part *p, const Activation *res, const Activation *x, const Activation *proj,
                         DropoutSite site) {
    const Dropout dropout = dropout_at(p, res->layer, site);
    dropout_rows(values(p, res), values(p, proj), values(p, x), &dropout, p->batch_row + p->rows.begin, rows_of(p),
                 res->width);
    end_operation(p, OP_RESIDUAL);
}

void op_dropout_backward(const Part *p, const Activation *x, const Activation *y, DropoutSite site) {
    const Dropout dropout = dropout_at(p, y->layer, site);
    dropout_rows(gradients(p, x), gradients(p, y), NULL, &dropout, p->batch_row + p->rows.begin, rows_of(p), y->width);
    end_operation(p, OP_RESIDUAL_BACK);
}

/* The logits are x W^T, with W (V,C): the token embedding when tied. So the forward pass is the product by
   which a linear layer with weight W gets the gradient of its input (dy W^T), and the gradient of x is that layer's
   forward pass. Plain: plain_logits_forward, plain_logits_backward. */
void op_unembedding_forward(const Part *p, const Activation *x) {
    const Activation *logits = &p->m->logits;
    linear_backward_input(values(p, logits), operand(x, p->rows.begin),
                          weight_operand(p, output_role(&p->m->shape), 0, TRANSPOSED), rows_of(p), logits->width,
                          x->width, rounds(p));
    end_operation(p, OP_LOGITS);
}

void op_unembedding_backward_input(const Part *p, const Activation *x) {
    const Activation *logits = &p->m->logits;
    linear_forward(gradients(p, x), gradient_from(logits, p->rows.begin),
                   weight_operand(p, output_role(&p->m->shape), 0, PLAIN), NULL, rows_of(p), logits->width, x->width,
                   rounds(p));
    end_operation(p, OP_LOGITS_BACK);
}

void op_unembedding_backward_weight(const Part *p, const Activation *x) {
    const Activation *logits = &p->m->logits;
    linear_backward_weight(
        weight_gradient(p, output_role(&p->m->shape), 0), gradient_from(logits, p->shard_rows.begin),
        operand(x, p->shard_rows.begin), rows_of_shard(p), x->width,
        tile_strip(logits->width, x->width, CACHE_LINE, range_split(logits->width * x->width, 1, p->id, p->count)),
        true, rounds(p));
    end_operation(p, OP_LOGITS_BACK);
}

void op_cross_entropy_forward(const Part *p) {
    const Model *m = p->m;
    const size_t first = p->rows.begin;
    if (targets_of(p))
        cross_entropy_forward(m->losses + p->batch_row + first, m->sums + first, values(p, &m->logits),
                              targets_of(p) + first, rows_of(p), m->logits.width);
    end_operation(p, OP_LOSS);
}

void op_cross_entropy_backward(const Part *p) {
    const Model *m = p->m;
    const size_t first = p->rows.begin;
    cross_entropy_backward(gradients(p, &m->logits), m->sums + first, targets_of(p) + first, p->loss_weight, rows_of(p),
                           m->logits.width);
    end_operation(p, OP_LOSS_BACK);
}
