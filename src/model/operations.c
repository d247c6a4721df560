#include <omp.h>

#include "model/worker.h"
#include "ops/dropout.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

void profile(const Worker *w, PassOperation operation) {
    if (!w->m->profiles) return;
    Profile *p = &w->m->profiles[w->id];
    const double now = omp_get_wtime();
    if (operation != OP_COUNT) p->seconds[operation] += now - p->last;
    p->last = now;
}

void show(const Worker *w, const Activation *a, bool backward) {
    const Hook *hook = w->m->hook;
    if (!hook) return;
    hook->function(hook->context, &(HookView){.activation = a,
                                              .backward = backward,
                                              .values = (backward ? a->gradient : a->values) + w->rows.begin * a->width,
                                              .first = w->first + w->rows.begin,
                                              .rows = range_size(w->rows),
                                              .slice_row = w->rows.begin});
}

void barrier(const Worker *w) {
#pragma omp barrier
    profile(w, OP_WAIT);
}

Dropout dropout_at(const Worker *w, uint32_t site) {
    const Pass *pass = w->pass;
    return dropout_make(pass->training ? w->m->shape.dropout : 0, pass->seed, pass->micro_step, site);
}

static void linear_rows(const Worker *w, size_t layer, const Activation *y, const Activation *x, Role role) {
    linear_forward(y->values + w->rows.begin * y->width, x->values + w->rows.begin * x->width, weight(w, role, layer),
                   weight(w, role + 1, layer), range_size(w->rows), x->width, y->width);
    profile(w, OP_LINEAR);
}

void linear(const Worker *w, size_t layer, const Activation *y, const Activation *x, Role role) {
    linear_rows(w, layer, y, x, role);
    show(w, y, false);
}

void linear_residual(const Worker *w, size_t layer, const Sublayer *s, const Activation *a, Role role) {
    const Dropout dropout = dropout_at(w, s->dropout_site);
    const size_t at = w->rows.begin * s->sum.width;
    linear_rows(w, layer, &s->sum, a, role);
    dropout_rows(s->sum.values + at, s->sum.values + at, s->x->values + at, &dropout, w->first + w->rows.begin,
                 range_size(w->rows), s->sum.width);
    profile(w, OP_RESIDUAL);
    show(w, &s->sum, false);
}

void layernorm(const Worker *w, const LayerNorm *ln, const Activation *x) {
    const size_t C = x->width, at = w->rows.begin;
    layernorm_forward(ln->y.values + at * C, ln->mean + at, ln->rstd + at, x->values + at * C,
                      weight(w, ln->gain, ln->layer), weight(w, ln->gain + 1, ln->layer), range_size(w->rows), C);
    profile(w, OP_LAYERNORM);
    show(w, &ln->y, false);
}

static void linear_rows_backward(const Worker *w, size_t layer, const Activation *x, const real *dy, size_t out,
                                 Role role) {
    linear_backward_input(x->gradient + w->rows.begin * x->width, dy + w->rows.begin * out, weight(w, role, layer),
                          range_size(w->rows), x->width, out);
    profile(w, OP_LINEAR_BACK);
}

void linear_backward(const Worker *w, size_t layer, const Activation *x, const Activation *y, Role role,
                     const real *residual) {
    linear_rows_backward(w, layer, x, y->gradient, y->width, role);
    if (residual) {
        for (size_t i = w->rows.begin * x->width; i < w->rows.end * x->width; i++) x->gradient[i] += residual[i];
        profile(w, OP_RESIDUAL_BACK);
    }
    show(w, x, true);
}

const real *branch_gradient(const Worker *w, const Sublayer *s) {
    const Dropout dropout = dropout_at(w, s->dropout_site);
    return dropout_is_on(&dropout) ? s->masked : s->sum.gradient;
}

void linear_residual_backward(const Worker *w, size_t layer, const Sublayer *s, const Activation *a, Role role) {
    const Dropout dropout = dropout_at(w, s->dropout_site);
    const size_t C = s->sum.width, at = w->rows.begin;
    if (dropout_is_on(&dropout)) {
        dropout_rows(s->masked + at * C, s->sum.gradient + at * C, NULL, &dropout, w->first + at, range_size(w->rows),
                     C);
        profile(w, OP_RESIDUAL_BACK);
    }
    linear_rows_backward(w, layer, a, branch_gradient(w, s), C, role);
    show(w, a, true);
}

void layernorm_backward(const Worker *w, const LayerNorm *ln, const Activation *x, const real *residual) {
    const size_t C = x->width, at = w->rows.begin;
    layernorm_backward_input(x->gradient + at * C, residual ? residual + at * C : NULL, ln->y.gradient + at * C,
                             x->values + at * C, weight(w, ln->gain, ln->layer), ln->mean + at, ln->rstd + at,
                             range_size(w->rows), C);
    profile(w, OP_LAYERNORM_BACK);
    show(w, x, true);
}

void linear_weights(const Worker *w, size_t layer, const Activation *x, const real *dy, size_t out, Role role) {
    const size_t rows = w->batch->B * w->batch->T;
    real *bias = gradient(w, role + 1, layer);
    linear_backward_weight(gradient(w, role, layer), x->values, dy, rows, x->width, out,
                           tile_split(x->width, out, LINE, w->id, w->count));
    if (bias) linear_backward_bias(bias, dy, rows, out, columns_of(w, out));
    profile(w, OP_LINEAR_WEIGHTS);
}

void layernorm_weights(const Worker *w, const LayerNorm *ln, const Activation *x) {
    const size_t C = x->width;
    layernorm_backward_weight(gradient(w, ln->gain, ln->layer), gradient(w, ln->gain + 1, ln->layer), ln->y.gradient,
                              x->values, ln->mean, ln->rstd, w->batch->B * w->batch->T, C, columns_of(w, C));
    profile(w, OP_LAYERNORM_BACK);
}
