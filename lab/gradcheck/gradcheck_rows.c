/* Compares the gradients of the backward pass with differences of the loss, row by row: a row is a parameter tensor, or
   a column block of one. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "lab/gradcheck/gradcheck.h"
#include "model/initialization.h"
#include "ops/activation.h"

static const double WIDEST = 64; /* perturbation of a parameter */

/* Returns a generous bound on the rounding of the loss. */
static double rounding_of(const GradientCheck *c) { return 4 * DBL_EPSILON * c->loss; }

/* --- The loss, and its change where a parameter is perturbed. */

/* Returns the losses of a micro-batch, by the forward half of a training pass. */
static const real *forward(const GradientCheck *c, size_t micro) {
    const Pass pass = {.training = true, .seed = c->seed, .micro_step = c->micro_step + micro};
    engine_pass(c->engine, &c->batches[micro], &pass);
    return c->engine->model->losses;
}

/* Returns how far the mean loss is above that of c->losses where a parameter is perturbed by delta. Differences are
   summed position by position, so that the rounding of a sum of thousands of losses does not hide what one entry does
   to them. */
static double change(const GradientCheck *c, real *parameter, double delta) {
    const size_t positions = c->batches->B * c->batches->T;
    const real unperturbed = *parameter;
    double mean = 0;
    *parameter = unperturbed + (real)delta;
    for (size_t micro = 0; micro < c->count; micro++) {
        const real *losses = forward(c, micro), *before = c->losses + micro * positions;
        double sum = 0;
        for (size_t i = 0; i < positions; i++) sum += (double)(losses[i] - before[i]);
        mean += sum / (double)c->engine->model->targets / (double)c->count;
    }
    *parameter = unperturbed;
    return mean;
}

void gradcheck_make(GradientCheck *c) {
    const size_t positions = c->batches->B * c->batches->T;
    c->losses = memory_make(c->count * positions, sizeof *c->losses, "the check of gradients");
    c->loss = change(c, c->engine->model->parameters, 0); /* above losses of 0 */
    for (size_t micro = 0; micro < c->count; micro++)
        memcpy(c->losses + micro * positions, forward(c, micro), positions * sizeof *c->losses);
}

/* --- The comparison. */

/* Returns the gradient minus the nearest slope of the loss along a parameter.

   Slopes are differences at a distance of h and h/2, extrapolated to h = 0 (Richardson 1911). Rounding wants h wide and
   curvature wants it narrow, and between the gradients of one model lie six powers of ten of either. So h starts where
   the rounding of the loss is a hundredth of the tolerance and is halved, until a slope is within a tenth of it. A
   slope counts if it is within the tolerance of the one before. Then curvature moves it by a third of the tolerance at
   most.

   A difference across a kink of ReLU is not a derivative. Then the slope on the side of the parameter without the kink,
   however near that is, is the derivative, or on the kink itself one of the two that ReLU may have there. */
static double error_at(const GradientCheck *c, real *parameter, double gradient, double scale) {
    const size_t sides = ACTIVATIONS[c->engine->model->shape.activation].has_kinks ? 3 : 1;
    const double tolerance = GRADCHECK_TOLERANCE * scale;
    double h = fmin(rounding_of(c) / (tolerance / 100), WIDEST), error = INFINITY;
    double above = change(c, parameter, h), below = change(c, parameter, -h);
    double before[] = {INFINITY, INFINITY, INFINITY};
    for (int halvings = 0; halvings <= 10 && fabs(error) > tolerance / 10; halvings++) {
        const double near_above = change(c, parameter, h / 2), near_below = change(c, parameter, -h / 2);
        const double slopes[] = {(8 * (near_above - near_below) - (above - below)) / (6 * h),
                                 (4 * near_above - above) / h, (below - 4 * near_below) / h};
        for (size_t i = 0; i < sides; i++) {
            const bool settled = fabs(slopes[i] - before[i]) <= tolerance;
            if (settled && fabs(gradient - slopes[i]) < fabs(error)) error = gradient - slopes[i];
            before[i] = slopes[i];
        }
        above = near_above;
        below = near_below;
        h /= 2;
    }
    return error;
}

/* Compares entries of a row: one from each of up to c->entries equal ranges, among them that with index `largest`,
   which has the largest gradient. Notes the largest error. */
static void compare(const GradientCheck *c, GradientRow *row, size_t largest) {
    const Model *m = c->engine->model;
    const Tensor *t = row->tensor;
    const Rng rng = rng_make(c->seed, RNG_SAMPLE, (uint32_t)(t->offset + row->columns.begin));
    const size_t ranges = row->count < c->entries ? row->count : c->entries, columns = range_size(row->columns);
    assert(columns > 0);
    for (; row->checked < ranges && !isinf(row->error) && !interrupt_signal(); row->checked++) {
        const size_t begin = row->count * row->checked / ranges, end = row->count * (row->checked + 1) / ranges;
        const bool has_largest = begin <= largest && largest < end;
        const size_t i = has_largest ? largest : begin + rng_below(&rng, row->checked, end - begin);
        const size_t at[] = {i / columns, row->columns.begin + i % columns},
                     entry = t->offset + at[0] * t->width + at[1];
        const double error = error_at(c, m->parameters + entry, (double)m->gradients[entry], row->scale);
        if (row->checked > 0 && fabs(error) <= fabs(row->error)) continue;
        row->error = error;
        memcpy(row->at, at, sizeof at);
    }
}

/* Counts the row's entries, finds the largest gradients, where one that is no number counts as infinite, and sets the
   row's scale. Returns which entry of the row has its largest. */
static size_t find_largest(const GradientCheck *c, GradientRow *row) {
    const Tensor *t = row->tensor;
    double whole = 0; /* the largest of the whole tensor */
    size_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        const double gradient = fabs((double)c->engine->model->gradients[t->offset + i]);
        const double size = isnan(gradient) ? INFINITY : gradient;
        const size_t column = i % t->width;
        whole = fmax(whole, size);
        if (column < row->columns.begin || column >= row->columns.end) continue;
        if (size > row->largest) at = row->count;
        row->largest = fmax(row->largest, size);
        row->count++;
    }
    if (whole <= GRADCHECK_ZERO * c->loss) whole = c->loss;
    row->zero = row->largest <= GRADCHECK_ZERO * whole;
    row->scale = fmax(row->zero ? whole : row->largest, rounding_of(c) / WIDEST / GRADCHECK_TOLERANCE);
    return at;
}

bool gradcheck_next(GradientCheck *c, GradientRow *row) {
    const TensorTable *tensors = &c->engine->model->tensors;
    if (c->tensor == tensors->count || interrupt_signal()) return false;
    const Tensor *t = &tensors->items[c->tensor];
    const ColumnBlock *block = &t->blocks[c->block++];
    *row = (GradientRow){.tensor = t, .columns = {block->begin, block->end}};
    snprintf(row->name, sizeof row->name, "%s%s%s", t->name, *block->name ? " " : "", block->name);
    compare(c, row, find_largest(c, row));
    row->failed = !(fabs(row->error) <= GRADCHECK_TOLERANCE * row->scale) || isinf(row->scale);
    row->relative = row->error == 0 ? 0 : fabs(row->error) / row->scale;
    if (c->block == t->block_count) {
        c->tensor++;
        c->block = 0;
    }
    return !interrupt_signal();
}

void gradcheck_parameters(Model *model, Init init, uint64_t seed) {
    tensors_initialize(&model->tensors, &model->shape, init, seed, model->threads, model->parameters);
    for (size_t i = 0; i < model->tensors.count; i++) {
        const Tensor *t = &model->tensors.items[i];
        const Rng rng = rng_make(seed, RNG_SAMPLE, (uint32_t)i);
        for (size_t j = 0; t->dimensions == 1 && j < t->count; j++)
            model->parameters[t->offset + j] += (real)(.3 * rng_normal(&rng, j));
    }
}
