/* The forward pass, block by block. */
#include "model/pass.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

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
    dropout_rows(y + at, y + at, x + at, dropout, w->first + w->rows.begin, range_size(w->rows), C);
    lap(w, OP_RESIDUAL);
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
    (s->relu ? relu_forward : gelu_forward)(a->act + at, w->pass->returns ? a->fc + at : NULL, a->fc + at, n);
    lap(w, OP_ACTIVATION);
    tap_forward(w, PLACE_ACT, layer, a->act, F);
    linear_rows(w, a->res_2, a->act, MLP_PROJ_W, MLP_PROJ_B, layer, F, C);
    residual_rows(w, a->res_2, s->pre_norm ? a->res_1 : a->ln_1, &after_mlp);
    if (s->pre_norm) return a->res_2;
    tap_forward(w, PLACE_RES_2, layer, a->res_2, C);
    layernorm_rows(w, a->ln_2, a->mean_2, a->rstd_2, a->res_2, LN_2_W, LN_2_B, layer);
    return a->ln_2;
}

void pass_forward(const Worker *w) {
    Model *m = w->m;
    const ModelShape *s = &m->shape;
    const Batch *b = w->batch;
    size_t at = w->rows.begin, rows = range_size(w->rows);
    Dropout embedding = dropout_at(w, 0);

    embedding_forward(m->x, b->tokens, weight(w, WTE, 0), weight(w, WPE, 0), b->T, s->C, w->rows);
    dropout_rows(m->x + at * s->C, m->x + at * s->C, NULL, &embedding, w->first + at, rows, s->C);
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
        cross_entropy_forward(m->losses + w->first + at, m->sums + at, m->logits + at * s->V, b->targets + at, rows,
                              s->V);
    lap(w, OP_LOSS);
}
