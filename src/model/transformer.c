#include "model/transformer.h"

#include <omp.h>
#include <string.h>

#include "model/worker.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"

static Worker worker_make(Model *m, const Pass *pass, const Batch *batch, size_t first) {
    const size_t id = (size_t)omp_get_thread_num(), count = (size_t)omp_get_num_threads(), H = m->shape.attention.H;
    Worker w = {.m = m,
                .pass = pass,
                .batch = batch,
                .id = id,
                .count = count,
                .first = first,
                .splits_sequences = batch->B < count && count > 1};
    const Range sequences = range_split(batch->B, 1, id, count);
    if (w.splits_sequences) {
        w.rows = range_split(batch->B * batch->T, 1, id, count);
        w.pairs = range_split(batch->B * H, 1, id, count);
    } else {
        w.rows = (Range){sequences.begin * batch->T, sequences.end * batch->T};
        w.pairs = (Range){sequences.begin * H, sequences.end * H};
    }
    return w;
}

/* x = dropout(wte[token] + wpe[position]) */
static void embed(const Worker *w) {
    const Activation *x = &w->m->x;
    const Dropout dropout = dropout_at(w, SITE_EMBEDDING);
    real *own = x->values + w->rows.begin * x->width;
    embedding_forward(x->values, w->batch->tokens, weight(w, WTE, 0), weight(w, WPE, 0), w->batch->T, x->width,
                      w->rows);
    dropout_rows(own, own, NULL, &dropout, w->first + w->rows.begin, range_size(w->rows), x->width);
    profile(w, OP_EMBEDDING);
    show(w, x, false);
}
static void embed_backward(const Worker *w) {
    const Activation *x = &w->m->x;
    const Dropout dropout = dropout_at(w, SITE_EMBEDDING);
    real *own = x->gradient + w->rows.begin * x->width;
    dropout_rows(own, own, NULL, &dropout, w->first + w->rows.begin, range_size(w->rows), x->width);
    profile(w, OP_EMBEDDING_BACK);
    barrier(w);
    embedding_backward(gradient(w, WTE, 0), gradient(w, WPE, 0), x->gradient, w->batch->tokens,
                       w->batch->B * w->batch->T, w->batch->T, x->width, columns_of(w, x->width));
    profile(w, OP_EMBEDDING_BACK);
}

static Activation logits_of(const Model *m) { return (Activation){AT_LOGITS, 0, m->shape.V, m->logits, m->logits}; }
static Role output_role(const Model *m) { return m->shape.tied ? WTE : LM_HEAD; }

/* Logits from the last LayerNorm's output. */
static void unembed(const Worker *w) {
    const Activation *x = w->m->final, logits = logits_of(w->m);
    unembedding_forward(logits.values + w->rows.begin * logits.width, x->values + w->rows.begin * x->width,
                        weight(w, output_role(w->m), 0), range_size(w->rows), x->width, logits.width);
    profile(w, OP_HEAD);
    show(w, &logits, false);
}
static void unembed_backward(const Worker *w) {
    const Activation *x = w->m->final, logits = logits_of(w->m);
    unembedding_backward_input(x->gradient + w->rows.begin * x->width, logits.gradient + w->rows.begin * logits.width,
                               weight(w, output_role(w->m), 0), range_size(w->rows), x->width, logits.width);
    profile(w, OP_HEAD_BACK);
    show(w, x, true);
}
static void unembed_weights(const Worker *w) {
    const Activation *x = w->m->final, logits = logits_of(w->m);
    unembedding_backward_weight(gradient(w, output_role(w->m), 0), logits.gradient, x->values,
                                w->batch->B * w->batch->T, x->width, logits.width, columns_of(w, x->width));
    profile(w, OP_HEAD_BACK);
}

/* The loss of every position, and the logits' gradient, each in the other's place. */
static void loss(const Worker *w) {
    const Model *m = w->m;
    const size_t at = w->rows.begin, V = m->shape.V;
    if (w->batch->targets)
        cross_entropy_forward(m->losses + w->first + at, m->sums + at, m->logits + at * V, w->batch->targets + at,
                              range_size(w->rows), V);
    profile(w, OP_LOSS);
}
static void loss_backward(const Worker *w) {
    const Activation logits = logits_of(w->m);
    const size_t at = w->rows.begin, V = logits.width;
    cross_entropy_backward(logits.gradient + at * V, w->m->sums + at, w->batch->targets + at, w->pass->loss_weight,
                           range_size(w->rows), V);
    profile(w, OP_LOSS_BACK);
    show(w, &logits, true);
}

static void forward(const Worker *w) {
    const Model *m = w->m;
    embed(w);
    for (size_t layer = 0; layer < m->shape.L; layer++) block_forward(w, layer);
    if (m->shape.pre_norm) layernorm(w, &m->ln_f, m->blocks[m->shape.L - 1].mlp.y);
    unembed(w);
    loss(w);
}

static void backward(const Worker *w) {
    const Model *m = w->m;
    const Activation *last = m->blocks[m->shape.L - 1].mlp.y;
    loss_backward(w);
    unembed_backward(w);
    if (m->shape.pre_norm) layernorm_backward(w, &m->ln_f, last, NULL);
    barrier(w);
    unembed_weights(w);
    if (m->shape.pre_norm) layernorm_weights(w, &m->ln_f, last);
    barrier(w);
    for (size_t layer = m->shape.L; layer-- > 0;) block_backward(w, layer);
    embed_backward(w);
}

static void pass_slice(Model *m, const Batch *slice, size_t first, const Pass *pass) {
#pragma omp parallel num_threads((int)m->threads)
    {
        const Worker w = worker_make(m, pass, slice, first);
        const Range flat = columns_of(&w, m->tensors.flat);
        profile(&w, OP_COUNT);
        if (pass->zero_gradients && first == 0) memset(m->gradients + flat.begin, 0, range_size(flat) * sizeof(real));
        profile(&w, OP_CLEAR);
        forward(&w);
        if (pass->with_backward) {
            barrier(&w); /* gradients are zero everywhere before anyone adds */
            backward(&w);
        }
    }
}

/* Slice by slice. Returns the sum of the losses, in the order of the positions. */
static double pass_batch(Model *m, const Batch *batch, const Pass *pass) {
    const size_t at_most = model_slice(&m->shape, batch->B), slices = (batch->B + at_most - 1) / at_most;
    double sum = 0;
    for (size_t i = 0; i < slices; i++) {
        const Range sequences = range_split(batch->B, 1, i, slices);
        const size_t first = sequences.begin * batch->T;
        const int32_t *targets = batch->targets ? batch->targets + first : NULL;
        pass_slice(m, &(Batch){batch->tokens + first, targets, range_size(sequences), batch->T}, first, pass);
    }
    for (size_t r = 0; batch->targets && r < batch->B * batch->T; r++) sum += (double)m->losses[r];
    return sum;
}

double model_forward(Model *m, const Batch *batch) { return pass_batch(m, batch, &(Pass){0}); }

double model_gradients(Model *m, const Batch *batch) {
    return pass_batch(m, batch, &(Pass){.with_backward = true, .zero_gradients = true, .loss_weight = 1});
}

double model_training_forward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step) {
    return pass_batch(m, batch, &(Pass){.training = true, .seed = seed, .micro_step = micro_step});
}

double model_forward_backward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step, double weight_of_batch,
                              bool zero_gradients) {
    const real loss_weight = (real)(weight_of_batch / ((double)batch->B * (double)batch->T));
    return pass_batch(m, batch,
                      &(Pass){.training = true,
                              .with_backward = true,
                              .zero_gradients = zero_gradients,
                              .seed = seed,
                              .micro_step = micro_step,
                              .loss_weight = loss_weight});
}
