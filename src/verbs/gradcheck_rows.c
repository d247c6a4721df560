/* Compares the gradients of the backward pass with differences of the loss. Each parameter tensor, or each column block
   of one, has a row in the table, which is printed row by row as the check proceeds. */
#include <float.h>
#include <math.h>

#include "base/interrupt.h"
#include "model/initialization.h"
#include "ops/activation.h"
#include "verbs/gradcheck.h"

static const double WIDEST = 64; /* perturbation of a parameter */

/* Returns a generous bound on the rounding of the loss. */
static double rounding_of(const GradientCheck *c) { return 4 * DBL_EPSILON * c->loss; }

/* --- The loss, and its change where a parameter is perturbed. */

/* Makes the passes of a training step, or only their forward halves. Returns how far the mean loss is above that of
   c->losses. Differences are summed position by position, so that the rounding of a sum of thousands of losses does not
   hide what one entry does to them. With the backward passes sets c->losses and their mean. */
static double make_passes(GradientCheck *c, bool with_backward) {
    const Shards *shards = &c->engine->shards;
    const size_t B = c->batches->B, T = c->batches->T;
    double mean = 0;
    for (size_t shard = 0; shard < shards->own; shard += shards->at_once) {
        const Range own = shards_sequences(shards, shard, B);
        for (size_t micro = 0; micro < c->count; micro++) {
            const double weight = 1 / ((double)batch_targets(&c->batches[micro]) * (double)c->count);
            double sum = 0;
            engine_pass_shards(c->engine, shard, &c->batches[micro],
                               (Pass){.training = true,
                                      .seed = c->seed,
                                      .micro_step = c->micro_step + micro,
                                      .with_backward = with_backward,
                                      .zero_gradients = with_backward && micro == 0,
                                      .batch_weight = 1 / (double)c->count});
            for (size_t r = own.begin * T; r < own.end * T; r++) {
                const double loss = (double)c->engine->model->losses[r];
                sum += loss - c->losses[micro * B * T + r];
                if (!with_backward) continue;
                c->losses[micro * B * T + r] = loss;
                c->loss += loss * weight;
            }
            mean += sum * weight;
        }
        if (with_backward) engine_end_shards(c->engine, shard);
    }
    return mean;
}

/* Returns the change of the loss where a parameter is perturbed by delta. */
static double change(GradientCheck *c, real *parameter, double delta) {
    const real unperturbed = *parameter;
    *parameter = unperturbed + (real)delta;
    const double mean = make_passes(c, false);
    *parameter = unperturbed;
    return mean;
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
static double error_at(GradientCheck *c, real *parameter, double gradient, double scale) {
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

/* Compares an entry of a row's tensor and notes the largest error. */
static void compare_entry(GradientCheck *c, GradientRow *row, size_t entry) {
    const Model *m = c->engine->model;
    const size_t at = row->tensor->offset + entry;
    const double error = error_at(c, m->parameters + at, (double)m->gradients[at], row->scale);
    if (row->checked++ && fabs(error) <= fabs(row->error)) return;
    row->error = error;
    row->at[0] = entry / row->tensor->width;
    row->at[1] = entry % row->tensor->width;
}

/* Compares entries of a row: one from each of up to c->entries equal ranges, among them that with index `largest`,
   which has the largest gradient. */
static void compare(GradientCheck *c, GradientRow *row, size_t largest) {
    const Rng rng = rng_make(c->seed, RNG_SAMPLE, (uint32_t)(row - c->rows));
    const size_t ranges = row->count < c->entries ? row->count : c->entries, columns = range_size(row->columns);
    for (size_t n = 0; n < ranges && !isinf(row->error) && !interrupt_signal(); n++) {
        const size_t begin = row->count * n / ranges, end = row->count * (n + 1) / ranges;
        const bool has_largest = begin <= largest && largest < end;
        const size_t i = has_largest ? largest : begin + rng_below(&rng, n, end - begin);
        compare_entry(c, row, i / columns * row->tensor->width + row->columns.begin + i % columns);
    }
}

/* Counts the row's entries, finds the largest gradients, where one that is no number counts as infinite, and sets the
   scale. Returns which entry of the row has its largest. */
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

void gradcheck_print(const GradientRow *row, FILE *out) {
    char compared[48], where[48];
    snprintf(compared, sizeof compared, "%zu/%zu", row->checked, row->count);
    snprintf(where, sizeof where, "[%zu,%zu]", row->at[0], row->at[1]);
    fprintf(out, "%-25s %11s %7.1e ", row->name, compared, row->largest);
    if (row->zero && !row->failed) fprintf(out, "zero, as expected\n");
    else fprintf(out, "%+8.1e %8.1e %9s%s\n", row->error, row->relative, where, row->failed ? " FAILED" : "");
    fflush(out);
}

static void check_block(GradientCheck *c, const Tensor *t, const ColumnBlock *block) {
    GradientRow *row = &c->rows[c->row_count++];
    *row = (GradientRow){.tensor = t, .columns = {block->begin, block->end}};
    snprintf(row->name, sizeof row->name, "%s%s%s", t->name, *block->name ? " " : "", block->name);
    compare(c, row, find_largest(c, row));
    row->failed = !(fabs(row->error) <= GRADCHECK_TOLERANCE * row->scale) || isinf(row->scale);
    row->relative = row->error == 0 ? 0 : fabs(row->error) / row->scale;
    if (c->print && !interrupt_signal()) gradcheck_print(row, c->print);
}

void gradcheck_make(GradientCheck *c) {
    static const char WHAT[] = "the check of gradients";
    const Model *m = c->engine->model;
    c->losses = memory_make(c->count * c->batches->B * c->batches->T, sizeof *c->losses, WHAT);
    c->rows = memory_make(COLUMN_BLOCKS_MAX * m->tensors.count, sizeof *c->rows, WHAT);
    for (size_t i = 0; i < m->tensors.flat; i++)
        m->gradients[i] = (real)NAN; /* a pass that zeroes gradients must not read them */
    make_passes(c, true);
    if (make_passes(c, false) != 0)
        runtime_error("the forward pass alone gives another loss than the forward and backward pass");
}

void gradcheck_run(GradientCheck *c) {
    const TensorTable *tensors = &c->engine->model->tensors;
    if (c->print) fputs("tensor                       compared largest    error relative     where\n", c->print);
    for (const Tensor *t = tensors->items; t < tensors->items + tensors->count; t++)
        for (size_t i = 0; i < t->block_count && !interrupt_signal(); i++) check_block(c, t, &t->blocks[i]);
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
