/* The operations of operations.h. Each takes from the model the arrays that a function of ops/ or of attention.h, or a
   product, needs, and calls it on this thread's rows or its strip of a weight: ops/ knows neither the model nor
   threads. In the forward pass and in the gradients of activations, attention alone reads rows of other threads, and
   only where threads share sequences; the gradients of weights are sums over all rows, after a barrier. */
#include <omp.h>

#include "gemm/bf16.h"
#include "model/operations.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"

_Static_assert((int)ACTIVATION_ROWS == (int)ACTIVATION_COUNT, "add the activation function to src/ops/activation.c");

static Form form_of(const Part *p) { return attention_form(&p->m->shape.attention); }
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
   cache when they are rounded. Returns how many from `row` on; all, so that a loop makes one turn, where `reals`, their
   array, is not NULL. */
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

/* y (rows, n) = x (rows, k) W + bias (n), or with TRANSPOSED x W^T. The weight is packed, or for OpenBLAS as it is. */
static void multiply_rows(const Part *p, real *y, Operand x, TensorRole role, size_t layer, Orientation as,
                          const real *bias, size_t rows) {
    const Tensor *t = tensor_find(&p->m->tensors, role, layer);
    const size_t n = t->size[as == PLAIN], k = t->size[as == TRANSPOSED];
    const Operand packed = {t->packed[as], 0, FORM_PACKED}, w = {p->m->parameters + t->offset, t->width, form_of(p)};
    const Product product = {.op_b = as,
                             .m = rows,
                             .n = n,
                             .k = k,
                             .a = x,
                             .b = t->packed[as] ? packed : w,
                             .ldc = n,
                             .alpha = 1,
                             .bias = bias};
    matmul_product(&product, y);
}

/* A strip of dW (., width) = x^T dy over the rows of the shard, or dW plus that. Threads split the strips, so that each
   entry is one sum over all rows in one order. */
static void multiply_columns(const Part *p, real *dw, Operand x, Operand dy, size_t width, Tile strip, bool adds) {
    const size_t row = strip.rows.begin, column = strip.columns.begin;
    const Product product = {.op_a = TRANSPOSED,
                             .m = range_size(strip.rows),
                             .n = range_size(strip.columns),
                             .k = rows_of_shard(p),
                             .a = operand_from(x, p->shard_rows.begin, row),
                             .b = operand_from(dy, p->shard_rows.begin, column),
                             .accumulate = adds,
                             .ldc = width,
                             .alpha = 1};
    matmul_product(&product, dw + row * width + column);
}

static Dropout dropout_at(const Part *p, size_t layer, DropoutSite site) {
    const Pass *pass = p->pass;
    const double probability = pass->training ? p->m->shape.dropout : 0;
    return dropout_make(probability, pass->seed, pass->micro_step, (uint32_t)(3 * layer) + site);
}

/* Threads take panels in turns, one weight's after another's, since a weight may have fewer panels than there are
   threads. */
void pack_weights(const Part *p) {
    const TensorTable *table = &p->m->tensors;
    size_t panels = 0; /* of the weights before */
    for (size_t i = 0; i < 2 * table->count; i++) {
        const Tensor *t = &table->items[i / 2];
        const Orientation as = i % 2 ? TRANSPOSED : PLAIN;
        const Product product = {.op_b = as,
                                 .n = t->size[as == PLAIN],
                                 .k = t->size[as == TRANSPOSED],
                                 .b = {p->m->parameters + t->offset, t->width, form_of(p)}};
        const Range own = range_split(product.n, PACKED_COLUMNS, (p->id + panels) % p->count, p->count);
        if (!t->packed[as]) continue;
        matmul_pack(&product, own, t->packed[as]);
        panels += (product.n + PACKED_COLUMNS - 1) / PACKED_COLUMNS;
    }
    operation_ended(p->m, __func__);
}

void embedding_forward(const Part *p, const Activation *x) {
    const Dropout dropout = dropout_at(p, 0, DROPOUT_EMBEDDING);
    embedding_rows(x->values, tokens_of(p), weight(p, WTE, 0), weight(p, WPE, 0), T_of(p), x->width, p->rows);
    dropout_rows(values(p, x), values(p, x), NULL, &dropout, p->batch_row + p->rows.begin, rows_of(p), x->width);
    operation_ended(p->m, __func__);
}

void embedding_backward(const Part *p, const Activation *x) {
    embedding_rows_backward(weight_gradient(p, WTE, 0), weight_gradient(p, WPE, 0), shard_gradients(p, x),
                            tokens_of(p) + p->shard_rows.begin, rows_of_shard(p), T_of(p), x->width,
                            columns_of(p, x->width, false), columns_of(p, x->width, true));
    operation_ended(p->m, __func__);
}

void layernorm_forward(const Part *p, const LayerNorm *ln, const Activation *x, TensorRole role) {
    const Activation *y = &ln->y;
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        real *out = computed(p, y->values, r, y->width);
        n = rows_at_once(p, y->values, r);
        layernorm_rows(out, ln->mean + r, ln->rstd + r, x->values + r * x->width, weight(p, role, y->layer),
                       weight(p, role + 1, y->layer), n, x->width);
        operand_keep(operand(y, r), out, y->width, n, y->width);
    }
    operation_ended(p->m, __func__);
}

void layernorm_backward_input(const Part *p, const Activation *x, const LayerNorm *ln, TensorRole role,
                              const Activation *residual) {
    layernorm_rows_backward(gradients(p, x), residual ? gradients(p, residual) : NULL, gradients(p, &ln->y),
                            values(p, x), weight(p, role, ln->y.layer), ln->mean + p->rows.begin,
                            ln->rstd + p->rows.begin, rows_of(p), x->width);
    operation_ended(p->m, __func__);
}

void layernorm_backward_weight(const Part *p, const Activation *x, const LayerNorm *ln, TensorRole role) {
    layernorm_gain_backward(weight_gradient(p, role, ln->y.layer), weight_gradient(p, role + 1, ln->y.layer),
                            shard_gradients(p, &ln->y), shard_values(p, x), ln->mean + p->shard_rows.begin,
                            ln->rstd + p->shard_rows.begin, rows_of_shard(p), x->width,
                            columns_of(p, x->width, role >= LN_2_W));
    operation_ended(p->m, __func__);
}

void linear_forward(const Part *p, const Activation *y, const Activation *x, TensorRole role) {
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        real *out = computed(p, y->values, r, y->width);
        n = rows_at_once(p, y->values, r);
        multiply_rows(p, out, operand(x, r), role, y->layer, PLAIN, weight(p, role + 1, y->layer), n);
        operand_keep(operand(y, r), out, y->width, n, y->width);
    }
    operation_ended(p->m, __func__);
}

void linear_backward_input(const Part *p, const Activation *x, const Activation *y, TensorRole role) {
    multiply_rows(p, gradients(p, x), gradient_from(y, p->rows.begin), role, y->layer, TRANSPOSED, NULL, rows_of(p));
    operation_ended(p->m, __func__);
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

void linear_backward_weight(const Part *p, const Activation *x, const Activation *y, TensorRole role) {
    real *bias = weight_gradient(p, role + 1, y->layer);
    const Range columns = columns_of(p, y->width, role >= LN_2_W);
    multiply_columns(p, weight_gradient(p, role, y->layer), activation_operand(x), gradient_operand(y), y->width,
                     own_strip(p, role, y->layer), !is_first_slice(p));
    if (bias) operand_sum_rows(bias, gradient_from(y, p->shard_rows.begin), rows_of_shard(p), columns);
    operation_ended(p->m, __func__);
}

static AttentionArrays attention_of(const Part *p, size_t layer) {
    AttentionArrays a = model_attention(p->m, layer, T_of(p));
    a.dropout = dropout_at(p, layer, DROPOUT_ATTENTION_WEIGHTS);
    a.batch_row = p->batch_row;
    a.cached = p->pass->cached;
    return a;
}

void attention_forward(const Part *p, const Activation *att) {
    const AttentionArrays a = attention_of(p, att->layer);
    attention_pairs_forward(&a, p->pairs, scratch_of(p));
    operation_ended(p->m, __func__);
}

void attention_measure(const Part *p, const Activation *att) {
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

void attention_backward(const Part *p, const Activation *att) {
    const AttentionArrays a = attention_of(p, att->layer);
    attention_pairs_backward(&a, p->pairs, att->gradient, scratch_of(p));
    operation_ended(p->m, __func__);
}

/* One thread of the shard adds up all its partial gradients: they are too few to be split among threads. */
void attention_parameters_backward(const Part *p, const Activation *att) {
    const size_t H = p->m->shape.attention.H;
    const Range pairs = {p->shard_rows.begin / T_of(p) * H, p->shard_rows.end / T_of(p) * H};
    const AttentionArrays a = attention_of(p, att->layer);
    real *own[ATTENTION_PARAMETERS];
    if (p->id != 0 || attention_partials(a.attention) == 0) return;
    for (AttentionParameter i = 0; i < ATTENTION_PARAMETERS; i++)
        own[i] = weight_gradient(p, attention_role(i), att->layer);
    attention_partials_add(&a, pairs, own);
    operation_ended(p->m, __func__);
}

void hidden_forward(const Part *p, const Activation *act, const Activation *fc, const Activation *x) {
    const bool with_backward = p->pass->with_backward;
    const size_t F = fc->width;
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        n = rows_at_once(p, fc->values, r);
        real *in = computed(p, fc->values, r, F), *out = act->values ? act->values + r * F : in + n * F;
        const size_t step = fc->values ? n : 1; /* a row that is rounded next stays in the first-level cache */
        multiply_rows(p, in, operand(x, r), FC_W, fc->layer, PLAIN, weight(p, FC_B, fc->layer), n);
        operation_ended(p->m, "linear_forward");
        for (size_t i = 0; i < n; i += step) {
            real *z = in + i * F;
            ACTIVATIONS[p->m->shape.activation].forward(out, with_backward ? z : NULL, z, step * F);
            operand_keep(operand(act, r + i), out, F, 1, F);
            if (with_backward) operand_keep(operand(fc, r + i), z, F, 1, F);
        }
        operation_ended(p->m, __func__);
    }
}

void hidden_backward(const Part *p, const Activation *fc, const Activation *proj) {
    const size_t F = fc->width;
    for (size_t r = p->rows.begin, n; r < p->rows.end; r += n) {
        n = rows_at_once(p, fc->values, r);
        real *dx = computed(p, fc->gradient, r, F), *derivative = fc->values ? fc->values + r * F : dx + n * F;
        const size_t step = fc->values ? n : 1;
        multiply_rows(p, dx, gradient_from(proj, r), MLP_PROJ_W, proj->layer, TRANSPOSED, NULL, n);
        operation_ended(p->m, "linear_backward_input");
        for (size_t i = 0; i < n; i += step) {
            real *dz = dx + i * F;
            if (!fc->values) operand_read(derivative, F, operand(fc, r + i), 1, F);
            activation_backward(dz, dz, derivative, step * F);
            operand_keep(gradient_from(fc, r + i), dz, F, 1, F);
        }
        operation_ended(p->m, __func__);
    }
}

void residual_forward(const Part *p, const Activation *res, const Activation *x, const Activation *proj,
                      DropoutSite site) {
    const Dropout dropout = dropout_at(p, res->layer, site);
    dropout_rows(values(p, res), values(p, proj), values(p, x), &dropout, p->batch_row + p->rows.begin, rows_of(p),
                 res->width);
    operation_ended(p->m, __func__);
}

void residual_backward(const Part *p, const Activation *x, const Activation *res) {
    residual_add(gradients(p, x), gradients(p, res), rows_of(p) * x->width);
    operation_ended(p->m, __func__);
}

void dropout_backward(const Part *p, const Activation *x, const Activation *y, DropoutSite site) {
    const Dropout dropout = dropout_at(p, y->layer, site);
    dropout_rows(gradients(p, x), gradients(p, y), NULL, &dropout, p->batch_row + p->rows.begin, rows_of(p), y->width);
    operation_ended(p->m, __func__);
}

/* The logits are x W^T, with W (V,C): the token embedding when tied. So a linear layer's forward pass and the gradient
   of its input have changed places. */
void logits_forward(const Part *p, const Activation *x) {
    multiply_rows(p, values(p, &p->m->logits), operand(x, p->rows.begin), output_role(&p->m->shape), 0, TRANSPOSED,
                  NULL, rows_of(p));
    operation_ended(p->m, __func__);
}

void logits_backward_input(const Part *p, const Activation *x) {
    multiply_rows(p, gradients(p, x), gradient_from(&p->m->logits, p->rows.begin), output_role(&p->m->shape), 0, PLAIN,
                  NULL, rows_of(p));
    operation_ended(p->m, __func__);
}

void logits_backward_weight(const Part *p, const Activation *x) {
    const Activation *logits = &p->m->logits;
    const Range own = range_split(logits->width * x->width, 1, p->id, p->count);
    multiply_columns(p, weight_gradient(p, output_role(&p->m->shape), 0), gradient_operand(logits),
                     activation_operand(x), x->width, tile_strip(logits->width, x->width, CACHE_LINE, own), true);
    operation_ended(p->m, __func__);
}

void cross_entropy_forward(const Part *p) {
    const Model *m = p->m;
    const size_t first = p->rows.begin;
    if (targets_of(p))
        cross_entropy_rows(m->losses + p->batch_row + first, m->sums + first, values(p, &m->logits),
                           targets_of(p) + first, rows_of(p), m->logits.width);
    operation_ended(p->m, __func__);
}

void cross_entropy_backward(const Part *p) {
    const Model *m = p->m;
    const size_t first = p->rows.begin;
    cross_entropy_rows_backward(gradients(p, &m->logits), m->sums + first, targets_of(p) + first, p->loss_weight,
                                rows_of(p), m->logits.width);
    operation_ended(p->m, __func__);
}
