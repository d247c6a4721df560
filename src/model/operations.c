/* The operations of worker.h: each calls one function of ops/ on this thread's rows, or on its part of the weights. */
#include <omp.h>

#include "model/worker.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

static bool bf16(const Worker *w) { return w->m->shape.attention.bf16; }
static size_t rows_of(const Worker *w) { return range_size(w->rows); }
static size_t rows_of_slice(const Worker *w) { return w->batch->B * w->batch->T; }

static real *values(const Worker *w, const Activation *a) { return a->values + w->rows.begin * a->width; }
static real *gradients(const Worker *w, const Activation *a) { return a->gradient + w->rows.begin * a->width; }

/* A whole parameter tensor and its gradient; NULL when the model has no such tensor. */
static real *weight(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->parameters, role, layer);
}
static real *weight_gradient(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->gradients, role, layer);
}

void done(const Worker *w, PassOperation op, const Activation *a, Direction direction) {
    const Hook *hook = w->m->hook;
    if (w->m->profiles) {
        Profile *p = &w->m->profiles[w->id];
        const double now = omp_get_wtime();
        if (op != OP_COUNT) p->seconds[op] += now - p->last;
        p->last = now;
    }
    if (hook && a)
        hook->function(hook->context, &(HookView){.activation = a,
                                                  .direction = direction,
                                                  .values = direction == FORWARD ? values(w, a) : gradients(w, a),
                                                  .rows = rows_of(w),
                                                  .batch_row = w->batch_row + w->rows.begin,
                                                  .slice_row = w->rows.begin});
}

void barrier(const Worker *w) {
#pragma omp barrier
    done(w, OP_WAIT, NULL, FORWARD);
}

static Dropout dropout_at(const Worker *w, size_t layer, DropoutSite site) {
    const Pass *p = w->pass;
    return dropout_make(p->training ? w->m->shape.dropout : 0, p->seed, p->micro_step, (uint32_t)(3 * layer) + site);
}

void embedding(const Worker *w, const Activation *x) {
    const Dropout dropout = dropout_at(w, 0, SITE_EMBEDDING);
    embedding_forward(x->values, w->batch->tokens, weight(w, WTE, 0), weight(w, WPE, 0), w->batch->T, x->width,
                      w->rows);
    dropout_rows(values(w, x), values(w, x), NULL, &dropout, w->batch_row + w->rows.begin, rows_of(w), x->width);
    done(w, OP_EMBEDDING, x, FORWARD);
}

void embedding_weights(const Worker *w, const Activation *x) {
    const Dropout dropout = dropout_at(w, 0, SITE_EMBEDDING);
    dropout_rows(gradients(w, x), gradients(w, x), NULL, &dropout, w->batch_row + w->rows.begin, rows_of(w), x->width);
    done(w, OP_EMBEDDING_BACK, NULL, BACKWARD);
    barrier(w);
    embedding_backward(weight_gradient(w, WTE, 0), weight_gradient(w, WPE, 0), x->gradient, w->batch->tokens,
                       rows_of_slice(w), w->batch->T, x->width, columns_of(w, x->width));
    done(w, OP_EMBEDDING_BACK, NULL, BACKWARD);
}

void layernorm(const Worker *w, const LayerNorm *ln, const Activation *x, Role role, size_t layer) {
    layernorm_forward(values(w, &ln->y), ln->mean + w->rows.begin, ln->rstd + w->rows.begin, values(w, x),
                      weight(w, role, layer), weight(w, role + 1, layer), rows_of(w), x->width);
    done(w, OP_LAYERNORM, &ln->y, FORWARD);
}

void layernorm_backward(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer,
                        const Activation *skip) {
    layernorm_backward_input(gradients(w, x), skip ? gradients(w, skip) : NULL, gradients(w, &ln->y), values(w, x),
                             weight(w, role, layer), ln->mean + w->rows.begin, ln->rstd + w->rows.begin, rows_of(w),
                             x->width);
    done(w, OP_LAYERNORM_BACK, x, BACKWARD);
}

void layernorm_weights(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer) {
    layernorm_backward_weight(weight_gradient(w, role, layer), weight_gradient(w, role + 1, layer), ln->y.gradient,
                              x->values, ln->mean, ln->rstd, rows_of_slice(w), x->width, columns_of(w, x->width));
    done(w, OP_LAYERNORM_BACK, NULL, BACKWARD);
}

void linear(const Worker *w, const Activation *y, const Activation *x, Role role, size_t layer) {
    linear_forward(values(w, y), values(w, x), weight(w, role, layer), weight(w, role + 1, layer), rows_of(w), x->width,
                   y->width, bf16(w));
    done(w, OP_LINEAR, y, FORWARD);
}

void linear_backward(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer,
                     const Activation *skip) {
    linear_backward_input(gradients(w, x), gradients(w, y), weight(w, role, layer), rows_of(w), x->width, y->width,
                          bf16(w));
    done(w, OP_LINEAR_BACK, skip ? NULL : x, BACKWARD);
    if (!skip) return;
    residual_add(gradients(w, x), gradients(w, skip), rows_of(w) * x->width);
    done(w, OP_RESIDUAL_BACK, x, BACKWARD);
}

void linear_weights(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer) {
    real *bias = weight_gradient(w, role + 1, layer);
    linear_backward_weight(weight_gradient(w, role, layer), x->values, y->gradient, rows_of_slice(w), x->width,
                           y->width, tile_split(x->width, y->width, CACHE_LINE, w->id, w->count), bf16(w));
    if (bias) linear_backward_bias(bias, y->gradient, rows_of_slice(w), y->width, columns_of(w, y->width));
    done(w, OP_LINEAR_WEIGHTS, NULL, BACKWARD);
}

/* Attention reads whole sequences. Where threads split them, it waits before and after for the others' rows. */
static void exchange_rows(const Worker *w) {
    if (w->splits_sequences) barrier(w);
}
static AttentionLayer attention_of(const Worker *w, size_t layer) {
    AttentionLayer a = model_attention(w->m, layer, w->batch->T);
    a.dropout = dropout_at(w, layer, SITE_WEIGHTS);
    a.batch_row = w->batch_row;
    a.cached = w->pass->cached;
    return a;
}
static real *scratch_of(const Worker *w) {
    return w->m->scratch + w->id * attention_scratch(&w->m->shape.attention, w->m->shape.T);
}

void self_attention(const Worker *w, const Activation *att, size_t layer) {
    const AttentionLayer a = attention_of(w, layer);
    exchange_rows(w);
    for (size_t pair = w->pairs.begin; pair < w->pairs.end; pair++) attention_forward(&a, pair, scratch_of(w));
    done(w, OP_ATTENTION, NULL, FORWARD);
    exchange_rows(w);
    done(w, OP_COUNT, att, FORWARD);
}

void self_attention_backward(const Worker *w, const Activation *qkv, const Activation *att, size_t layer) {
    const AttentionLayer a = attention_of(w, layer);
    exchange_rows(w);
    for (size_t pair = w->pairs.begin; pair < w->pairs.end; pair++)
        attention_backward(&a, pair, qkv->gradient, att->gradient, scratch_of(w));
    done(w, OP_ATTENTION_BACK, NULL, BACKWARD);
    exchange_rows(w);
    done(w, OP_COUNT, qkv, BACKWARD);
}

/* Too few numbers to be split among threads. */
void self_attention_weights(const Worker *w, size_t layer) {
    const Model *m = w->m;
    const AttentionLayer a = attention_of(w, layer);
    real *own[ATTENTION_PARAMETERS];
    if (w->id != 0 || attention_partials(a.attention) == 0) return;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) own[p] = weight_gradient(w, ATTN_V + p, layer);
    attention_parameters_backward(&a, w->batch->B * m->shape.attention.H, own);
    done(w, OP_ATTENTION_BACK, NULL, BACKWARD);
}

void nonlinearity(const Worker *w, const Activation *act, const Activation *fc) {
    real *derivative = w->pass->with_backward ? values(w, fc) : NULL;
    (w->m->shape.relu ? relu_forward : gelu_forward)(values(w, act), derivative, values(w, fc), rows_of(w) * fc->width);
    done(w, OP_ACTIVATION, act, FORWARD);
}

void nonlinearity_backward(const Worker *w, const Activation *fc, const Activation *act) {
    activation_backward(gradients(w, fc), gradients(w, act), values(w, fc), rows_of(w) * fc->width);
    done(w, OP_ACTIVATION_BACK, fc, BACKWARD);
}

void residual(const Worker *w, const Activation *res, const Activation *x, const Activation *proj, size_t layer,
              DropoutSite site) {
    const Dropout dropout = dropout_at(w, layer, site);
    dropout_rows(values(w, res), values(w, proj), values(w, x), &dropout, w->batch_row + w->rows.begin, rows_of(w),
                 res->width);
    done(w, OP_RESIDUAL, res, FORWARD);
}

void residual_backward(const Worker *w, const Activation *res, const Activation *proj, size_t layer, DropoutSite site) {
    const Dropout dropout = dropout_at(w, layer, site);
    if (proj->gradient != res->gradient) /* the model has dropout */
        dropout_rows(gradients(w, proj), gradients(w, res), NULL, &dropout, w->batch_row + w->rows.begin, rows_of(w),
                     res->width);
    done(w, OP_RESIDUAL_BACK, proj, BACKWARD);
}

static Role output_role(const Worker *w) { return w->m->shape.tied ? WTE : LM_HEAD; }

void unembedding(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    unembedding_forward(values(w, logits), values(w, x), weight(w, output_role(w), 0), rows_of(w), x->width,
                        logits->width, bf16(w));
    done(w, OP_LOGITS, logits, FORWARD);
}

void unembedding_backward(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    unembedding_backward_input(gradients(w, x), gradients(w, logits), weight(w, output_role(w), 0), rows_of(w),
                               x->width, logits->width, bf16(w));
    done(w, OP_LOGITS_BACK, x, BACKWARD);
}

void unembedding_weights(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    unembedding_backward_weight(weight_gradient(w, output_role(w), 0), logits->gradient, x->values, rows_of_slice(w),
                                x->width, logits->width, columns_of(w, x->width), bf16(w));
    done(w, OP_LOGITS_BACK, NULL, BACKWARD);
}

void loss(const Worker *w) {
    const Model *m = w->m;
    const size_t first = w->rows.begin;
    if (w->batch->targets)
        cross_entropy_forward(m->losses + w->batch_row + first, m->sums + first, values(w, &m->logits),
                              w->batch->targets + first, rows_of(w), m->logits.width);
    done(w, OP_LOSS, NULL, FORWARD);
}

void loss_backward(const Worker *w) {
    const Model *m = w->m;
    const size_t first = w->rows.begin;
    cross_entropy_backward(gradients(w, &m->logits), m->sums + first, w->batch->targets + first, w->pass->loss_weight,
                           rows_of(w), m->logits.width);
    done(w, OP_LOSS_BACK, &m->logits, BACKWARD);
}
