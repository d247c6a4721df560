#include "gradcheck/gradcheck.h"

#include <float.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "gradcheck/difference.h"
#include "model/initialization.h"

static const double WIDEST_STEP = 64;

typedef struct {
    PerturbedLoss loss;
    size_t entries; /* compared in each row of the table */
    FILE *print;
    GradientTable *table;
} Engine;

/* A whole tensor, or an activation over all micro-batches. */
typedef struct {
    const char *name;
    real *parameters; /* NULL: an activation */
    const real *gradient;
    size_t rows, width;
} Field;

/* A part of it with a row of the table to itself. */
typedef struct {
    const char *suffix;
    Range rows, columns;
    bool expected_zero;
} Part;

static size_t entry_of(const Field *f, const Part *p, size_t i) {
    size_t columns = range_size(p->columns);
    return (p->rows.begin + i / columns) * f->width + p->columns.begin + i % columns;
}

/* The largest |gradient| of a part, or the first that is not finite, and which of its entries that is. */
static double find_largest(const Field *f, const Part *p, size_t *at) {
    double largest = -1;
    for (size_t i = 0; i < range_size(p->rows) * range_size(p->columns); i++) {
        double size = fabs((double)f->gradient[entry_of(f, p, i)]);
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

/* Compares entries of a part. `row` has its `largest`, the index of that is `largest`; the error is measured in units
   of `scale`. Returns the step that the differences took. */
static double compare(Engine *e, const Field *f, const Part *p, GradientRow *row, size_t largest, double scale,
                      double rounding) {
    const Rng rng = rng_make(e->loss.of.seed, RNG_SAMPLE, (uint32_t)(row - e->table->rows));
    /* So wide that rounding hides nothing, and no wider: for gradients a billionth of the others' size, as q and k have
       in the first block of a post-norm model, that is far from zero. */
    double step = fmin(rounding / (DIFFERENCE_ACCURACY * scale), WIDEST_STEP);
    /* One entry of each of `checked` equal ranges; the largest comes first, and settles the step. */
    const size_t first = ((largest + 1) * row->checked - 1) / row->count;
    for (size_t n = 0; n < row->checked && !isnan(row->error) && !interrupt_signal(); n++) {
        size_t range = (first + n) % row->checked, begin = row->count * range / row->checked;
        size_t end = row->count * (range + 1) / row->checked;
        e->loss.entry = entry_of(f, p, n == 0 ? largest : begin + rng_below(&rng, n, end - begin));
        e->loss.parameter = f->parameters ? f->parameters + e->loss.entry : NULL;
        double slope = difference_extrapolated(perturbed_loss_change, &e->loss, rounding, scale, &step);
        double error = (double)f->gradient[e->loss.entry] - slope;
        if (n == 0 || !(fabs(error) <= fabs(row->error))) {
            row->error = error;
            row->at[0] = e->loss.entry / f->width, row->at[1] = e->loss.entry % f->width;
        }
    }
    return step;
}

static void check_part(Engine *e, const Field *f, const Part *p) {
    const Part all = {.rows = {0, f->rows}, .columns = {0, f->width}};
    const size_t count = range_size(p->rows) * range_size(p->columns);
    size_t largest = 0, somewhere = 0;
    GradientRow *row = &e->table->rows[e->table->count++];
    *row = (GradientRow){.is_activation = !f->parameters,
                         .expected_zero = p->expected_zero,
                         .count = count,
                         .checked = count < e->entries ? count : e->entries,
                         .largest = find_largest(f, p, &largest)};
    snprintf(row->name, sizeof row->name, "%s%s", f->name, p->suffix);
    const double found = find_largest(f, &all, &somewhere);
    /* What is zero as a whole has no scale of its own: then that of the loss. */
    const bool entire = p->expected_zero && count == f->rows * f->width && isfinite(found);
    const double whole = entire ? e->loss.loss : found, scale = p->expected_zero ? whole : row->largest;
    const double rounding = 4 * DBL_EPSILON * e->loss.loss; /* of the loss, generously */
    const double step = compare(e, f, p, row, largest, scale, rounding);
    const double tolerance = GRADCHECK_TOLERANCE * scale, error = fabs(row->error);
    if (!isfinite(whole)) row->failure = "is not finite";
    else if (p->expected_zero && row->largest > GRADCHECK_ZERO * whole) row->failure = "must be zero and is not";
    else if (!p->expected_zero && row->largest == 0) row->failure = "is zero and must not be";
    else if (!(error <= fmax(tolerance, fmin(rounding / step, GRADCHECK_TOLERANCE * whole)))) row->failure = "is off";
    row->rounded = !row->failure && error > tolerance;
    row->relative = error == 0 ? 0 : error / (row->rounded ? whole : scale);
    if (e->print && !interrupt_signal()) {
        gradcheck_print(row, e->print);
        fflush(e->print);
    }
}

/* One row for each column block, or two where the batch is shorter than the context. `t` NULL: an activation. */
static void check_field(Engine *e, const Field *f, const Tensor *t) {
    const Model *m = e->loss.of.model;
    const Attention *a = &m->shape.attention;
    const size_t T = e->loss.of.batches->T, rows = t && t->role == WPE ? T : f->rows;
    /* The columns of what attention reads are those of the layer that computes it. */
    const Tensor *parts = t ? t : e->loss.activation->name == AT_QKV ? tensor_find(&m->tensors, ATTN_W, 0) : NULL;
    const size_t count = parts ? parts->block_count : 1;
    for (size_t i = 0; i < count; i++) {
        const ColumnBlock *block = count > 1 ? &parts->blocks[i] : &(ColumnBlock){.name = "", .end = f->width};
        bool zero = m->shape.V == 1; /* whatever the logit is, the loss is 0 */
        if (count > 1) zero = zero || attention_gradient_vanishes(a, (AttentionPart)i, t && t->dimensions == 1, T);
        if (t && t->role >= ATTN_V && t->role <= ATTN_SINKS)
            zero = zero || attention_parameter_vanishes(a, t->role - ATTN_V, T);
        char suffix[8];
        snprintf(suffix, sizeof suffix, "%s%s", *block->name ? " " : "", block->name);
        check_part(e, f, &(Part){suffix, {0, rows}, {block->begin, block->end}, zero});
    }
    if (rows < f->rows) check_part(e, f, &(Part){" beyond T", {rows, f->rows}, {0, f->width}, true});
}

static void check_tensors(Engine *e) {
    const Model *m = e->loss.of.model;
    for (size_t i = 0; i < m->tensors.count && !interrupt_signal(); i++) {
        const Tensor *t = &m->tensors.items[i];
        real *parameters = m->parameters + t->offset, *gradient = m->gradients + t->offset;
        check_field(e, &(Field){t->name, parameters, gradient, t->count / t->width, t->width}, t);
    }
}

/* After the layer that computes it. The output of a block is the input of the next, as the activations have it. */
static void name_activation(const Activation *a, size_t layers, char *out, size_t capacity) {
    static const char *const NAMES[AT_COUNT] = {"input",
                                                "ln_1 output",
                                                "attn.c_attn output",
                                                "attn output",
                                                "attn.c_proj output",
                                                "attn residual sum",
                                                "ln_2 output",
                                                "mlp.c_fc output",
                                                "mlp activation output",
                                                "mlp.c_proj output",
                                                "mlp residual sum",
                                                "ln_f output",
                                                "logits"};
    if (a->name == AT_LN_F || a->name == AT_LOGITS) snprintf(out, capacity, "%s", NAMES[a->name]);
    else if (a->layer == layers) snprintf(out, capacity, "h.%zu.output", layers - 1);
    else snprintf(out, capacity, "h.%zu.%s", a->layer, NAMES[a->name]);
}

static void check_activations(Engine *e) {
    for (size_t i = 0; i < e->loss.activation_count && !interrupt_signal(); i++) {
        char name[40];
        const Activation *activation = &e->loss.activations[i];
        name_activation(activation, e->loss.of.model->shape.L, name, sizeof name);
        perturbed_loss_choose(&e->loss, activation);
        check_field(e, &(Field){name, NULL, e->loss.gradient, e->loss.of.count * e->loss.rows, activation->width},
                    NULL);
    }
}

bool gradcheck_model(const TrainingLoss *of, size_t entries, FILE *print, GradientTable *table, Error *err) {
    Engine e = {.entries = entries, .print = print, .table = table};
    *table = (GradientTable){0};
    bool ok = perturbed_loss_make(&e.loss, of, err);
    if (ok) {
        table->rows =
            calloc(COLUMN_BLOCKS_MAX * (of->model->tensors.count + e.loss.activation_count), sizeof *table->rows);
        ok = table->rows || failed(err, "no memory for the table of gradients");
    }
    if (ok) {
        if (print) fputs("tensor or activation         compared largest    error relative     where\n", print);
        check_tensors(&e);
        check_activations(&e);
    }
    perturbed_loss_free(&e.loss);
    return ok;
}

void gradcheck_free(GradientTable *table) {
    free(table->rows);
    *table = (GradientTable){0};
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
