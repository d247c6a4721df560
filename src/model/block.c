/* A block, forward and backward: the list of its operations. Derivations in docs/backward.md. */
#include "model/worker.h"
#include "ops/activation.h"

/* The LayerNorm stands before f in a pre-norm model, and behind the residual connection in a post-norm one. */
static void norm_before(const Worker *w, const Sublayer *s) {
    if (w->m->shape.pre_norm) layernorm(w, &s->ln, s->ln_in);
}
static void norm_after(const Worker *w, const Sublayer *s) {
    if (!w->m->shape.pre_norm) layernorm(w, &s->ln, s->ln_in);
}

/* The gradient of the sum from that of the output; in a pre-norm model they are the same. */
static void norm_after_backward(const Worker *w, const Sublayer *s) {
    if (!w->m->shape.pre_norm) layernorm_backward(w, &s->ln, s->ln_in, NULL);
}
/* f's first layer, and the LayerNorm before it if there is one: to the gradient of the sublayer's input, where that of
   the residual connection joins. */
static void linear_and_norm_before_backward(const Worker *w, size_t layer, const Sublayer *s, const Activation *y,
                                            Role role) {
    const bool pre_norm = w->m->shape.pre_norm;
    linear_backward(w, layer, s->f_in, y, role, pre_norm ? NULL : s->sum.gradient);
    if (pre_norm) layernorm_backward(w, &s->ln, s->ln_in, s->sum.gradient);
}

static AttentionLayer attention_of(const Worker *w, size_t layer) {
    AttentionLayer attention = model_attention(w->m, layer, w->batch->T);
    attention.dropout = dropout_at(w, dropout_site(layer, SITE_WEIGHTS));
    attention.first = w->first;
    return attention;
}
static real *scratch_of(const Worker *w) { return w->m->scratch + w->id * attention_scratch(w->m->shape.T); }

/* Before and after attention, rows change hands if sequences are split between threads. */
static void exchange_rows(const Worker *w) {
    if (w->splits_sequences) barrier(w);
}

static void attention(const Worker *w, size_t layer) {
    const AttentionLayer a = attention_of(w, layer);
    exchange_rows(w);
    for (size_t pair = w->pairs.begin; pair < w->pairs.end; pair++) attention_forward(&a, pair, scratch_of(w));
    profile(w, OP_ATTENTION);
    exchange_rows(w);
    show(w, &w->m->blocks[layer].att, false);
}
static void attention_gradient(const Worker *w, size_t layer) {
    const Block *b = &w->m->blocks[layer];
    const AttentionLayer a = attention_of(w, layer);
    exchange_rows(w);
    for (size_t pair = w->pairs.begin; pair < w->pairs.end; pair++)
        attention_backward(&a, pair, b->qkv.gradient, b->att.gradient, scratch_of(w));
    profile(w, OP_ATTENTION_BACK);
    exchange_rows(w);
    show(w, &b->qkv, true);
}

static void activation_function(const Worker *w, const Activation *y, const Activation *x) {
    const size_t at = w->rows.begin * x->width, n = range_size(w->rows) * x->width;
    real *derivative = w->pass->with_backward ? x->values + at : NULL;
    (w->m->shape.relu ? relu_forward : gelu_forward)(y->values + at, derivative, x->values + at, n);
    profile(w, OP_ACTIVATION);
    show(w, y, false);
}
static void activation_function_backward(const Worker *w, const Activation *x, const Activation *y) {
    const size_t at = w->rows.begin * x->width, n = range_size(w->rows) * x->width;
    activation_backward(x->gradient + at, y->gradient + at, x->values + at, n);
    profile(w, OP_ACTIVATION_BACK);
    show(w, x, true);
}

void block_forward(const Worker *w, size_t layer) {
    const Block *b = &w->m->blocks[layer];

    norm_before(w, &b->attention);
    linear(w, layer, &b->qkv, b->attention.f_in, ATTN_W);
    attention(w, layer);
    linear_residual(w, layer, &b->attention, &b->att, ATTN_PROJ_W);
    norm_after(w, &b->attention);

    norm_before(w, &b->mlp);
    linear(w, layer, &b->fc, b->mlp.f_in, FC_W);
    activation_function(w, &b->act, &b->fc);
    linear_residual(w, layer, &b->mlp, &b->act, MLP_PROJ_W);
    norm_after(w, &b->mlp);
}

void block_backward(const Worker *w, size_t layer) {
    const Block *b = &w->m->blocks[layer];

    norm_after_backward(w, &b->mlp);
    linear_residual_backward(w, layer, &b->mlp, &b->act, MLP_PROJ_W);
    activation_function_backward(w, &b->fc, &b->act);
    linear_and_norm_before_backward(w, layer, &b->mlp, &b->fc, FC_W);

    norm_after_backward(w, &b->attention);
    linear_residual_backward(w, layer, &b->attention, &b->att, ATTN_PROJ_W);
    attention_gradient(w, layer);
    linear_and_norm_before_backward(w, layer, &b->attention, &b->qkv, ATTN_W);

    barrier(w); /* every row is there: now the weights, first of what was touched last */
    linear_weights(w, layer, b->attention.f_in, b->qkv.gradient, b->qkv.width, ATTN_W);
    linear_weights(w, layer, &b->att, branch_gradient(w, &b->attention), w->m->shape.C, ATTN_PROJ_W);
    linear_weights(w, layer, b->mlp.f_in, b->fc.gradient, b->fc.width, FC_W);
    linear_weights(w, layer, &b->act, branch_gradient(w, &b->mlp), w->m->shape.C, MLP_PROJ_W);
    layernorm_weights(w, &b->attention.ln, b->attention.ln_in);
    layernorm_weights(w, &b->mlp.ln, b->mlp.ln_in);
    barrier(w); /* the next block overwrites what was read here */
}
