/* Compares the gradients of the backward pass with differences of the loss. Each parameter tensor, or each column block
   of one, has a row in the table, which is printed row by row as the check proceeds. */
#include <float.h>

#include "base/interrupt.h"
#include "model/initialization.h"
#include "ops/activation.h"
#include "verbs/difference.h"
#include "verbs/gradcheck.h"

static const double WIDEST_STEP = 64;

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

/* Returns the change of the loss where c->parameter is perturbed by delta. */
static double change(void *check, double delta) {
    GradientCheck *c = check;
    const real kept = *c->parameter;
    *c->parameter = kept + (real)delta;
    const double mean = make_passes(c, false);
    *c->parameter = kept;
    return mean;
}

/* --- The comparison. */

/* A slope by differences, and a bound on its rounding. */
typedef struct {
    double value, rounding;
} Slope;

/* Returns the slope along c->parameter. */
static Slope slope_by(GradientCheck *c, const GradientRow *row, Side side) {
    /* A generous bound on the rounding of the loss. Differences on one side magnify it more than twice as much. */
    const double rounding = (side == CENTRAL ? 1 : 2.5) * 4 * DBL_EPSILON * c->loss;
    /* The first step is so wide that rounding hides nothing, and no wider. For gradients a billionth of the others'
       size, as q and k have in the first block of a post-norm model, that is far from zero. */
    double step = fmin(rounding / (DIFFERENCE_ACCURACY * row->scale), WIDEST_STEP);
    const double value = difference_extrapolated(change, c, side, rounding, row->scale, &step);
    return (Slope){value, rounding / step};
}

/* Returns the slope along c->parameter of a loss with kinks. Central differences find it where they agree with
   `gradient`. Otherwise a kink near the entry lies on one side, and the differences on the other side agree with each
   other at a step that leaves the tolerance above rounding. If both sides agree, each on a slope of its own, the kink
   is nearer than differences can tell. If neither does, there are kinks on both sides. Then the value is NaN. */
static Slope slope_among_kinks(GradientCheck *c, const GradientRow *row, double gradient) {
    const double most = GRADCHECK_TOLERANCE * row->whole; /* rounding that the tolerance allows */
    const Slope central = slope_by(c, row, CENTRAL), none = {NAN, 0};
    if (central.rounding <= most && fabs(gradient - central.value) <= GRADCHECK_TOLERANCE * row->scale) return central;
    const Slope below = slope_by(c, row, BELOW), above = slope_by(c, row, ABOVE);
    if (below.rounding > most && above.rounding > most) return central.rounding > most ? none : central;
    if (below.rounding > most) return above;
    if (above.rounding > most) return below;
    return fabs(above.value - below.value) <= GRADCHECK_TOLERANCE * row->scale ? below : none;
}

/* Compares an entry of a row's tensor and notes the largest error. */
static void compare_entry(GradientCheck *c, GradientRow *row, size_t entry) {
    const Model *m = c->engine->model;
    const double gradient = (double)m->gradients[row->tensor->offset + entry];
    c->parameter = m->parameters + row->tensor->offset + entry;
    const bool has_kinks = ACTIVATIONS[m->shape.activation].has_kinks;
    const Slope slope = has_kinks ? slope_among_kinks(c, row, gradient) : slope_by(c, row, CENTRAL);
    if (has_kinks && isnan(slope.value)) {
        row->skipped++;
        return;
    }
    const double error = gradient - slope.value, rounding = fmin(slope.rounding, GRADCHECK_TOLERANCE * row->whole);
    if (!(fabs(error) <= fmax(GRADCHECK_TOLERANCE * row->scale, rounding))) row->failure = "is off";
    if (row->checked++ == 0 || !(fabs(error) <= fabs(row->error))) {
        row->error = error;
        row->at[0] = entry / row->tensor->width, row->at[1] = entry % row->tensor->width;
    }
}

/* Compares entries of a row: one from each of up to c->entries equal ranges, among them that with index `largest`,
   which has the largest gradient. */
static void compare(GradientCheck *c, GradientRow *row, size_t largest) {
    const Rng rng = rng_make(c->seed, RNG_SAMPLE, (uint32_t)(row - c->rows));
    const size_t ranges = row->count < c->entries ? row->count : c->entries, columns = range_size(row->columns);
    for (size_t n = 0; n < ranges && !isnan(row->error) && !interrupt_signal(); n++) {
        const size_t begin = row->count * n / ranges, end = row->count * (n + 1) / ranges;
        const bool has_largest = begin <= largest && largest < end;
        const size_t i = has_largest ? largest : begin + rng_below(&rng, n, end - begin);
        compare_entry(c, row, i / columns * row->tensor->width + row->columns.begin + i % columns);
    }
}

/* Counts the row's entries and finds the largest gradients, where one that is no number counts as infinite. Returns
   which entry of the row has its largest. */
static size_t find_largest(const Model *m, GradientRow *row) {
    const Tensor *t = row->tensor;
    size_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        const double gradient = fabs((double)m->gradients[t->offset + i]), size = isnan(gradient) ? INFINITY : gradient;
        const size_t column = i % t->width;
        row->whole = fmax(row->whole, size);
        if (column < row->columns.begin || column >= row->columns.end) continue;
        if (size > row->largest) at = row->count;
        row->largest = fmax(row->largest, size);
        row->count++;
    }
    return at;
}

void gradcheck_print(const GradientRow *row, FILE *out) {
    char compared[48], where[48];
    const char *mark = row->failure ? " FAILED" : row->rounded ? " ~" : "";
    snprintf(compared, sizeof compared, "%zu/%zu", row->checked, row->count);
    snprintf(where, sizeof where, "[%zu,%zu]", row->at[0], row->at[1]);
    fprintf(out, "%-25s %11s %7.1e ", row->name, compared, row->largest);
    if (row->zero && !row->failure) fprintf(out, "zero, as expected\n");
    else fprintf(out, "%+8.1e %8.1e %9s%s\n", row->error, row->relative, where, mark);
}

static void check_block(GradientCheck *c, const Tensor *t, const ColumnBlock *block) {
    GradientRow *row = &c->rows[c->row_count++];
    *row = (GradientRow){.tensor = t, .columns = {block->begin, block->end}};
    snprintf(row->name, sizeof row->name, "%s%s%s", t->name, *block->name ? " " : "", block->name);
    const size_t largest = find_largest(c->engine->model, row);
    if (row->whole <= GRADCHECK_ZERO * c->loss) row->whole = c->loss;
    row->zero = row->largest <= GRADCHECK_ZERO * row->whole;
    row->scale = row->zero ? row->whole : row->largest;
    compare(c, row, largest);
    if (!isfinite(row->whole)) row->failure = "is not finite";
    else if (row->checked == 0) row->failure = "has kinks of ReLU too near for differences (use another seed)";
    row->rounded = !row->failure && fabs(row->error) > GRADCHECK_TOLERANCE * row->scale;
    row->relative = row->error == 0 ? 0 : fabs(row->error) / (row->rounded ? row->whole : row->scale);
    if (c->print && !interrupt_signal()) {
        gradcheck_print(row, c->print);
        fflush(c->print);
    }
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
