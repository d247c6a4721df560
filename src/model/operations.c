/* The operations of worker.h. Each takes from the model the arrays that one function of ops/ or of attention.h needs,
   and calls it on this thread's rows or its strip of a weight, since ops/ knows neither the model nor threads. In the
   forward pass and in the gradients of activations, attention alone reads rows of other threads, and only where threads
   share sequences; the gradients of weights are sums over all rows, after a barrier. */
#include <omp.h>

#include "model/worker.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

static bool rounds(const Worker *w) { return w->m->shape.attention.bf16; }
static size_t rows_of(const Worker *w) { return range_size(w->rows); }
static size_t rows_of_shard(const Worker *w) { return range_size(w->shard_rows); }
static size_t T_of(const Worker *w) { return w->slice->batch->T; }

/* The tokens and targets by their row in the arrays; targets may be NULL. */
static const int32_t *tokens_of(const Worker *w) { return w->slice->batch->tokens + w->batch_row; }
static const int32_t *targets_of(const Worker *w) {
    const int32_t *targets = w->slice->batch->targets;
    return targets ? targets + w->batch_row : NULL;
}

static real *values(const Worker *w, const Activation *a) { return a->values + w->rows.begin * a->width; }
static real *gradients(const Worker *w, const Activation *a) { return a->gradient + w->rows.begin * a->width; }

/* The first of the shard's rows. */
static real *shard_values(const Worker *w, const Activation *a) { return a->values + w->shard_rows.begin * a->width; }
static real *shard_gradients(const Worker *w, const Activation *a) {
    return a->gradient + w->shard_rows.begin * a->width;
}

/* A row of an activation, or of a gradient, that is kept in bf16. */
static Bf16 *kept(const Activation *a, size_t row) { return a->kept + row * bf16_stride(a->width); }
static Bf16 *kept_gradient(const Activation *a, size_t row) { return a->kept_gradient + row * bf16_stride(a->width); }

/* Return an activation, or a gradient, from a row on, as products read it. */
static Operand operand(const Activation *x, size_t row) {
    if (x->kept) return (Operand){kept(x, row), bf16_stride(x->width), FORM_BF16};
    return (Operand){x->values + row * x->width, x->width, FORM_REAL};
}
static Operand gradient_operand(const Activation *y, size_t row) {
    if (y->kept_gradient) return (Operand){kept_gradient(y, row), bf16_stride(y->width), FORM_BF16};
    return (Operand){y->gradient + row * y->width, y->width, FORM_REAL};
}

/* This thread's scratch: for attention, or for rows that are computed and then kept in bf16. */
static real *scratch_of(const Worker *w) { return w->m->scratch + (size_t)omp_get_thread_num() * w->m->scratch_size; }

/* Rows of an activation that may be kept in bf16 are computed a few at a time, so that they are still in a cache when
   they are rounded. Returns how many from `row` on; all where `reals`, their array, is not NULL. */
static size_t rows_at_once(const Worker *w, const real *reals, size_t row) {
    const size_t left = w->rows.end - row;
    return reals || left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
}
/* Returns where rows from `row` on are computed: in their array, or else in scratch. */
static real *computed(const Worker *w, real *reals, size_t row, size_t width) {
    return reals ? reals + row * width : scratch_of(w);
}
/* Rounds n computed rows into an array of bf16, unless that is NULL. */
static void keep(Bf16 *kept, const real *x, size_t row, size_t n, size_t width) {
    if (kept) bf16_round(kept + row * bf16_stride(width), bf16_stride(width), x, width, n, width);
}

/* A whole parameter tensor and its gradient; NULL when the model has no such tensor. */
static real *weight(const Worker *w, TensorRole role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->parameters, role, layer);
}
static real *weight_gradient(const Worker *w, TensorRole role, size_t layer) {
    return tensor_at(&w->m->tensors, w->gradients, role, layer);
}

/* A weight as the right operand of products: packed, or for OpenBLAS as it is. */
static Operand weight_operand(const Worker *w, TensorRole role, size_t layer, Orientation as) {
    const Tensor *t = tensor_find(&w->m->tensors, role, layer);
    if (t->packed[as]) return (Operand){t->packed[as], 0, FORM_PACKED};
    return (Operand){w->m->parameters + t->offset, t->width, FORM_REAL};
}

void start_clock(const Worker *w) {
    if (!w->m->profiles) return;
    Profile *p = &w->m->profiles[omp_get_thread_num()];
    p->last = omp_get_wtime();
    p->last_packed = matmul_packed_bytes();
}

void end_operation(const Worker *w, PassOperation op) {
    if (!w->m->profiles) return;
    Profile *p = &w->m->profiles[omp_get_thread_num()];
    const double now = omp_get_wtime();
    const size_t packed = matmul_packed_bytes();
    p->seconds[op] += now - p->last;
    p->packed[op] += packed - p->last_packed;
    p->last = now;
    p->last_packed = packed;
}

/* The threads of all shards wait for each other, which is no error: shards have as many threads each, and come to the
   same barriers. */
void barrier(const Worker *w) {
    if (w->count == 1) return;
#pragma omp barrier
    end_operation(w, OP_WAIT);
}

static Dropout dropout_at(const Worker *w, size_t layer, DropoutSite site) {
    const Pass *p = w->slice->pass;
    return dropout_make(p->training ? w->m->shape.dropout : 0, p->seed, p->micro_step, (uint32_t)(3 * layer) + site);
}

/* Threads take panels in turns, one weight's after another's, since a weight may have fewer panels than there are
   threads. */
void op_pack_weights(const Worker *w) {
    const TensorTable *table = &w->m->tensors;
    size_t panels = 0; /* of the weights before */
    for (size_t i = 0; i < 2 * table->count; i++) {
        const Tensor *t = &table->items[i / 2];
        const Orientation as = i % 2 ? TRANSPOSED : PLAIN;
        const Product product = {.op_b = as,
                                 .n = t->size[as == PLAIN],
                                 .k = t->size[as == TRANSPOSED],
                                 .b = {w->m->parameters + t->offset, t->width, FORM_REAL},
                                 .rounds = rounds(w)};
        const Range own = range_split(product.n, PACKED_COLUMNS, (w->id + panels) % w->count, w->count);
        if (!t->packed[as]) continue;
        matmul_pack(&product, own, t->packed[as]);
        panels += (product.n + PACKED_COLUMNS - 1) / PACKED_COLUMNS;
    }
    end_operation(w, OP_PACK);
}

void op_embedding_forward(const Worker *w, const Activation *x) {
    const Dropout dropout = dropout_at(w, 0, DROPOUT_EMBEDDING);
    embedding_forward(x->values, tokens_of(w), weight(w, WTE, 0), weight(w, WPE, 0), T_of(w), x->width, w->rows);
    dropout_rows(values(w, x), values(w, x), NULL, &dropout, w->batch_row + w->rows.begin, rows_of(w), x->width);
    end_operation(w, OP_EMBEDDING);
}

void op_embedding_backward(const Worker *w, const Activation *x) {
    const Dropout dropout = dropout_at(w, 0, DROPOUT_EMBEDDING);
    dropout_rows(gradients(w, x), gradients(w, x), NULL, &dropout, w->batch_row + w->rows.begin, rows_of(w), x->width);
    end_operation(w, OP_EMBEDDING_BACK);
    barrier(w);
    embedding_backward(weight_gradient(w, WTE, 0), weight_gradient(w, WPE, 0), shard_gradients(w, x),
                       tokens_of(w) + w->shard_rows.begin, rows_of_shard(w), T_of(w), x->width,
                       columns_of(w, x->width, false), columns_of(w, x->width, true));
    end_operation(w, OP_EMBEDDING_BACK);
}

void op_layernorm_forward(const Worker *w, const LayerNorm *ln, const Activation *x, TensorRole role) {
    const Activation *y = &ln->y;
    for (size_t r = w->rows.begin, n; r < w->rows.end; r += n) {
        real *out = computed(w, y->values, r, y->width);
        n = rows_at_once(w, y->values, r);
        layernorm_forward(out, ln->mean + r, ln->rstd + r, x->values + r * x->width, weight(w, role, y->layer),
                          weight(w, role + 1, y->layer), n, x->width);
        keep(y->kept, out, r, n, y->width);
    }
    end_operation(w, OP_LAYERNORM);
}

void op_layernorm_backward_input(const Worker *w, const Activation *x, const LayerNorm *ln, TensorRole role,
                                 const Activation *residual) {
    layernorm_backward_input(gradients(w, x), residual ? gradients(w, residual) : NULL, gradients(w, &ln->y),
                             values(w, x), weight(w, role, ln->y.layer), ln->mean + w->rows.begin,
                             ln->rstd + w->rows.begin, rows_of(w), x->width);
    end_operation(w, OP_LAYERNORM_BACK);
}

void op_layernorm_backward_weight(const Worker *w, const Activation *x, const LayerNorm *ln, TensorRole role) {
    layernorm_backward_weight(weight_gradient(w, role, ln->y.layer), weight_gradient(w, role + 1, ln->y.layer),
                              shard_gradients(w, &ln->y), shard_values(w, x), ln->mean + w->shard_rows.begin,
                              ln->rstd + w->shard_rows.begin, rows_of_shard(w), x->width,
                              columns_of(w, x->width, role >= LN_2_W));
    end_operation(w, OP_LAYERNORM_BACK);
}

/* Computes n rows of y = x W + b from row r on. */
static void linear_rows(const Worker *w, real *out, const Activation *y, const Activation *x, TensorRole role, size_t r,
                        size_t n) {
    linear_forward(out, operand(x, r), weight_operand(w, role, y->layer, PLAIN), weight(w, role + 1, y->layer), n,
                   x->width, y->width, rounds(w));
    end_operation(w, OP_LINEAR);
}

void op_linear_forward(const Worker *w, const Activation *y, const Activation *x, TensorRole role) {
    for (size_t r = w->rows.begin, n; r < w->rows.end; r += n) {
        real *out = computed(w, y->values, r, y->width);
        n = rows_at_once(w, y->values, r);
        linear_rows(w, out, y, x, role, r, n);
        keep(y->kept, out, r, n, y->width);
    }
    end_operation(w, OP_LINEAR);
}

void op_linear_backward_input(const Worker *w, const Activation *x, const Activation *y, TensorRole role,
                              const Activation *residual) {
    linear_backward_input(gradients(w, x), gradient_operand(y, w->rows.begin),
                          weight_operand(w, role, y->layer, TRANSPOSED), rows_of(w), x->width, y->width, rounds(w));
    end_operation(w, OP_LINEAR_BACK);
    if (!residual) return;
    residual_add(gradients(w, x), gradients(w, residual), rows_of(w) * x->width);
    end_operation(w, OP_RESIDUAL_BACK);
}

/* Returns the strip of a weight's gradient that this thread computes. The weights of a block follow each other in the
   parameters, and each thread has an equal part of them all: a wide strip of one weight, or strips of two. In a narrow
   strip of each weight, a thread would compute less from every row that its products pack. */
static Tile own_strip(const Worker *w, TensorRole role, size_t layer) {
    const TensorTable *table = &w->m->tensors;
    const Tensor *t = tensor_find(table, role, layer), *last = tensor_find(table, MLP_PROJ_W, layer);
    const size_t first = tensor_find(table, ATTN_W, layer)->offset, at = t->offset - first;
    const Range own = range_split(last->offset + last->count - first, 1, w->id, w->count);
    return tile_strip(t->size[0], t->size[1], CACHE_LINE, range_within(own, (Range){at, at + t->count}));
}

void op_linear_backward_weight(const Worker *w, const Activation *x, const Activation *y, TensorRole role) {
    real *bias = weight_gradient(w, role + 1, y->layer);
    const Operand dy = gradient_operand(y, w->shard_rows.begin);
    linear_backward_weight(weight_gradient(w, role, y->layer), operand(x, w->shard_rows.begin), dy, rows_of_shard(w),
                           y->width, own_strip(w, role, y->layer), !begins(w), rounds(w));
    if (bias) linear_backward_bias(bias, dy, rows_of_shard(w), columns_of(w, y->width, role > LN_2_W));
    end_operation(w, OP_LINEAR_WEIGHTS);
}

/* Attention reads whole sequences. Where threads split them, it waits before and after for the others' rows. */
static void exchange_rows(const Worker *w) {
    if (w->splits_sequences) barrier(w);
}
static AttentionArrays attention_of(const Worker *w, size_t layer) {
    AttentionArrays a = model_attention(w->m, layer, T_of(w));
    a.dropout = dropout_at(w, layer, DROPOUT_ATTENTION_WEIGHTS);
    a.batch_row = w->batch_row;
    a.cached = w->slice->pass->cached;
    return a;
}

void op_attention_forward(const Worker *w, const Activation *att) {
    const AttentionArrays a = attention_of(w, att->layer);
    exchange_rows(w);
    attention_forward(&a, w->pairs, scratch_of(w));
    end_operation(w, OP_ATTENTION);
    exchange_rows(w);
    end_operation(w, OP_WAIT);
}

/* Measures the gradients of this thread's rows, which those of the next block overwrite. */
static void measure_rows(const Worker *w, const AttentionArrays *a, const Activation *qkv, const Activation *att) {
    const size_t T = T_of(w), H = w->m->shape.attention.H;
    for (size_t row = w->rows.begin, count; row < w->rows.end; row += count) {
        const size_t first = row % T;
        count = T - first < w->rows.end - row ? T - first : w->rows.end - row;
        if (count > ATTENTION_TILE) count = ATTENTION_TILE;
        for (size_t head = 0; head < H; head++) {
            const size_t at = (qkv->layer * H + head) * rows_of_shard(w) + row;
            attention_gradient_norms(a, row / T * H + head, qkv->gradient, att->gradient, first, count,
                                     w->slice->pass->query_norms + at, w->slice->pass->score_norms + at, scratch_of(w));
        }
    }
}

void op_attention_backward(const Worker *w, const Activation *qkv, const Activation *att) {
    const AttentionArrays a = attention_of(w, att->layer);
    exchange_rows(w);
    attention_backward(&a, w->pairs, qkv->gradient, att->gradient, scratch_of(w));
    end_operation(w, OP_ATTENTION_BACK);
    exchange_rows(w);
    end_operation(w, OP_WAIT);
    if (w->slice->pass->query_norms) measure_rows(w, &a, qkv, att);
}

/* One thread of the shard adds up all its partial gradients: they are too few to be split among threads. */
void op_attention_parameters_backward(const Worker *w, const Activation *att) {
    const size_t H = w->m->shape.attention.H;
    const Range pairs = {w->shard_rows.begin / T_of(w) * H, w->shard_rows.end / T_of(w) * H};
    const AttentionArrays a = attention_of(w, att->layer);
    real *own[ATTENTION_PARAMETERS];
    if (w->id != 0 || attention_partials(a.attention) == 0) return;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++)
        own[p] = weight_gradient(w, attention_role(p), att->layer);
    attention_parameters_backward(&a, pairs, own);
    end_operation(w, OP_ATTENTION_BACK);
}

void op_hidden_forward(const Worker *w, const Activation *act, const Activation *fc, const Activation *x) {
    const bool with_backward = w->slice->pass->with_backward;
    const size_t F = fc->width;
    for (size_t r = w->rows.begin, n; r < w->rows.end; r += n) {
        n = rows_at_once(w, fc->values, r);
        real *in = computed(w, fc->values, r, F), *out = act->values ? act->values + r * F : in + n * F;
        const size_t step = fc->kept ? 1 : n; /* a row that is rounded next stays in the first-level cache */
        linear_rows(w, in, fc, x, FC_W, r, n);
        for (size_t i = 0; i < n; i += step) {
            real *z = in + i * F;
            ACTIVATIONS[w->m->shape.activation].forward(out, with_backward ? z : NULL, z, step * F);
            keep(act->kept, out, r + i, 1, F);
            if (with_backward) keep(fc->kept, z, r + i, 1, F);
        }
        end_operation(w, OP_ACTIVATION);
    }
}

void op_hidden_backward(const Worker *w, const Activation *fc, const Activation *proj) {
    const size_t F = fc->width;
    for (size_t r = w->rows.begin, n; r < w->rows.end; r += n) {
        n = rows_at_once(w, fc->values, r);
        real *dx = computed(w, fc->gradient, r, F), *derivative = fc->values ? fc->values + r * F : dx + n * F;
        const size_t step = fc->kept ? 1 : n;
        linear_backward_input(dx, gradient_operand(proj, r), weight_operand(w, MLP_PROJ_W, proj->layer, TRANSPOSED), n,
                              F, proj->width, rounds(w));
        end_operation(w, OP_LINEAR_BACK);
        for (size_t i = 0; i < n; i += step) {
            real *dz = dx + i * F;
            if (fc->kept) bf16_expand(derivative, 0, kept(fc, r + i), 0, 1, F);
            activation_backward(dz, dz, derivative, step * F);
            keep(fc->kept_gradient, dz, r + i, 1, F);
        }
        end_operation(w, OP_ACTIVATION_BACK);
    }
}

void op_residual_forward(const Worker *w, const Activation *res, const Activation *x, const Activation *proj,
                         DropoutSite site) {
    const Dropout dropout = dropout_at(w, res->layer, site);
    dropout_rows(values(w, res), values(w, proj), values(w, x), &dropout, w->batch_row + w->rows.begin, rows_of(w),
                 res->width);
    end_operation(w, OP_RESIDUAL);
}

void op_residual_backward(const Worker *w, const Activation *res, const Activation *proj, DropoutSite site) {
    const Dropout dropout = dropout_at(w, res->layer, site);
    if (proj->gradient != res->gradient) /* the model has dropout */
        dropout_rows(gradients(w, proj), gradients(w, res), NULL, &dropout, w->batch_row + w->rows.begin, rows_of(w),
                     res->width);
    end_operation(w, OP_RESIDUAL_BACK);
}

/* The logits are x W^T, with W (V,C): the token embedding when tied. So the forward pass is the product by
   which a linear layer with weight W gets the gradient of its input (dy W^T), and the gradient of x is that layer's
   forward pass. Plain: plain_logits_forward, plain_logits_backward. */
void op_unembedding_forward(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    linear_backward_input(values(w, logits), operand(x, w->rows.begin),
                          weight_operand(w, output_role(&w->m->shape), 0, TRANSPOSED), rows_of(w), logits->width,
                          x->width, rounds(w));
    end_operation(w, OP_LOGITS);
}

void op_unembedding_backward_input(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    linear_forward(gradients(w, x), gradient_operand(logits, w->rows.begin),
                   weight_operand(w, output_role(&w->m->shape), 0, PLAIN), NULL, rows_of(w), logits->width, x->width,
                   rounds(w));
    end_operation(w, OP_LOGITS_BACK);
}

void op_unembedding_backward_weight(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    linear_backward_weight(
        weight_gradient(w, output_role(&w->m->shape), 0), gradient_operand(logits, w->shard_rows.begin),
        operand(x, w->shard_rows.begin), rows_of_shard(w), x->width,
        tile_strip(logits->width, x->width, CACHE_LINE, range_split(logits->width * x->width, 1, w->id, w->count)),
        true, rounds(w));
    end_operation(w, OP_LOGITS_BACK);
}

void op_cross_entropy_forward(const Worker *w) {
    const Model *m = w->m;
    const size_t first = w->rows.begin;
    if (targets_of(w))
        cross_entropy_forward(m->losses + w->batch_row + first, m->sums + first, values(w, &m->logits),
                              targets_of(w) + first, rows_of(w), m->logits.width);
    end_operation(w, OP_LOSS);
}

void op_cross_entropy_backward(const Worker *w) {
    const Model *m = w->m;
    const size_t first = w->rows.begin;
    cross_entropy_backward(gradients(w, &m->logits), m->sums + first, targets_of(w) + first, w->slice->loss_weight,
                           rows_of(w), m->logits.width);
    end_operation(w, OP_LOSS_BACK);
}
