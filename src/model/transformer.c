#include "model/transformer.h"

#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/range.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

/* What one thread knows during a pass. */
typedef struct {
    Model *m;
    const Batch *batch;
    size_t id, count; /* this thread and how many there are */
    Range rows;       /* its rows of (B,T) */
    Range heads;      /* its (sequence, head) pairs */
    bool shares;      /* sequences are cut: attention reads rows of other threads */
    bool training;    /* with dropout */
    bool returns;     /* a backward pass follows */
    uint64_t seed, micro_step;
} Worker;

enum { LINE = 16 }; /* columns to a cache line: threads split gradients at multiples of it */

static Worker worker_make(Model *m, const Batch *batch, bool training, uint64_t seed, uint64_t micro_step) {
    size_t id = (size_t)omp_get_thread_num(), count = (size_t)omp_get_num_threads();
    Worker w = {.m = m,
                .batch = batch,
                .id = id,
                .count = count,
                .training = training,
                .seed = seed,
                .micro_step = micro_step,
                .shares = batch->B < count && count > 1};
    Range sequences = range_split(batch->B, 1, id, count);
    if (w.shares) {
        w.rows = range_split(batch->B * batch->T, 1, id, count);
        w.heads = range_split(batch->B * m->shape.H, 1, id, count);
    } else {
        w.rows = (Range){sequences.begin * batch->T, sequences.end * batch->T};
        w.heads = (Range){sequences.begin * m->shape.H, sequences.end * m->shape.H};
    }
    return w;
}

/* What this thread did since the last lap was `work`. */
static void lap(const Worker *w, Work work) {
    if (!w->m->stopwatches) return;
    Stopwatch *watch = &w->m->stopwatches[w->id];
    double now = omp_get_wtime();
    if (work != OP_COUNT) watch->seconds[work] += now - watch->last;
    watch->last = now;
}
static void start_lap(const Worker *w) { lap(w, OP_COUNT); }

static void barrier(const Worker *w) {
#pragma omp barrier
    lap(w, OP_WAIT);
}

/* Before and after attention, rows change hands if sequences are cut between threads. */
static void exchange_rows(const Worker *w) {
    if (w->shares) barrier(w);
}

static Range columns_of(const Worker *w, size_t columns) { return range_split(columns, LINE, w->id, w->count); }

static real *weight(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->parameters, role, layer);
}
static real *gradient(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->gradients, role, layer);
}

/* Shows this thread's rows of an activation, or of its gradient, to the model's tap. */
static void tap(const Worker *w, Place place, size_t layer, bool backward, real *array, size_t width) {
    const Tap *t = w->m->tap;
    if (t)
        t->look(t->context, &(TapView){.place = place,
                                       .layer = layer,
                                       .backward = backward,
                                       .values = array + w->rows.begin * width,
                                       .first = w->rows.begin,
                                       .rows = range_size(w->rows),
                                       .width = width});
}
static void tap_forward(const Worker *w, Place place, size_t layer, real *activation, size_t width) {
    tap(w, place, layer, false, activation, width);
}
static void tap_backward(const Worker *w, Place place, size_t layer, real *gradient_of_it, size_t width) {
    tap(w, place, layer, true, gradient_of_it, width);
}

/* Places of dropout: 0 the embeddings, then three a layer. */
static Dropout dropout_at(const Worker *w, uint32_t site) {
    return dropout_make(w->training ? w->m->shape.dropout : 0, w->seed, w->micro_step, site);
}
static Dropout weights_dropout(const Worker *w, size_t layer) { return dropout_at(w, (uint32_t)(3 * layer + 1)); }
static Dropout attention_dropout(const Worker *w, size_t layer) { return dropout_at(w, (uint32_t)(3 * layer + 2)); }
static Dropout mlp_dropout(const Worker *w, size_t layer) { return dropout_at(w, (uint32_t)(3 * layer + 3)); }

/* This thread's rows through a linear layer, a LayerNorm, a residual connection. */
static void linear_rows(const Worker *w, real *y, const real *x, Role weight_role, Role bias_role, size_t layer,
                        size_t in, size_t out) {
    linear_forward(y + w->rows.begin * out, x + w->rows.begin * in, weight(w, weight_role, layer),
                   weight(w, bias_role, layer), range_size(w->rows), in, out);
    lap(w, OP_LINEAR);
}

static void layernorm_rows(const Worker *w, real *y, real *mean, real *rstd, const real *x, Role gamma, Role beta,
                           size_t layer) {
    size_t C = w->m->shape.C, at = w->rows.begin;
    layernorm_forward(y + at * C, mean + at, rstd + at, x + at * C, weight(w, gamma, layer), weight(w, beta, layer),
                      range_size(w->rows), C);
    lap(w, OP_LAYERNORM);
}

/* y = x + dropout(y) */
static void residual_rows(const Worker *w, real *y, const real *x, const Dropout *dropout) {
    size_t C = w->m->shape.C, at = w->rows.begin * C;
    dropout_rows(y + at, y + at, x + at, dropout, w->rows.begin, range_size(w->rows), C);
    lap(w, OP_RESIDUAL);
}

static AttentionShape attention_shape(const Worker *w, size_t layer, size_t pair) {
    const ModelShape *s = &w->m->shape;
    size_t HD = s->H * s->D;
    return (AttentionShape){.T = w->batch->T,
                            .D = s->D,
                            .stride = 3 * HD,
                            .out_stride = HD,
                            .multiplier = s->multiplier,
                            .dropout = weights_dropout(w, layer),
                            .dropout_row = (uint64_t)pair * w->batch->T};
}

static void attention_rows(const Worker *w, const BlockActivations *a, size_t layer) {
    const ModelShape *s = &w->m->shape;
    size_t T = w->batch->T, HD = s->H * s->D;
    exchange_rows(w);
    for (size_t pair = w->heads.begin; pair < w->heads.end; pair++) {
        size_t sequence = pair / s->H, head = pair % s->H;
        const real *q = a->qkv + sequence * T * 3 * HD + head * s->D;
        AttentionShape shape = attention_shape(w, layer, pair);
        attention_forward(a->att + sequence * T * HD + head * s->D, a->row_max + pair * T, a->row_sum + pair * T, q,
                          q + HD, q + 2 * HD, &shape, w->m->scratch + w->id * attention_scratch(s->T));
    }
    lap(w, OP_ATTENTION);
    exchange_rows(w);
}

/* Returns the block's output. */
static real *block_forward(const Worker *w, size_t layer, real *x) {
    const ModelShape *s = &w->m->shape;
    const BlockActivations *a = &w->m->blocks[layer];
    size_t C = s->C, HD = s->H * s->D, F = s->F;
    Dropout after_attention = attention_dropout(w, layer), after_mlp = mlp_dropout(w, layer);

    tap_forward(w, PLACE_X, layer, x, C);
    if (s->pre_norm) {
        layernorm_rows(w, a->ln_1, a->mean_1, a->rstd_1, x, LN_1_W, LN_1_B, layer);
        tap_forward(w, PLACE_LN_1, layer, a->ln_1, C);
    }
    linear_rows(w, a->qkv, s->pre_norm ? a->ln_1 : x, ATTN_W, ATTN_B, layer, C, 3 * HD);
    tap_forward(w, PLACE_QKV, layer, a->qkv, 3 * HD);
    attention_rows(w, a, layer);
    tap_forward(w, PLACE_ATT, layer, a->att, HD);
    linear_rows(w, a->res_1, a->att, ATTN_PROJ_W, ATTN_PROJ_B, layer, HD, C);
    residual_rows(w, a->res_1, x, &after_attention);
    tap_forward(w, PLACE_RES_1, layer, a->res_1, C);

    if (s->pre_norm) {
        layernorm_rows(w, a->ln_2, a->mean_2, a->rstd_2, a->res_1, LN_2_W, LN_2_B, layer);
        tap_forward(w, PLACE_LN_2, layer, a->ln_2, C);
    } else {
        layernorm_rows(w, a->ln_1, a->mean_1, a->rstd_1, a->res_1, LN_1_W, LN_1_B, layer);
        tap_forward(w, PLACE_LN_1, layer, a->ln_1, C);
    }
    linear_rows(w, a->fc, s->pre_norm ? a->ln_2 : a->ln_1, FC_W, FC_B, layer, C, F);
    tap_forward(w, PLACE_FC, layer, a->fc, F);
    size_t at = w->rows.begin * F, n = range_size(w->rows) * F;
    (s->relu ? relu_forward : gelu_forward)(a->act + at, w->returns ? a->fc + at : NULL, a->fc + at, n);
    lap(w, OP_ACTIVATION);
    tap_forward(w, PLACE_ACT, layer, a->act, F);
    linear_rows(w, a->res_2, a->act, MLP_PROJ_W, MLP_PROJ_B, layer, F, C);
    residual_rows(w, a->res_2, s->pre_norm ? a->res_1 : a->ln_1, &after_mlp);
    if (s->pre_norm) return a->res_2;
    tap_forward(w, PLACE_RES_2, layer, a->res_2, C);
    layernorm_rows(w, a->ln_2, a->mean_2, a->rstd_2, a->res_2, LN_2_W, LN_2_B, layer);
    return a->ln_2;
}

/* The last block's output after the final LayerNorm, if there is one: what the output embedding sees. */
static const real *final_output(const Model *m) { return m->shape.pre_norm ? m->ln_f : m->blocks[m->shape.L - 1].ln_2; }

static const real *output_weight(const Worker *w) { return weight(w, w->m->shape.tied ? WTE : LM_HEAD, 0); }

static void forward(const Worker *w) {
    Model *m = w->m;
    const ModelShape *s = &m->shape;
    const Batch *b = w->batch;
    size_t at = w->rows.begin, rows = range_size(w->rows);
    Dropout embedding = dropout_at(w, 0);

    embedding_forward(m->x, b->tokens, weight(w, WTE, 0), weight(w, WPE, 0), b->T, s->C, w->rows);
    dropout_rows(m->x + at * s->C, m->x + at * s->C, NULL, &embedding, at, rows, s->C);
    lap(w, OP_EMBEDDING);
    real *x = m->x;
    for (size_t layer = 0; layer < s->L; layer++) x = block_forward(w, layer, x);
    tap_forward(w, PLACE_X, s->L, x, s->C);
    if (s->pre_norm) {
        layernorm_rows(w, m->ln_f, m->mean_f, m->rstd_f, x, LN_F_W, LN_F_B, 0);
        tap_forward(w, PLACE_LN_F, 0, m->ln_f, s->C);
    }
    unembedding_forward(m->logits + at * s->V, final_output(m) + at * s->C, output_weight(w), rows, s->C, s->V);
    lap(w, OP_HEAD);
    tap_forward(w, PLACE_LOGITS, 0, m->logits, s->V);
    if (b->targets)
        cross_entropy_forward(m->losses + at, m->sums + at, m->logits + at * s->V, b->targets + at, rows, s->V);
    lap(w, OP_LOSS);
}

/* dL/dx = dL/dy W^T for this thread's rows. */
static void linear_rows_backward(const Worker *w, real *dx, const real *dy, Role role, size_t layer, size_t in,
                                 size_t out) {
    linear_backward_input(dx + w->rows.begin * in, dy + w->rows.begin * out, weight(w, role, layer),
                          range_size(w->rows), in, out);
    lap(w, OP_LINEAR_BACK);
}

static void layernorm_rows_backward(const Worker *w, real *dx, const real *residual, const real *dy, const real *x,
                                    const real *mean, const real *rstd, Role gamma, size_t layer) {
    size_t C = w->m->shape.C, at = w->rows.begin;
    layernorm_backward_input(dx + at * C, residual ? residual + at * C : NULL, dy + at * C, x + at * C,
                             weight(w, gamma, layer), mean + at, rstd + at, range_size(w->rows), C);
    lap(w, OP_LAYERNORM_BACK);
}

/* The gradient of a residual branch: d itself, or d through the branch's dropout in `masked`. */
static const real *branch_gradient(const Worker *w, real *masked, const real *d, const Dropout *dropout) {
    if (!dropout_is_on(dropout)) return d;
    size_t C = w->m->shape.C, at = w->rows.begin;
    dropout_rows(masked + at * C, d + at * C, NULL, dropout, at, range_size(w->rows), C);
    lap(w, OP_RESIDUAL_BACK);
    return masked;
}

static void attention_rows_backward(const Worker *w, const BlockActivations *a, size_t layer) {
    const ModelShape *s = &w->m->shape;
    const Gradients *d = &w->m->d;
    size_t T = w->batch->T, HD = s->H * s->D;
    exchange_rows(w);
    for (size_t pair = w->heads.begin; pair < w->heads.end; pair++) {
        size_t sequence = pair / s->H, head = pair % s->H;
        size_t at = sequence * T * HD + head * s->D, at_qkv = sequence * T * 3 * HD + head * s->D;
        const real *q = a->qkv + at_qkv;
        real *dq = d->qkv + at_qkv;
        AttentionShape shape = attention_shape(w, layer, pair);
        attention_backward(dq, dq + HD, dq + 2 * HD, d->att + at, a->att + at, a->row_max + pair * T,
                           a->row_sum + pair * T, q, q + HD, q + 2 * HD, &shape,
                           w->m->scratch + w->id * attention_scratch(s->T));
    }
    lap(w, OP_ATTENTION_BACK);
    exchange_rows(w);
}

/* This thread's tile of a linear layer's weight gradients, and its columns of the bias's, over all rows. */
static void linear_weights(const Worker *w, const real *x, const real *dy, Role weight_role, Role bias_role,
                           size_t layer, size_t in, size_t out) {
    size_t rows = w->batch->B * w->batch->T;
    real *bias = gradient(w, bias_role, layer);
    linear_backward_weight(gradient(w, weight_role, layer), x, dy, rows, in, out,
                           tile_split(in, out, LINE, w->id, w->count));
    if (bias) linear_backward_bias(bias, dy, rows, out, columns_of(w, out));
    lap(w, OP_LINEAR_WEIGHTS);
}

/* This thread's columns of a LayerNorm's, over all rows. */
static void layernorm_columns(const Worker *w, const real *dy, const real *x, const real *mean, const real *rstd,
                              Role gamma, Role beta, size_t layer) {
    size_t C = w->m->shape.C;
    layernorm_backward_weight(gradient(w, gamma, layer), gradient(w, beta, layer), dy, x, mean, rstd,
                              w->batch->B * w->batch->T, C, columns_of(w, C));
    lap(w, OP_LAYERNORM_BACK);
}

/* From dL/d(output) to dL/d(input), (B,T,C) each, and the block's weight gradients. x is the block's input. */
static void block_backward(const Worker *w, size_t layer, const real *x, real *dout, real *din) {
    const ModelShape *s = &w->m->shape;
    const BlockActivations *a = &w->m->blocks[layer];
    const Gradients *d = &w->m->d;
    size_t C = s->C, HD = s->H * s->D, F = s->F, first = w->rows.begin, rows = range_size(w->rows);
    Dropout after_attention = attention_dropout(w, layer), after_mlp = mlp_dropout(w, layer);

    real *d_res_2 = s->pre_norm ? dout : d->res_2;
    if (!s->pre_norm) {
        layernorm_rows_backward(w, d_res_2, NULL, dout, a->res_2, a->mean_2, a->rstd_2, LN_2_W, layer);
        tap_backward(w, PLACE_RES_2, layer, d_res_2, C);
    }
    const real *d_mlp = branch_gradient(w, d->mlp, d_res_2, &after_mlp);
    linear_rows_backward(w, d->fc, d_mlp, MLP_PROJ_W, layer, F, C);
    tap_backward(w, PLACE_ACT, layer, d->fc, F);
    real *d_fc = d->fc + first * F;
    activation_backward(d_fc, d_fc, a->fc + first * F, rows * F);
    lap(w, OP_ACTIVATION_BACK);
    tap_backward(w, PLACE_FC, layer, d->fc, F);

    if (s->pre_norm) {
        linear_rows_backward(w, d->ln_2, d->fc, FC_W, layer, C, F);
        tap_backward(w, PLACE_LN_2, layer, d->ln_2, C);
        layernorm_rows_backward(w, d->res_1, d_res_2, d->ln_2, a->res_1, a->mean_2, a->rstd_2, LN_2_W, layer);
    } else {
        linear_rows_backward(w, d->ln_1, d->fc, FC_W, layer, C, F);
        for (size_t i = first * C; i < (first + rows) * C; i++) d->ln_1[i] += d_res_2[i];
        lap(w, OP_RESIDUAL_BACK);
        tap_backward(w, PLACE_LN_1, layer, d->ln_1, C);
        layernorm_rows_backward(w, d->res_1, NULL, d->ln_1, a->res_1, a->mean_1, a->rstd_1, LN_1_W, layer);
    }
    tap_backward(w, PLACE_RES_1, layer, d->res_1, C);

    const real *d_proj = branch_gradient(w, d->proj, d->res_1, &after_attention);
    linear_rows_backward(w, d->att, d_proj, ATTN_PROJ_W, layer, HD, C);
    tap_backward(w, PLACE_ATT, layer, d->att, HD);
    attention_rows_backward(w, a, layer);
    tap_backward(w, PLACE_QKV, layer, d->qkv, 3 * HD);
    if (s->pre_norm) {
        linear_rows_backward(w, d->ln_1, d->qkv, ATTN_W, layer, C, 3 * HD);
        tap_backward(w, PLACE_LN_1, layer, d->ln_1, C);
        layernorm_rows_backward(w, din, d->res_1, d->ln_1, x, a->mean_1, a->rstd_1, LN_1_W, layer);
    } else {
        linear_rows_backward(w, din, d->qkv, ATTN_W, layer, C, 3 * HD);
        for (size_t i = first * C; i < (first + rows) * C; i++) din[i] += d->res_1[i];
        lap(w, OP_RESIDUAL_BACK);
    }
    tap_backward(w, PLACE_X, layer, din, C);

    barrier(w); /* every row is there: now the weights, first of what was touched last */
    linear_weights(w, s->pre_norm ? a->ln_1 : x, d->qkv, ATTN_W, ATTN_B, layer, C, 3 * HD);
    linear_weights(w, a->att, d_proj, ATTN_PROJ_W, ATTN_PROJ_B, layer, HD, C);
    linear_weights(w, s->pre_norm ? a->ln_2 : a->ln_1, d->fc, FC_W, FC_B, layer, C, F);
    linear_weights(w, a->act, d_mlp, MLP_PROJ_W, MLP_PROJ_B, layer, F, C);
    layernorm_columns(w, d->ln_1, s->pre_norm ? x : a->res_1, a->mean_1, a->rstd_1, LN_1_W, LN_1_B, layer);
    layernorm_columns(w, s->pre_norm ? d->ln_2 : dout, s->pre_norm ? a->res_1 : a->res_2, a->mean_2, a->rstd_2, LN_2_W,
                      LN_2_B, layer);
    barrier(w); /* the next block overwrites what was read here */
}

static void backward(const Worker *w, real loss_weight) {
    Model *m = w->m;
    const ModelShape *s = &m->shape;
    const Batch *b = w->batch;
    const Gradients *d = &m->d;
    size_t at = w->rows.begin, rows = range_size(w->rows), all = b->B * b->T, turn = 0;
    const real *last = s->pre_norm ? m->blocks[s->L - 1].res_2 : NULL;

    cross_entropy_backward(m->logits + at * s->V, m->sums + at, b->targets + at, loss_weight, rows, s->V);
    lap(w, OP_LOSS_BACK);
    tap_backward(w, PLACE_LOGITS, 0, m->logits, s->V);
    real *d_final = s->pre_norm ? d->ln_1 : d->x[turn];
    unembedding_backward_input(d_final + at * s->C, m->logits + at * s->V, output_weight(w), rows, s->C, s->V);
    lap(w, OP_HEAD_BACK);
    if (s->pre_norm) {
        tap_backward(w, PLACE_LN_F, 0, d_final, s->C);
        layernorm_rows_backward(w, d->x[turn], NULL, d_final, last, m->mean_f, m->rstd_f, LN_F_W, 0);
    }
    tap_backward(w, PLACE_X, s->L, d->x[turn], s->C);
    barrier(w);
    unembedding_backward_weight(gradient(w, s->tied ? WTE : LM_HEAD, 0), m->logits, final_output(m), all, s->C, s->V,
                                columns_of(w, s->C));
    lap(w, OP_HEAD_BACK);
    if (s->pre_norm) layernorm_columns(w, d_final, last, m->mean_f, m->rstd_f, LN_F_W, LN_F_B, 0);
    barrier(w);

    for (size_t layer = s->L; layer-- > 0; turn = 1 - turn) {
        const BlockActivations *below = layer ? &m->blocks[layer - 1] : NULL;
        const real *x = !below ? m->x : s->pre_norm ? below->res_2 : below->ln_2;
        block_backward(w, layer, x, d->x[turn], d->x[1 - turn]);
    }

    real *dx = d->x[turn];
    Dropout embedding = dropout_at(w, 0);
    dropout_rows(dx + at * s->C, dx + at * s->C, NULL, &embedding, at, rows, s->C);
    lap(w, OP_EMBEDDING_BACK);
    barrier(w);
    embedding_backward(gradient(w, WTE, 0), gradient(w, WPE, 0), dx, b->tokens, all, b->T, s->C, columns_of(w, s->C));
    lap(w, OP_EMBEDDING_BACK);
}

/* In the order of the positions, whatever thread computed them. */
static double sum_losses(const Model *m, const Batch *batch) {
    double sum = 0;
    for (size_t r = 0; batch->targets && r < batch->B * batch->T; r++) sum += (double)m->losses[r];
    return sum;
}

static double forward_alone(Model *m, const Batch *batch, bool training, uint64_t seed, uint64_t micro_step) {
#pragma omp parallel num_threads((int)m->threads)
    {
        Worker w = worker_make(m, batch, training, seed, micro_step);
        start_lap(&w);
        forward(&w);
    }
    return sum_losses(m, batch);
}

double model_forward(Model *m, const Batch *batch) { return forward_alone(m, batch, false, 0, 0); }

double model_training_forward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step) {
    return forward_alone(m, batch, true, seed, micro_step);
}

double model_forward_backward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step, double weight_of_batch,
                              bool fresh) {
    const real loss_weight = (real)(weight_of_batch / ((double)batch->B * (double)batch->T));
#pragma omp parallel num_threads((int)m->threads)
    {
        Worker w = worker_make(m, batch, true, seed, micro_step);
        w.returns = true;
        Range flat = columns_of(&w, m->tensors.flat);
        start_lap(&w);
        if (fresh) memset(m->gradients + flat.begin, 0, range_size(flat) * sizeof(real));
        lap(&w, OP_CLEAR);
        forward(&w);
        barrier(&w); /* gradients are zero everywhere before anyone adds */
        backward(&w, loss_weight);
    }
    return sum_losses(m, batch);
}
