/* What the forward and the backward pass share: a thread's part of the work, and how it finds weights, taps and
   dropout. Only forward.c, backward.c and transformer.c include this. */
#ifndef SQRTDK_MODEL_PASS_H
#define SQRTDK_MODEL_PASS_H

#include <omp.h>

#include "base/range.h"
#include "model/transformer.h"
#include "ops/attention.h"
#include "ops/dropout.h"

/* What kind of pass it is. */
typedef struct {
    bool training; /* with dropout of (seed, micro_step) */
    bool returns;  /* backward as well, of loss_weight times the sum of the losses */
    bool fresh;    /* from gradients of zero */
    uint64_t seed, micro_step;
    real loss_weight;
} Pass;

/* What one thread knows during a pass. */
typedef struct {
    Model *m;
    const Pass *pass;
    const Batch *batch;
    size_t id, count; /* this thread and how many there are */
    size_t first;     /* row of the whole batch that is row 0 here */
    Range rows;       /* its rows of (B,T) */
    Range heads;      /* its (sequence, head) pairs */
    bool shares;      /* sequences are cut: attention reads rows of other threads */
} Worker;

/* Every thread of the region calls these, for the same batch. */
void pass_forward(const Worker *worker);
void pass_backward(const Worker *worker);

enum { LINE = 16 }; /* columns to a cache line: threads split gradients at multiples of it */

/* What this thread did since the last lap was `work`. */
static inline void lap(const Worker *w, Work work) {
    if (!w->m->stopwatches) return;
    Stopwatch *watch = &w->m->stopwatches[w->id];
    double now = omp_get_wtime();
    if (work != OP_COUNT) watch->seconds[work] += now - watch->last;
    watch->last = now;
}
static inline void start_lap(const Worker *w) { lap(w, OP_COUNT); }

static inline void barrier(const Worker *w) {
#pragma omp barrier
    lap(w, OP_WAIT);
}

/* Before and after attention, rows change hands if sequences are cut between threads. */
static inline void exchange_rows(const Worker *w) {
    if (w->shares) barrier(w);
}

static inline Range columns_of(const Worker *w, size_t columns) { return range_split(columns, LINE, w->id, w->count); }

static inline real *weight(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->parameters, role, layer);
}
static inline real *gradient(const Worker *w, Role role, size_t layer) {
    return tensor_at(&w->m->tensors, w->m->gradients, role, layer);
}

/* Shows this thread's rows of an activation, or of its gradient, to the model's tap. */
static inline void tap(const Worker *w, Place place, size_t layer, bool backward, real *array, size_t width) {
    const Tap *t = w->m->tap;
    if (t)
        t->look(t->context, &(TapView){.place = place,
                                       .layer = layer,
                                       .backward = backward,
                                       .values = array + w->rows.begin * width,
                                       .first = w->first + w->rows.begin,
                                       .rows = range_size(w->rows),
                                       .width = width});
}
static inline void tap_forward(const Worker *w, Place place, size_t layer, real *activation, size_t width) {
    tap(w, place, layer, false, activation, width);
}
static inline void tap_backward(const Worker *w, Place place, size_t layer, real *gradient_of_it, size_t width) {
    tap(w, place, layer, true, gradient_of_it, width);
}

/* Places of dropout: 0 the embeddings, then three a layer. */
static inline Dropout dropout_at(const Worker *w, uint32_t site) {
    const Pass *pass = w->pass;
    return dropout_make(pass->training ? w->m->shape.dropout : 0, pass->seed, pass->micro_step, site);
}
static inline Dropout weights_dropout(const Worker *w, size_t layer) {
    return dropout_at(w, (uint32_t)(3 * layer + 1));
}
static inline Dropout attention_dropout(const Worker *w, size_t layer) {
    return dropout_at(w, (uint32_t)(3 * layer + 2));
}
static inline Dropout mlp_dropout(const Worker *w, size_t layer) { return dropout_at(w, (uint32_t)(3 * layer + 3)); }

static inline AttentionShape attention_shape(const Worker *w, size_t layer, size_t pair) {
    const ModelShape *s = &w->m->shape;
    size_t HD = s->H * s->D;
    return (AttentionShape){.T = w->batch->T,
                            .D = s->D,
                            .stride = 3 * HD,
                            .out_stride = HD,
                            .multiplier = s->multiplier,
                            .dropout = weights_dropout(w, layer),
                            .dropout_row = (uint64_t)w->first * s->H + (uint64_t)pair * w->batch->T};
}

/* The last block's output after the final LayerNorm, if there is one: what the output embedding sees. */
static inline const real *final_output(const Model *m) {
    return m->shape.pre_norm ? m->ln_f : m->blocks[m->shape.L - 1].ln_2;
}

static inline const real *output_weight(const Worker *w) { return weight(w, w->m->shape.tied ? WTE : LM_HEAD, 0); }

#endif
