/* Compares the gradients of the backward pass with differences of the loss. Each parameter tensor and each
   activation is an array here, and each part of it has a row in the table, which is printed row by row as the check
   proceeds. */
#include "verbs/gradcheck.h"

#include <float.h>

#include "base/interrupt.h"
#include "base/text.h"
#include "model/initialization.h"
#include "verbs/difference.h"

static const double WIDEST_STEP = 64;

/* A whole tensor, or an activation over all micro-batches. */
typedef struct {
    const char *name;
    real *parameters; /* NULL: an activation */
    const real *gradient;
    size_t rows, width;
} Array;

/* A part of an array, with a row of the table to itself. */
typedef struct {
    const char *suffix;
    Range rows, columns;
    bool expected_zero;
} ArrayPart;

static size_t entry_of(const Array *a, const ArrayPart *p, size_t i) {
    size_t columns = range_size(p->columns);
    return (p->rows.begin + i / columns) * a->width + p->columns.begin + i % columns;
}

/* The largest |gradient| of a part, or the first that is not finite; *at is the index of its entry in the part. */
static double find_largest(const Array *a, const ArrayPart *p, size_t *at) {
    double largest = -1;
    for (size_t i = 0; i < range_size(p->rows) * range_size(p->columns); i++) {
        double size = fabs((double)a->gradient[entry_of(a, p, i)]);
        if (size <= largest) continue;
        largest = size, *at = i;
        if (!isfinite(size)) break;
    }
    return largest;
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

/* Compares entries of a part and notes the largest error in `row`. `largest` is the index of the entry with the
   largest gradient, `scale` the size that gradients are measured in, `rounding` the error of the loss. Returns the
   step that the differences took. */
static double compare(GradientCheck *c, const Array *a, const ArrayPart *p, GradientRow *row, size_t largest,
                      double scale, double rounding) {
    const Rng rng = rng_make(c->loss.original.seed, RNG_SAMPLE, (uint32_t)(row - c->table.rows));
    /* The first step is so wide that rounding hides nothing, and no wider. For gradients a billionth of the others'
       size, as q and k have in the first block of a post-norm model, that is far from zero. */
    double step = fmin(rounding / (DIFFERENCE_ACCURACY * scale), WIDEST_STEP);
    /* One entry is compared from each of `checked` equal ranges; the largest comes first and settles the step. */
    const size_t first = ((largest + 1) * row->checked - 1) / row->count;
    for (size_t n = 0; n < row->checked && !isnan(row->error) && !interrupt_signal(); n++) {
        size_t range = (first + n) % row->checked, begin = row->count * range / row->checked;
        size_t end = row->count * (range + 1) / row->checked;
        c->loss.entry = entry_of(a, p, n == 0 ? largest : begin + rng_below(&rng, n, end - begin));
        c->loss.parameter = a->parameters ? a->parameters + c->loss.entry : NULL;
        double slope = difference_extrapolated(perturbed_loss_change, &c->loss, rounding, scale, &step);
        double error = (double)a->gradient[c->loss.entry] - slope;
        if (n == 0 || !(fabs(error) <= fabs(row->error))) {
            row->error = error;
            row->at[0] = c->loss.entry / a->width, row->at[1] = c->loss.entry % a->width;
        }
    }
    return step;
}

static void check_part(GradientCheck *c, const Array *a, const ArrayPart *p) {
    const ArrayPart all = {.rows = {0, a->rows}, .columns = {0, a->width}};
    const size_t count = range_size(p->rows) * range_size(p->columns);
    size_t largest = 0, somewhere = 0;
    GradientRow *row = &c->table.rows[c->table.count++];
    *row = (GradientRow){.is_activation = !a->parameters,
                         .expected_zero = p->expected_zero,
                         .count = count,
                         .checked = count < c->entries ? count : c->entries,
                         .largest = find_largest(a, p, &largest)};
    snprintf(row->name, sizeof row->name, "%s%s", a->name, p->suffix);
    const double found = find_largest(a, &all, &somewhere);
    /* An array that is zero as a whole has no scale of its own; the loss is its scale. */
    const bool entire = p->expected_zero && count == a->rows * a->width && isfinite(found);
    const double whole = entire ? c->loss.loss : found, scale = p->expected_zero ? whole : row->largest;
    const double rounding = 4 * DBL_EPSILON * c->loss.loss; /* a generous bound on the rounding of the loss */
    const double step = compare(c, a, p, row, largest, scale, rounding);
    const double tolerance = GRADCHECK_TOLERANCE * scale, error = fabs(row->error);
    if (!isfinite(whole)) row->failure = "is not finite";
    else if (p->expected_zero && row->largest > GRADCHECK_ZERO * whole) row->failure = "must be zero and is not";
    else if (!p->expected_zero && row->largest == 0) row->failure = "is zero and must not be";
    else if (!(error <= fmax(tolerance, fmin(rounding / step, GRADCHECK_TOLERANCE * whole)))) row->failure = "is off";
    row->rounded = !row->failure && error > tolerance;
    row->relative = error == 0 ? 0 : error / (row->rounded ? whole : scale);
    if (c->print && !interrupt_signal()) {
        gradcheck_print(row, c->print);
        fflush(c->print);
    }
}

/* Checks an array: a row for each column block, and one for the positions that a batch shorter than the context does
   not reach. `t` is its tensor; NULL: an activation. */
static void check_array(GradientCheck *c, const Array *a, const Tensor *t) {
    const Model *m = c->loss.model;
    const AttentionConfig *attention = &m->shape.attention;
    const size_t T = c->loss.original.batches->T, rows = t && t->role == WPE ? T : a->rows;
    /* What attention reads has the column blocks (q, k, v) of the layer that computes it. */
    const Activation *activation = c->loss.activation;
    const bool is_qkv = !t && activation == &m->blocks[activation->layer].qkv;
    const Tensor *parts = t ? t : is_qkv ? tensor_find(&m->tensors, ATTN_W, 0) : NULL;
    const size_t count = parts ? parts->block_count : 1;
    for (size_t i = 0; i < count; i++) {
        const ColumnBlock *block = count > 1 ? &parts->blocks[i] : &(ColumnBlock){.name = "", .end = a->width};
        bool zero = m->shape.V == 1; /* whatever the logit is, the loss is 0 */
        if (count > 1)
            zero = zero || attention_gradient_vanishes(attention, (AttentionPart)i, t && t->dimensions == 1, T);
        if (t && attention_parameter_of(t->role) != ATTENTION_PARAMETERS)
            zero = zero || attention_parameter_vanishes(attention, attention_parameter_of(t->role), T);
        char suffix[8];
        snprintf(suffix, sizeof suffix, "%s%s", *block->name ? " " : "", block->name);
        check_part(c, a, &(ArrayPart){suffix, {0, rows}, {block->begin, block->end}, zero});
    }
    if (rows < a->rows) check_part(c, a, &(ArrayPart){" beyond T", {rows, a->rows}, {0, a->width}, true});
}

static void check_tensors(GradientCheck *c) {
    const Model *m = c->loss.model;
    for (size_t i = 0; i < m->tensors.count && !interrupt_signal(); i++) {
        const Tensor *t = &m->tensors.items[i];
        real *parameters = m->parameters + t->offset, *gradient = m->gradients + t->offset;
        check_array(c, &(Array){t->name, parameters, gradient, t->count / t->width, t->width}, t);
    }
}

static void check_activations(GradientCheck *c) {
    const Model *m = c->loss.model;
    for (size_t i = 0; i < c->loss.activation_count && !interrupt_signal(); i++) {
        char name[40] = "";
        const Activation *activation = c->loss.activations[i];
        if (activation != &m->ln_f.y && activation != &m->logits)
            snprintf(name, sizeof name, "h.%zu.", activation->layer);
        text_append(name, sizeof name, "%s", activation->name);
        perturbed_loss_choose(&c->loss, activation);
        check_array(c, &(Array){name, NULL, c->loss.gradient, c->loss.original.count * c->loss.rows, activation->width},
                    NULL);
    }
}

void gradcheck_make(GradientCheck *c, const TrainingLoss *loss, size_t entries, FILE *print) {
    *c = (GradientCheck){.entries = entries, .print = print};
    perturbed_loss_make(&c->loss, loss);
    const size_t arrays = loss->engine->model->tensors.count + c->loss.activation_count;
    c->table.rows = memory_make(COLUMN_BLOCKS_MAX * arrays, sizeof *c->table.rows, "the table of gradients");
}

void gradcheck_run(GradientCheck *c) {
    if (c->print) fputs("tensor or activation         compared largest    error relative     where\n", c->print);
    check_tensors(c);
    check_activations(c);
    perturbed_loss_end(&c->loss);
}

GradientTable gradcheck_model(const TrainingLoss *loss, size_t entries, FILE *print) {
    GradientCheck c;
    gradcheck_make(&c, loss, entries, print);
    gradcheck_run(&c);
    return c.table;
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
