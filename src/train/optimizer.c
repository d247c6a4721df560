/* From gradients to updates: the schedule of the learning rate, the norm by which gradients are clipped, and the
   update. AdamW and SGD are rows of the table in ops/update.h; `muon` is below.

   AdamW and SGD update every number by itself, so the threads share the flat arrays evenly, in ranges that ignore the
   borders of tensors. Muon orthogonalizes whole matrices, so each thread updates one matrix after another, and each
   rank some of the matrices. */
#include "train/optimizer.h"

#include <math.h>
#include <omp.h>

#include "base/range.h"
#include "ops/lanes.h"
#include "ops/newton_schulz.h"
#include "ops/update.h"
#include "ranks/ranks.h"

enum { PARTIAL = 4096 }; /* numbers per partial sum of the norm */

static size_t partial_count(size_t flat) { return flat / PARTIAL + 1; }

static const OptimizerRow *row_of(const Optimizer *o) { return &OPTIMIZERS[o->config->train.optimizer]; }
static bool by_muon(const Optimizer *o, const Tensor *t) { return row_of(o)->muon && t->blocks->is_matrix; }

static bool in_bf16(const Optimizer *o) { return o->config->train.precision == PRECISION_BF16; }

/* Returns the floating-point operations by which the matrices are sorted. The order is the same in bf16. */
static double flops(const Matrix *matrix) { return newton_schulz_flops(matrix->rows, matrix->columns, false); }

/* Adds the matrices of a tensor to Muon's. They are sorted by falling cost, so that no thread begins a large one at
   the end. Finds the largest workspace. */
static void add_matrices(Optimizer *o, const Tensor *t) {
    for (const ColumnBlock *block = t->blocks; block < t->blocks + t->block_count; block++) {
        if (block->lr_scale == 0) continue; /* not learned, and so not decayed */
        const size_t columns = block->end - block->begin;
        const Matrix new = {t->offset + block->begin, t->size[0], columns, t->width, block->lr_scale};
        const size_t workspace =
            size_add(new.rows *new.columns, newton_schulz_scratch(new.rows, new.columns, in_bf16(o)));
        if (workspace > o->workspace_size) o->workspace_size = workspace;
        size_t i = o->matrix_count++;
        for (; i > 0 && flops(&o->matrices[i - 1]) < flops(&new); i--) o->matrices[i] = o->matrices[i - 1];
        o->matrices[i] = new;
    }
}

static void take_moments(Optimizer *o) {
    o->m = arena_take(&o->arena, o->flat, sizeof(real));
    o->v = row_of(o)->moments == 1 ? NULL : arena_take(&o->arena, o->flat, sizeof(real));
    o->partial_sums = arena_take(&o->arena, partial_count(o->flat), sizeof(double));
    o->workspace = arena_take(&o->arena, size_mul(o->threads, o->workspace_size), sizeof(real));
}

void optimizer_make(Optimizer *o, const Config *config, const TensorTable *tensors, size_t threads) {
    *o = (Optimizer){.config = config, .threads = threads, .flat = tensors->flat};
    o->matrices = memory_make(size_mul(COLUMN_BLOCKS_MAX, tensors->count), sizeof *o->matrices, "Muon's matrices");
    for (size_t i = 0; i < tensors->count; i++)
        if (by_muon(o, &tensors->items[i])) add_matrices(o, &tensors->items[i]);
    do take_moments(o);
    while (arena_allocate(&o->arena, "the optimizer's moments"));
}

double learning_rate(const Config *config, size_t step) {
    double lr = config->train.lr, min_lr = config->train.min_lr;
    double t = (double)step, warmup = (double)config->train.warmup, steps = (double)config->train.steps;
    if (t < warmup) return lr * (t + 1) / (warmup + 1);
    if (t >= steps) return min_lr;
    return min_lr + 0.5 * (1 + cos(M_PI * (t - warmup) / (steps - warmup))) * (lr - min_lr);
}

MULTIVERSIONED static double sum_of_squares(const real *x, size_t n) {
    enum { SUMS = 8 };
    double lane[SUMS] = {0}, sum = 0;
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t l = 0; l < SUMS; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (size_t l = 0; l < SUMS; l++) sum += lane[l];
    return sum;
}

double gradient_norm(Optimizer *o, const real *gradients) {
    const size_t count = partial_count(o->flat);
#pragma omp parallel for num_threads((int)o->threads) schedule(static)
    for (size_t c = 0; c < count; c++) {
        size_t first = c * PARTIAL, n = o->flat - first < PARTIAL ? o->flat - first : PARTIAL;
        o->partial_sums[c] = sum_of_squares(gradients + first, n);
    }
    double sum = 0;
    for (size_t c = 0; c < count; c++) sum += o->partial_sums[c];
    return sqrt(sum);
}

/* Velocity b = momentum b + g, x = g + momentum b (Nesterov). */
MULTIVERSIONED static void nesterov(const Update *u, real *restrict x, real *restrict b, const real *restrict g,
                                    size_t n) {
    const Update k = *u;
    for (size_t i = 0; i < n; i++) {
        b[i] = k.momentum * b[i] + g[i] * k.clip;
        x[i] = g[i] * k.clip + k.momentum * b[i];
    }
}

/* p = p decay - lr sqrt(max(1, columns / rows)) orthogonalized x. `workspace` (workspace_size) belongs to the thread.
   Without `moves`, another rank updates the matrix, and only the velocity changes here: every rank has all
   velocities. */
MULTIVERSIONED static void muon(const Optimizer *o, const Update *u, double muon_lr, const Matrix *matrix, bool moves,
                                real *parameters, const real *gradients, real *workspace) {
    const size_t rows = matrix->rows, columns = matrix->columns, width = matrix->width;
    const double lr = muon_lr * matrix->lr_scale * sqrt(fmax(1, (double)columns / (double)rows));
    real *p = parameters + matrix->offset, *b = o->m + matrix->offset;      /* (rows, columns), a row every `width` */
    real *x = workspace, *newton_schulz_space = workspace + rows * columns; /* x: (rows, columns) */
    double squares = 0;
    for (size_t r = 0; r < rows; r++) {
        nesterov(u, x + r * columns, b + r * width, gradients + matrix->offset + r * width, columns);
        squares += sum_of_squares(x + r * columns, columns);
    }
    if (!moves) return;
    const real inverse = (real)(1 / (sqrt(squares) + 1e-7)),
               decay = (real)(1 - muon_lr * o->config->train.weight_decay);
    for (size_t r = 0; r < rows; r++) {
        lanes_scale(x + r * columns, columns, inverse);
        lanes_scale(p + r * width, columns, decay);
    }
    newton_schulz(rows, columns, x, in_bf16(o), (real)-lr, p, width, newton_schulz_space);
}

/* Returns how many numbers of a tensor, from its number `at` on, have the same learning rate and decay. These are all
   the following ones if its column blocks agree in both, otherwise those up to the end of this row of the block. Sets
   *block to the block of number `at`. */
static size_t uniform_count(const Tensor *t, size_t at, const ColumnBlock **block) {
    const size_t column = at % t->width;
    bool alike = true;
    for (size_t i = 1; i < t->block_count; i++)
        alike = alike && t->blocks[i].decays == t->blocks[0].decays && t->blocks[i].lr_scale == t->blocks[0].lr_scale;
    *block = t->blocks;
    while (column >= (*block)->end) ++*block;
    return alike ? t->count - at : (*block)->end - column;
}

/* Updates the numbers of `range` of the flat arrays, except Muon's matrices. */
static void update_range(const Optimizer *o, const TensorTable *tensors, Update u, real *parameters,
                         const real *gradients, double lr, Range range) {
    const OptimizerRow *row = row_of(o);
    const double weight_decay = row->muon ? o->config->train.adamw_decay : o->config->train.weight_decay;
    for (size_t i = 0; i < tensors->count; i++) {
        const Tensor *t = &tensors->items[i];
        if (by_muon(o, t)) continue;
        const size_t begin = t->offset > range.begin ? t->offset : range.begin;
        const size_t end = t->offset + t->count < range.end ? t->offset + t->count : range.end;
        for (size_t at = begin, count; at < end; at += count) {
            const ColumnBlock *block;
            count = uniform_count(t, at - t->offset, &block);
            if (count > end - at) count = end - at;
            u.lr = (real)(lr * block->lr_scale);
            u.decay = block->decays ? (real)(1 - lr * weight_decay) : 1;
            row->update(&u, parameters + at, o->m + at, o->v ? o->v + at : NULL, gradients + at, count);
        }
    }
}

void optimizer_step(Optimizer *o, const TensorTable *tensors, real *parameters, const real *gradients, double norm,
                    double lr, size_t step) {
    const Config *c = o->config;
    const size_t ranks = ranks_count(), rank = ranks_index();
    double t = (double)step + 1, clip = c->train.grad_clip > 0 ? c->train.grad_clip / (norm + 1e-6) : 1;
    const Update update = {
        .clip = (real)(clip < 1 ? clip : 1),
        .beta1 = (real)c->train.beta1,
        .beta2 = (real)c->train.beta2,
        .one_minus_beta1 = (real)(1 - c->train.beta1),
        .one_minus_beta2 = (real)(1 - c->train.beta2),
        .eps = (real)c->train.eps,
        .bias_correction1 = (real)(1 / (1 - pow(c->train.beta1, t))),
        .bias_correction2 = (real)(1 / sqrt(1 - pow(c->train.beta2, t))),
        .momentum = (real)c->train.momentum,
    };
    const double muon_lr = lr / c->train.lr * c->train.muon_lr;
#pragma omp parallel num_threads((int)o->threads)
    {
        const size_t thread = (size_t)omp_get_thread_num();
        Range range = range_split(o->flat, PARTIAL, thread, (size_t)omp_get_num_threads());
        update_range(o, tensors, update, parameters, gradients, lr, range);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < o->matrix_count; i++)
            muon(o, &update, muon_lr, &o->matrices[i], i % ranks == rank, parameters, gradients,
                 o->workspace + thread * o->workspace_size);
    }
    for (size_t i = 0; i < o->matrix_count; i++) {
        const Matrix *m = &o->matrices[i];
        ranks_share(parameters + m->offset, m->rows, m->width * sizeof(real), m->columns * sizeof(real), i % ranks);
    }
}
