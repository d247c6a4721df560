/* A block, forward and backward: the list of its operations. Derivations in docs/backward.md. */
#include "model/worker.h"
#include "ops/activation.h"

/* A block is two sublayers f, attention and the feed-forward network, and each has a LayerNorm and a residual
   connection. Pre-norm: res = x + f(LN(x)), and res is the output. Post-norm: res = x + f(x), the output is LN(res). */
static const Activation *input_of_f(const Worker *w, const LayerNorm *ln, const Activation *x) {
    return w->m->shape.pre_norm ? &ln->y : x;
}
static const Activation *output_of(const Worker *w, const LayerNorm *ln, const Activation *res) {
    return w->m->shape.pre_norm ? res : &ln->y;
}
static const Activation *input_of_norm(const Worker *w, const Activation *x, const Activation *res) {
    return w->m->shape.pre_norm ? x : res;
}

static const Activation *norm_before(const Worker *w, const LayerNorm *ln, const Activation *x, Role role,
                                     size_t layer) {
    if (w->m->shape.pre_norm) layernorm(w, ln, x, role, layer);
    return input_of_f(w, ln, x);
}
static const Activation *norm_after(const Worker *w, const LayerNorm *ln, const Activation *res, Role role,
                                    size_t layer) {
    if (!w->m->shape.pre_norm) layernorm(w, ln, res, role, layer);
    return output_of(w, ln, res);
}
static void norm_after_backward(const Worker *w, const Activation *res, const LayerNorm *ln, Role role, size_t layer) {
    if (!w->m->shape.pre_norm) layernorm_backward(w, res, ln, role, layer, NULL);
}
/* Where the residual connection joins again: at the LayerNorm, or in a post-norm model at f's first layer. */
static const Activation *skip_at_linear(const Worker *w, const Activation *res) {
    return w->m->shape.pre_norm ? NULL : res;
}
static void norm_before_backward(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer,
                                 const Activation *res) {
    if (w->m->shape.pre_norm) layernorm_backward(w, x, ln, role, layer, res);
}

/* Before and after attention, rows change hands if sequences are split between threads. */
static void exchange_rows(const Worker *w) {
    if (w->splits_sequences) barrier(w);
}
static AttentionLayer attention_of(const Worker *w, size_t layer) {
    AttentionLayer a = model_attention(w->m, layer, w->batch->T);
    a.dropout = dropout_at(w, layer, SITE_WEIGHTS);
    a.batch_row = w->batch_row;
    return a;
}
static void attention(const Worker *w, const Activation *att, size_t layer) {
    const AttentionLayer a = attention_of(w, layer);
    exchange_rows(w);
    for (size_t pair = w->pairs.begin; pair < w->pairs.end; pair++) attention_forward(&a, pair, scratch_of(w));
    done(w, OP_ATTENTION, NULL, FORWARD);
    exchange_rows(w);
    done(w, OP_COUNT, att, FORWARD);
}
static void backward_of_attention(const Worker *w, const Activation *qkv, const Activation *att, size_t layer) {
    const AttentionLayer a = attention_of(w, layer);
    exchange_rows(w);
    for (size_t pair = w->pairs.begin; pair < w->pairs.end; pair++)
        attention_backward(&a, pair, qkv->gradient, att->gradient, scratch_of(w));
    done(w, OP_ATTENTION_BACK, NULL, BACKWARD);
    exchange_rows(w);
    done(w, OP_COUNT, qkv, BACKWARD);
}

static void nonlinearity(const Worker *w, const Activation *act, const Activation *fc) {
    const size_t at = w->rows.begin * fc->width, n = range_size(w->rows) * fc->width;
    real *derivative = w->pass->with_backward ? fc->values + at : NULL;
    (w->m->shape.relu ? relu_forward : gelu_forward)(act->values + at, derivative, fc->values + at, n);
    done(w, OP_ACTIVATION, act, FORWARD);
}
static void nonlinearity_backward(const Worker *w, const Activation *fc, const Activation *act) {
    const size_t at = w->rows.begin * fc->width, n = range_size(w->rows) * fc->width;
    activation_backward(fc->gradient + at, act->gradient + at, fc->values + at, n);
    done(w, OP_ACTIVATION_BACK, fc, BACKWARD);
}

const Activation *block_forward(const Worker *w, size_t layer, const Activation *x) {
    const Block *b = &w->m->blocks[layer];

    const Activation *in = norm_before(w, &b->ln_1, x, LN_1_W, layer);
    linear(w, &b->qkv, in, ATTN_W, layer);
    attention(w, &b->att, layer);
    linear(w, &b->proj_1, &b->att, ATTN_PROJ_W, layer);
    residual(w, &b->res_1, x, &b->proj_1, layer, SITE_PROJ_1);
    x = norm_after(w, &b->ln_1, &b->res_1, LN_1_W, layer);

    in = norm_before(w, &b->ln_2, x, LN_2_W, layer);
    linear(w, &b->fc, in, FC_W, layer);
    nonlinearity(w, &b->act, &b->fc);
    linear(w, &b->proj_2, &b->act, MLP_PROJ_W, layer);
    residual(w, &b->res_2, x, &b->proj_2, layer, SITE_PROJ_2);
    return norm_after(w, &b->ln_2, &b->res_2, LN_2_W, layer);
}

void block_backward(const Worker *w, size_t layer, const Activation *x) {
    const Block *b = &w->m->blocks[layer];
    const Activation *in_1 = input_of_f(w, &b->ln_1, x), *x_2 = output_of(w, &b->ln_1, &b->res_1);
    const Activation *in_2 = input_of_f(w, &b->ln_2, x_2);

    norm_after_backward(w, &b->res_2, &b->ln_2, LN_2_W, layer);
    residual_backward(w, &b->res_2, &b->proj_2, layer, SITE_PROJ_2);
    linear_backward(w, &b->act, &b->proj_2, MLP_PROJ_W, layer, NULL);
    nonlinearity_backward(w, &b->fc, &b->act);
    linear_backward(w, in_2, &b->fc, FC_W, layer, skip_at_linear(w, &b->res_2));
    norm_before_backward(w, x_2, &b->ln_2, LN_2_W, layer, &b->res_2);

    norm_after_backward(w, &b->res_1, &b->ln_1, LN_1_W, layer);
    residual_backward(w, &b->res_1, &b->proj_1, layer, SITE_PROJ_1);
    linear_backward(w, &b->att, &b->proj_1, ATTN_PROJ_W, layer, NULL);
    backward_of_attention(w, &b->qkv, &b->att, layer);
    linear_backward(w, in_1, &b->qkv, ATTN_W, layer, skip_at_linear(w, &b->res_1));
    norm_before_backward(w, x, &b->ln_1, LN_1_W, layer, &b->res_1);

    barrier(w); /* every row is there: now the weights, first of what was touched last */
    linear_weights(w, in_1, &b->qkv, ATTN_W, layer);
    linear_weights(w, &b->att, &b->proj_1, ATTN_PROJ_W, layer);
    linear_weights(w, in_2, &b->fc, FC_W, layer);
    linear_weights(w, &b->act, &b->proj_2, MLP_PROJ_W, layer);
    layernorm_weights(w, input_of_norm(w, x, &b->res_1), &b->ln_1, LN_1_W, layer);
    layernorm_weights(w, input_of_norm(w, x_2, &b->res_2), &b->ln_2, LN_2_W, layer);
    barrier(w); /* the next block overwrites what was read here */
}
