/* The operations of worker.h: this thread's rows of each array, or its part of the weights. */
#include <omp.h>

#include "model/worker.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

void done(const Worker *w, PassOperation op, const Activation *a, Direction direction) {
    const Hook *hook = w->m->hook;
    if (w->m->profiles) {
        Profile *p = &w->m->profiles[w->id];
        const double now = omp_get_wtime();
        if (op != OP_COUNT) p->seconds[op] += now - p->last;
        p->last = now;
    }
    if (!hook || !a) return;
    hook->function(hook->context,
                   &(HookView){.activation = a,
                               .direction = direction,
                               .values = (direction == FORWARD ? a->values : a->gradient) + w->rows.begin * a->width,
                               .rows = range_size(w->rows),
                               .batch_row = w->batch_row + w->rows.begin,
                               .slice_row = w->rows.begin});
}

void barrier(const Worker *w) {
#pragma omp barrier
    done(w, OP_WAIT, NULL, FORWARD);
}

Dropout dropout_at(const Worker *w, size_t layer, DropoutSite site) {
    const Pass *pass = w->pass;
    return dropout_make(pass->training ? w->m->shape.dropout : 0, pass->seed, pass->micro_step,
                        (uint32_t)(3 * layer) + site);
}

void linear(const Worker *w, const Activation *y, const Activation *x, Role role, size_t layer) {
    linear_forward(y->values + w->rows.begin * y->width, x->values + w->rows.begin * x->width, weight(w, role, layer),
                   weight(w, role + 1, layer), range_size(w->rows), x->width, y->width);
    done(w, OP_LINEAR, y, FORWARD);
}

void residual(const Worker *w, const Activation *res, const Activation *x, const Activation *proj, size_t layer,
              DropoutSite site) {
    const Dropout dropout = dropout_at(w, layer, site);
    const size_t at = w->rows.begin * res->width;
    dropout_rows(res->values + at, proj->values + at, x->values + at, &dropout, w->batch_row + w->rows.begin,
                 range_size(w->rows), res->width);
    done(w, OP_RESIDUAL, res, FORWARD);
}

void layernorm(const Worker *w, const LayerNorm *ln, const Activation *x, Role role, size_t layer) {
    const size_t C = x->width, at = w->rows.begin;
    layernorm_forward(ln->y.values + at * C, ln->mean + at, ln->rstd + at, x->values + at * C, weight(w, role, layer),
                      weight(w, role + 1, layer), range_size(w->rows), C);
    done(w, OP_LAYERNORM, &ln->y, FORWARD);
}

void linear_backward(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer,
                     const Activation *skip) {
    const size_t at = w->rows.begin * x->width, rows = range_size(w->rows);
    linear_backward_input(x->gradient + at, y->gradient + w->rows.begin * y->width, weight(w, role, layer), rows,
                          x->width, y->width);
    done(w, OP_LINEAR_BACK, skip ? NULL : x, BACKWARD);
    if (!skip) return;
    residual_add(x->gradient + at, skip->gradient + at, rows * x->width);
    done(w, OP_RESIDUAL_BACK, x, BACKWARD);
}

void residual_backward(const Worker *w, const Activation *res, const Activation *proj, size_t layer, DropoutSite site) {
    const Dropout dropout = dropout_at(w, layer, site);
    const size_t at = w->rows.begin * res->width;
    if (proj->gradient != res->gradient) /* the model has dropout */
        dropout_rows(proj->gradient + at, res->gradient + at, NULL, &dropout, w->batch_row + w->rows.begin,
                     range_size(w->rows), res->width);
    done(w, OP_RESIDUAL_BACK, proj, BACKWARD);
}

void layernorm_backward(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer,
                        const Activation *skip) {
    const size_t C = x->width, at = w->rows.begin;
    layernorm_backward_input(x->gradient + at * C, skip ? skip->gradient + at * C : NULL, ln->y.gradient + at * C,
                             x->values + at * C, weight(w, role, layer), ln->mean + at, ln->rstd + at,
                             range_size(w->rows), C);
    done(w, OP_LAYERNORM_BACK, x, BACKWARD);
}

void linear_weights(const Worker *w, const Activation *x, const Activation *y, Role role, size_t layer) {
    const size_t rows = w->batch->B * w->batch->T;
    real *bias = gradient(w, role + 1, layer);
    linear_backward_weight(gradient(w, role, layer), x->values, y->gradient, rows, x->width, y->width,
                           tile_split(x->width, y->width, LINE, w->id, w->count));
    if (bias) linear_backward_bias(bias, y->gradient, rows, y->width, columns_of(w, y->width));
    done(w, OP_LINEAR_WEIGHTS, NULL, BACKWARD);
}

void layernorm_weights(const Worker *w, const Activation *x, const LayerNorm *ln, Role role, size_t layer) {
    const size_t C = x->width;
    layernorm_backward_weight(gradient(w, role, layer), gradient(w, role + 1, layer), ln->y.gradient, x->values,
                              ln->mean, ln->rstd, w->batch->B * w->batch->T, C, columns_of(w, C));
    done(w, OP_LAYERNORM_BACK, NULL, BACKWARD);
}
