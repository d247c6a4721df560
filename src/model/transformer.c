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
                .batch_row = first,
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
static void embedding(const Worker *w) {
    const Activation *x = &w->m->x;
    const Dropout dropout = dropout_at(w, 0, SITE_EMBEDDING);
    real *own = x->values + w->rows.begin * x->width;
    embedding_forward(x->values, w->batch->tokens, weight(w, WTE, 0), weight(w, WPE, 0), w->batch->T, x->width,
                      w->rows);
    dropout_rows(own, own, NULL, &dropout, w->batch_row + w->rows.begin, range_size(w->rows), x->width);
    done(w, OP_EMBEDDING, x, FORWARD);
}
static void embedding_weights(const Worker *w) {
    const Activation *x = &w->m->x;
    const Dropout dropout = dropout_at(w, 0, SITE_EMBEDDING);
    real *own = x->gradient + w->rows.begin * x->width;
    dropout_rows(own, own, NULL, &dropout, w->batch_row + w->rows.begin, range_size(w->rows), x->width);
    done(w, OP_EMBEDDING_BACK, NULL, BACKWARD);
    barrier(w);
    embedding_backward(gradient(w, WTE, 0), gradient(w, WPE, 0), x->gradient, w->batch->tokens,
                       w->batch->B * w->batch->T, w->batch->T, x->width, columns_of(w, x->width));
    done(w, OP_EMBEDDING_BACK, NULL, BACKWARD);
}

/* Logits from the last output. */
static Role output_role(const Worker *w) { return w->m->shape.tied ? WTE : LM_HEAD; }
static void unembedding(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    unembedding_forward(logits->values + w->rows.begin * logits->width, x->values + w->rows.begin * x->width,
                        weight(w, output_role(w), 0), range_size(w->rows), x->width, logits->width);
    done(w, OP_LOGITS, logits, FORWARD);
}
static void unembedding_backward(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    unembedding_backward_input(x->gradient + w->rows.begin * x->width, logits->gradient + w->rows.begin * logits->width,
                               weight(w, output_role(w), 0), range_size(w->rows), x->width, logits->width);
    done(w, OP_LOGITS_BACK, x, BACKWARD);
}
static void unembedding_weights(const Worker *w, const Activation *x) {
    const Activation *logits = &w->m->logits;
    unembedding_backward_weight(gradient(w, output_role(w), 0), logits->gradient, x->values, w->batch->B * w->batch->T,
                                x->width, logits->width, columns_of(w, x->width));
    done(w, OP_LOGITS_BACK, NULL, BACKWARD);
}

/* The loss of every position. The logits become exp(z - max), and that their gradient, in place. */
static void loss(const Worker *w) {
    const Model *m = w->m;
    const size_t at = w->rows.begin, V = m->logits.width;
    if (w->batch->targets)
        cross_entropy_forward(m->losses + w->batch_row + at, m->sums + at, m->logits.values + at * V,
                              w->batch->targets + at, range_size(w->rows), V);
    done(w, OP_LOSS, NULL, FORWARD);
}
static void loss_backward(const Worker *w) {
    const Model *m = w->m;
    const size_t at = w->rows.begin, V = m->logits.width;
    cross_entropy_backward(m->logits.gradient + at * V, m->sums + at, w->batch->targets + at, w->pass->loss_weight,
                           range_size(w->rows), V);
    done(w, OP_LOSS_BACK, &m->logits, BACKWARD);
}

static void forward(const Worker *w) {
    const Model *m = w->m;
    const Activation *x = &m->x;
    embedding(w);
    for (size_t layer = 0; layer < m->shape.L; layer++) x = block_forward(w, layer, x);
    if (m->shape.pre_norm) layernorm(w, &m->ln_f, x, LN_F_W, 0);
    unembedding(w, m->shape.pre_norm ? &m->ln_f.y : x);
    loss(w);
}

/* The input of a block: the output of the one before it, or the embeddings. */
static const Activation *block_input(const Model *m, size_t layer) {
    if (layer == 0) return &m->x;
    return m->shape.pre_norm ? &m->blocks[layer - 1].res_2 : &m->blocks[layer - 1].ln_2.y;
}

static void backward(const Worker *w) {
    const Model *m = w->m;
    const Activation *last = block_input(m, m->shape.L), *final = m->shape.pre_norm ? &m->ln_f.y : last;
    loss_backward(w);
    unembedding_backward(w, final);
    if (m->shape.pre_norm) layernorm_backward(w, last, &m->ln_f, LN_F_W, 0, NULL);
    barrier(w);
    unembedding_weights(w, final);
    if (m->shape.pre_norm) layernorm_weights(w, last, &m->ln_f, LN_F_W, 0);
    barrier(w);
    for (size_t layer = m->shape.L; layer-- > 0;) block_backward(w, layer, block_input(m, layer));
    embedding_weights(w);
}

static void pass_slice(Model *m, const Batch *slice, size_t first, const Pass *pass) {
#pragma omp parallel num_threads((int)m->threads)
    {
        const Worker w = worker_make(m, pass, slice, first);
        const Range flat = columns_of(&w, m->tensors.flat);
        done(&w, OP_COUNT, NULL, FORWARD);
        if (pass->zero_gradients && first == 0) memset(m->gradients + flat.begin, 0, range_size(flat) * sizeof(real));
        done(&w, OP_CLEAR, NULL, FORWARD);
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

double model_forward_backward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step, double batch_weight,
                              bool zero_gradients) {
    const real loss_weight = (real)(batch_weight / ((double)batch->B * (double)batch->T));
    return pass_batch(m, batch,
                      &(Pass){.training = true,
                              .with_backward = true,
                              .zero_gradients = zero_gradients,
                              .seed = seed,
                              .micro_step = micro_step,
                              .loss_weight = loss_weight});
}
