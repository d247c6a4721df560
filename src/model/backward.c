/* The backward pass, from the last block to the first; derivations in docs/backward.md. */
#include "model/pass.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

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
    dropout_rows(masked + at * C, d + at * C, NULL, dropout, w->first + at, range_size(w->rows), C);
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

void pass_backward(const Worker *w) {
    Model *m = w->m;
    const ModelShape *s = &m->shape;
    const Batch *b = w->batch;
    const Gradients *d = &m->d;
    size_t at = w->rows.begin, rows = range_size(w->rows), all = b->B * b->T, turn = 0;
    const real *last = s->pre_norm ? m->blocks[s->L - 1].res_2 : NULL;

    cross_entropy_backward(m->logits + at * s->V, m->sums + at, b->targets + at, w->pass->loss_weight, rows, s->V);
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
    dropout_rows(dx + at * s->C, dx + at * s->C, NULL, &embedding, w->first + at, rows, s->C);
    lap(w, OP_EMBEDDING_BACK);
    barrier(w);
    embedding_backward(gradient(w, WTE, 0), gradient(w, WPE, 0), dx, b->tokens, all, b->T, s->C, columns_of(w, s->C));
    lap(w, OP_EMBEDDING_BACK);
}
