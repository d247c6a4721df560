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

/* Makes the pass of some shards of a micro-batch, as in a training step, or only its forward half. */
static void pass(const TrainingLoss *l, size_t shard, size_t micro, bool with_backward) {
    engine_pass_shards(l->engine, shard, &l->batches[micro],
                       (Pass){.training = true,
                              .seed = l->seed,
                              .micro_step = l->micro_step + micro,
                              .with_backward = with_backward,
                              .zero_gradients = with_backward && micro == 0,
                              .batch_weight = 1 / (double)l->count});
}

/* Returns the weight of each loss of a micro-batch in the mean. */
static double weight_of(const TrainingLoss *l, size_t micro) {
    return 1 / ((double)batch_targets(&l->batches[micro]) * (double)l->count);
}

/* Computes the losses and, as a training step does, all gradients. */
static void compute(GradientCheck *c) {
    const TrainingLoss *l = &c->original;
    const Shards *shards = &l->engine->shards;
    const size_t B = l->batches->B, T = l->batches->T;
    for (size_t shard = 0; shard < shards->own; shard += shards->at_once) {
        const Range own = shards_sequences(shards, shard, B);
        for (size_t micro = 0; micro < l->count; micro++) {
            pass(l, shard, micro, true);
            for (size_t r = own.begin * T; r < own.end * T; r++) {
                c->losses[micro * B * T + r] = (double)l->engine->model->losses[r];
                c->loss += c->losses[micro * B * T + r] * weight_of(l, micro);
            }
        }
        engine_end_shards(l->engine, shard);
    }
}

/* Returns the change of the loss where c->parameter is perturbed by delta. Differences are summed position by position,
   so that the rounding of a sum of thousands of losses does not hide what one entry does to them. */
static double change(void *check, double delta) {
    const GradientCheck *c = check;
    const TrainingLoss *l = &c->original;
    const Shards *shards = &l->engine->shards;
    const size_t rows = l->batches->B * l->batches->T;
    const real kept = *c->parameter;
    double mean = 0;
    *c->parameter = kept + (real)delta;
    for (size_t micro = 0; micro < l->count; micro++) {
        double sum = 0;
        for (size_t shard = 0; shard < shards->own; shard += shards->at_once) pass(l, shard, micro, false);
        for (size_t r = 0; r < rows; r++) sum += (double)l->engine->model->losses[r] - c->losses[micro * rows + r];
        mean += sum * weight_of(l, micro);
    }
    *c->parameter = kept;
    return mean;
}

/* --- The comparison. */

/* Some columns of a tensor, and how their gradients are measured. */
typedef struct {
    const Tensor *tensor;
    Range columns;
    double whole;    /* the largest gradient of the whole tensor */
    double scale;    /* the size that gradients are measured in */
    double rounding; /* a generous bound on the rounding of the loss */
} Part;

/* Returns where entry i of a part is in its tensor. */
static size_t entry_of(const Part *p, size_t i) {
    const size_t columns = range_size(p->columns);
    return i / columns * p->tensor->width + p->columns.begin + i % columns;
}

static size_t count_of(const Part *p) { return p->tensor->count / p->tensor->width * range_size(p->columns); }

/* Returns the largest |gradient| of a part, or the first that is not finite; *at is the index of its entry. */
static double find_largest(const Model *m, const Part *p, size_t *at) {
    double largest = -1;
    for (size_t i = 0; i < count_of(p); i++) {
        double size = fabs((double)m->gradients[p->tensor->offset + entry_of(p, i)]);
        if (size <= largest) continue;
        largest = size, *at = i;
        if (!isfinite(size)) break;
    }
    return largest;
}

/* A slope by differences, and a bound on its rounding. */
typedef struct {
    double value, rounding;
} Slope;

/* Returns the slope along c->parameter. */
static Slope slope_by(GradientCheck *c, const Part *p, Side side) {
    /* Differences on one side magnify rounding more than twice as much. */
    const double rounding = (side == CENTRAL ? 1 : 2.5) * p->rounding;
    /* The first step is so wide that rounding hides nothing, and no wider. For gradients a billionth of the others'
       size, as q and k have in the first block of a post-norm model, that is far from zero. */
    double step = fmin(rounding / (DIFFERENCE_ACCURACY * p->scale), WIDEST_STEP);
    const double value = difference_extrapolated(change, c, side, rounding, p->scale, &step);
    return (Slope){value, rounding / step};
}

/* Returns the slope along c->parameter of a loss with kinks, which one of three differences may find: that which agrees
   with `gradient`, or that on the side without a kink. Its value is NaN where differences cannot tell. */
static Slope slope_among_kinks(GradientCheck *c, const Part *p, double gradient) {
    const double most = GRADCHECK_TOLERANCE * p->whole; /* rounding that the tolerance allows */
    const Slope central = slope_by(c, p, CENTRAL), none = {NAN, 0};
    if (central.rounding <= most && fabs(gradient - central.value) <= GRADCHECK_TOLERANCE * p->scale) return central;
    const Slope below = slope_by(c, p, BELOW), above = slope_by(c, p, ABOVE);
    if (below.rounding > most && above.rounding > most) return central.rounding > most ? none : central;
    if (below.rounding > most) return above;
    if (above.rounding > most) return below;
    return fabs(above.value - below.value) <= GRADCHECK_TOLERANCE * p->scale ? below : none;
}

/* Compares an entry of a part and notes the largest error in `row`. */
static void compare_entry(GradientCheck *c, const Part *p, GradientRow *row, size_t entry) {
    const Model *m = c->original.engine->model;
    const double gradient = (double)m->gradients[p->tensor->offset + entry];
    c->parameter = m->parameters + p->tensor->offset + entry;
    const bool has_kinks = ACTIVATIONS[m->shape.activation].has_kinks;
    const Slope slope = has_kinks ? slope_among_kinks(c, p, gradient) : slope_by(c, p, CENTRAL);
    if (has_kinks && isnan(slope.value)) {
        row->skipped++;
        return;
    }
    const double error = gradient - slope.value, rounding = fmin(slope.rounding, GRADCHECK_TOLERANCE * p->whole);
    if (!(fabs(error) <= fmax(GRADCHECK_TOLERANCE * p->scale, rounding))) row->failure = "is off";
    if (row->checked++ == 0 || !(fabs(error) <= fabs(row->error))) {
        row->error = error;
        row->at[0] = entry / p->tensor->width, row->at[1] = entry % p->tensor->width;
    }
}

/* Compares entries of a part: one from each of up to c->entries equal ranges, among them that with index `largest`,
   which has the largest gradient. */
static void compare(GradientCheck *c, const Part *p, GradientRow *row, size_t largest) {
    const Rng rng = rng_make(c->original.seed, RNG_SAMPLE, (uint32_t)(row - c->rows));
    const size_t ranges = row->count < c->entries ? row->count : c->entries;
    for (size_t n = 0; n < ranges && !isnan(row->error) && !interrupt_signal(); n++) {
        const size_t begin = row->count * n / ranges, end = row->count * (n + 1) / ranges;
        const bool has_largest = begin <= largest && largest < end;
        compare_entry(c, p, row, entry_of(p, has_largest ? largest : begin + rng_below(&rng, n, end - begin)));
    }
}

void gradcheck_print(const GradientRow *row, FILE *out) {
    char compared[48], where[48];
    const char *mark = row->failure ? " FAILED" : row->rounded ? " ~" : "";
    snprintf(compared, sizeof compared, "%zu/%zu", row->checked, row->count);
    snprintf(where, sizeof where, "[%zu,%zu]", row->at[0], row->at[1]);
    fprintf(out, "%-25s %11s %7.1e ", row->name, compared, row->largest);
    if (row->expected_zero && !row->failure) fprintf(out, "zero, as expected\n");
    else fprintf(out, "%+8.1e %8.1e %9s%s\n", row->error, row->relative, where, mark);
}

static void check_block(GradientCheck *c, const Tensor *t, const ColumnBlock *block, bool expected_zero) {
    const Model *m = c->original.engine->model;
    const Part all = {.tensor = t, .columns = {0, t->width}};
    Part p = {.tensor = t, .columns = {block->begin, block->end}, .rounding = 4 * DBL_EPSILON * c->loss};
    size_t largest = 0, somewhere = 0;
    GradientRow *row = &c->rows[c->row_count++];
    *row =
        (GradientRow){.expected_zero = expected_zero, .count = count_of(&p), .largest = find_largest(m, &p, &largest)};
    snprintf(row->name, sizeof row->name, "%s%s%s", t->name, *block->name ? " " : "", block->name);
    p.whole = find_largest(m, &all, &somewhere);
    /* A tensor that is zero as a whole has no scale of its own; the loss is its scale. */
    if (expected_zero && row->count == t->count && isfinite(p.whole)) p.whole = c->loss;
    p.scale = expected_zero ? p.whole : row->largest;
    compare(c, &p, row, largest);
    if (!isfinite(p.whole)) row->failure = "is not finite";
    else if (expected_zero && row->largest > GRADCHECK_ZERO * p.whole) row->failure = "must be zero and is not";
    else if (!expected_zero && row->largest == 0) row->failure = "is zero and must not be";
    else if (row->checked == 0) row->failure = "has kinks of ReLU too near for differences (use another seed)";
    row->rounded = !row->failure && fabs(row->error) > GRADCHECK_TOLERANCE * p.scale;
    row->relative = row->error == 0 ? 0 : fabs(row->error) / (row->rounded ? p.whole : p.scale);
    if (c->print && !interrupt_signal()) {
        gradcheck_print(row, c->print);
        fflush(c->print);
    }
}

/* Checks a tensor: a row for each column block. */
static void check_tensor(GradientCheck *c, const Tensor *t) {
    const ModelShape *s = &c->original.engine->model->shape;
    const size_t T = c->original.batches->T;
    const AttentionParameter parameter = attention_parameter_of(t->role);
    for (size_t i = 0; i < t->block_count; i++) {
        bool zero = s->V == 1; /* whatever the logit is, the loss is 0 */
        if (t->block_count > 1)
            zero = zero || attention_gradient_vanishes(&s->attention, (AttentionPart)i, t->dimensions == 1, T);
        if (parameter != ATTENTION_PARAMETERS) zero = zero || attention_parameter_vanishes(&s->attention, parameter, T);
        check_block(c, t, &t->blocks[i], zero);
    }
}

void gradcheck_make(GradientCheck *c, const TrainingLoss *loss, size_t entries, FILE *print) {
    static const char WHAT[] = "the check of gradients";
    const Model *m = loss->engine->model;
    *c = (GradientCheck){.original = *loss, .entries = entries, .print = print, .parameter = m->parameters};
    c->losses = memory_make(loss->count * loss->batches->B * loss->batches->T, sizeof *c->losses, WHAT);
    c->rows = memory_make(COLUMN_BLOCKS_MAX * m->tensors.count, sizeof *c->rows, WHAT);
    for (size_t i = 0; i < m->tensors.flat; i++)
        m->gradients[i] = (real)NAN; /* a pass that zeroes gradients must not read them */
    compute(c);
    if (change(c, 0) != 0)
        runtime_error("the forward pass alone gives another loss than the forward and backward pass");
}

void gradcheck_run(GradientCheck *c) {
    const TensorTable *tensors = &c->original.engine->model->tensors;
    if (c->print) fputs("tensor                       compared largest    error relative     where\n", c->print);
    for (size_t i = 0; i < tensors->count && !interrupt_signal(); i++) check_tensor(c, &tensors->items[i]);
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
