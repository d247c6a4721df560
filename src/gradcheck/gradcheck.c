#include "gradcheck/gradcheck.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/range.h"
#include "base/rng.h"
#include "gradcheck/difference.h"
#include "gradcheck/perturbed_loss.h"
#include "model/initialization.h"

static const double WIDEST_STEP = 64;

typedef struct {
    const GradientCheck *check;
    GradientTable *table;
    PerturbedLoss loss;
} Engine;

/* A whole tensor, or the input of a layer over all micro-batches. */
typedef struct {
    const char *name;
    real *parameters; /* NULL: an input */
    const real *gradient;
    size_t rows, width;
    size_t dimensions;
} Field;

/* A part of it with a row of the table to itself. */
typedef struct {
    const char *suffix;
    Range rows, columns;
    bool expected_zero;
} Part;

/* Entry i of a part, in the whole. */
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

static const char *verdict(const GradientRow *row, double tolerance) {
    if (!isfinite(row->whole)) return "NAN";
    if (row->expected_zero && row->largest > GRADCHECK_ZERO * row->whole) return "NOT 0";
    if (!row->expected_zero && row->largest == 0) return "ZERO";
    return fabs(row->error) <= tolerance ? NULL : "OVER";
}

/* False when a signal came. */
static bool check_part(Engine *e, const Field *f, const Part *p) {
    const Part all = {.rows = {0, f->rows}, .columns = {0, f->width}};
    const size_t count = range_size(p->rows) * range_size(p->columns);
    const size_t most = e->check->entries ? e->check->entries : GRADCHECK_ENTRIES;
    const Rng rng = rng_make(e->check->seed, RNG_SAMPLE, (uint32_t)e->table->count);
    size_t largest = 0, somewhere = 0;
    GradientRow *row = &e->table->rows[e->table->count++];
    *row = (GradientRow){.is_input = !f->parameters,
                         .expected_zero = p->expected_zero,
                         .count = count,
                         .checked = count < most ? count : most,
                         .largest = find_largest(f, p, &largest),
                         .whole = find_largest(f, &all, &somewhere),
                         .dimensions = f->dimensions};
    snprintf(row->name, sizeof row->name, "%s%s", f->name, p->suffix);
    const double scale = p->expected_zero ? row->whole : row->largest;
    /* Of the loss, generously. A step so wide that it hides nothing, and no wider: for gradients a billionth of the
       others' size, as q and k have in the first block of a post-norm model, that is far from zero. */
    const double rounding = 4 * DBL_EPSILON * e->loss.loss;
    double step = fmin(rounding / (DIFFERENCE_ACCURACY * scale), WIDEST_STEP);
    /* One entry of each of `checked` equal shares; the largest comes first, and settles the step. */
    const size_t first = ((largest + 1) * row->checked - 1) / count;
    for (size_t n = 0; n < row->checked && !isnan(row->error); n++) {
        size_t share = (first + n) % row->checked, begin = count * share / row->checked;
        size_t end = count * (share + 1) / row->checked;
        e->loss.entry = entry_of(f, p, n == 0 ? largest : begin + rng_below(&rng, n, end - begin));
        e->loss.parameter = f->parameters ? f->parameters + e->loss.entry : NULL;
        double slope = difference_extrapolated(perturbed_loss_change, &e->loss, rounding, scale, &step);
        double error = (double)f->gradient[e->loss.entry] - slope;
        if (n == 0 || !(fabs(error) <= fabs(row->error))) {
            row->error = error;
            row->at[0] = e->loss.entry / f->width, row->at[1] = e->loss.entry % f->width;
        }
        if (interrupt_signal()) return false;
    }
    const double tolerance = GRADCHECK_TOLERANCE * scale;
    row->failure = verdict(row, fmax(tolerance, fmin(rounding / step, GRADCHECK_TOLERANCE * row->whole)));
    row->rounded = !row->failure && fabs(row->error) > tolerance;
    if (row->failure) e->table->failed++;
    return true;
}

/* One row for each column block, or two where the batch is shorter than the context. `t` NULL: an activation. */
static bool check_field(Engine *e, const Field *f, const Tensor *t) {
    const Model *m = e->check->model;
    const size_t T = e->check->batches->T;
    const Range rows = {0, f->rows}, columns = {0, f->width};
    const bool one_logit = m->shape.V == 1; /* whatever it is, the loss is 0 */
    /* The columns of what attention reads are those of the layer that computes it. */
    const Tensor *parts = t ? t : e->loss.activation->name == AT_QKV ? tensor_find(&m->tensors, ATTN_W, 0) : NULL;
    if (parts && parts->block_count > 1) {
        for (AttentionPart part = QUERY; part <= VALUE; part++) {
            const ColumnBlock *block = &parts->blocks[part];
            const bool is_bias = t && t->dimensions == 1;
            const bool zero = one_logit || attention_gradient_vanishes(&m->shape.attention, part, is_bias, T);
            char suffix[8];
            snprintf(suffix, sizeof suffix, " %s", block->name);
            if (!check_part(e, f, &(Part){suffix, rows, {block->begin, block->end}, zero})) return false;
        }
        return true;
    }
    if (t && t->role == WPE && T < m->shape.T)
        return check_part(e, f, &(Part){"", {0, T}, columns, one_logit}) &&
               check_part(e, f, &(Part){" beyond T", {T, m->shape.T}, columns, true});
    return check_part(e, f, &(Part){"", rows, columns, one_logit});
}

static void show(const Engine *e, size_t done) {
    if (e->check->progress)
        progress_count(e->check->progress, omp_get_wtime(), "tensors and inputs", done,
                       e->check->model->tensors.count + e->loss.activation_count);
}

static bool check_tensors(Engine *e) {
    const Model *m = e->check->model;
    for (size_t i = 0; i < m->tensors.count; i++) {
        const Tensor *t = &m->tensors.items[i];
        const Field field = {.name = t->name,
                             .parameters = m->parameters + t->offset,
                             .gradient = m->gradients + t->offset,
                             .rows = t->count / t->width,
                             .width = t->width,
                             .dimensions = t->dimensions};
        if (!check_field(e, &field, t)) return false;
        show(e, i + 1);
    }
    return true;
}

/* By the layer it goes into, behind "h.N." but for the last two. */
static void name_input(const ModelShape *s, const Activation *a, char *out, size_t capacity) {
    static const char *const PRE_NORM[AT_COUNT] = {"ln_1", "attn.c_attn", "attn",     "attn.c_proj", "attn residual",
                                                   "ln_2", "mlp.c_fc",    "mlp.gelu", "mlp.c_proj",  "mlp residual",
                                                   NULL,   "lm_head",     "loss"};
    static const char *const POST_NORM[AT_COUNT] = {
        "attn.c_attn", "mlp.c_fc",     "attn", "attn.c_proj", "attn residual", "ln_1", NULL, "mlp.gelu",
        "mlp.c_proj",  "mlp residual", "ln_2", NULL,          "loss"};
    const char *name = (s->pre_norm ? PRE_NORM : POST_NORM)[a->name];
    if (a->name == AT_X && a->layer == s->L)
        snprintf(out, capacity, "%s input", s->pre_norm ? "ln_f" : "lm_head");
    else if (a->name == AT_LN_F || a->name == AT_LOGITS)
        snprintf(out, capacity, "%s input", name);
    else
        snprintf(out, capacity, "h.%zu.%s input", a->layer, a->name == AT_FC && s->relu ? "mlp.relu" : name);
}

static bool check_inputs(Engine *e) {
    const Model *m = e->check->model;
    for (size_t i = 0; i < e->loss.activation_count; i++) {
        char name[32];
        const Activation *activation = &e->loss.activations[i];
        name_input(&m->shape, activation, name, sizeof name);
        perturbed_loss_choose(&e->loss, activation);
        const Field field = {.name = name,
                             .gradient = e->loss.gradient,
                             .rows = e->check->count * e->loss.rows,
                             .width = activation->width,
                             .dimensions = 2};
        if (!check_field(e, &field, NULL)) return false;
        show(e, m->tensors.count + i + 1);
    }
    return true;
}

bool gradcheck_model(const GradientCheck *check, GradientTable *table, Error *err) {
    *table = (GradientTable){0};
    Engine e = {.check = check, .table = table};
    bool ok =
        perturbed_loss_make(&e.loss, check->model, check->batches, check->count, check->seed, check->micro_step, err);
    if (ok) {
        table->rows =
            calloc(COLUMN_BLOCKS_MAX * (check->model->tensors.count + e.loss.activation_count), sizeof *table->rows);
        ok = table->rows || error_set(err, STATUS_FAILED, "no memory for the table of gradients");
    }
    if (ok && !(check_tensors(&e) && check_inputs(&e))) table->signal = interrupt_signal();
    if (check->progress) progress_clear(check->progress);
    perturbed_loss_free(&e.loss);
    return ok;
}

void gradcheck_free(GradientTable *table) {
    free(table->rows);
    *table = (GradientTable){0};
}

double gradcheck_relative(const GradientRow *row) {
    const double scale = row->expected_zero || row->rounded ? row->whole : row->largest;
    return row->error == 0 ? 0 : fabs(row->error) / scale;
}

const GradientRow *gradcheck_worst(const GradientTable *table) {
    const GradientRow *worst = NULL;
    double most = -1;
    for (size_t i = table->count; i-- > 0;) {
        const GradientRow *row = &table->rows[i];
        if (row->failure && row->is_input) return row;
        double relative = gradcheck_relative(row);
        if (row->failure && !(relative > GRADCHECK_TOLERANCE))
            relative = INFINITY; /* zero where it must not be, or NaN */
        if (relative > most) worst = row, most = relative;
    }
    return worst;
}

void gradcheck_parameters(Model *model, Init init, uint64_t seed) {
    tensors_initialise(&model->tensors, &model->shape, init, seed, model->threads, model->parameters);
    for (size_t i = 0; i < model->tensors.count; i++) {
        const Tensor *t = &model->tensors.items[i];
        const Rng rng = rng_make(seed, RNG_SAMPLE, (uint32_t)i);
        for (size_t j = 0; t->dimensions == 1 && j < t->count; j++)
            model->parameters[t->offset + j] += (real)(.3 * rng_normal(&rng, j));
    }
}
