/* The schedule against nanoGPT's formula, Muon's orthogonalization against its definition, and what an update promises
   beside its formula, which test_torch.c compares with PyTorch's. */
#include "support.h"

#include "ops/newton_schulz.h"
#include "train/optimizer.h"

static const ModelShape SHAPE = {.T = 16,
                                 .C = 40,
                                 .attention = {.H = 2, .D = 20, .qk_init_scale = 1, .qk_lr_scale = 4},
                                 .F = 160,
                                 .V = 70,
                                 .L = 1,
                                 .pre_norm = true,
                                 .bias = true,
                                 .tied = true};

static Config *config_of(OptimizerKind kind) {
    static Config config;
    config.train.optimizer = kind;
    config.train.beta1 = 0.9, config.train.beta2 = 0.99, config.train.eps = 1e-8;
    config.train.momentum = 0.9, config.train.weight_decay = 0.1, config.train.grad_clip = 1;
    config.train.lr = 0.1, config.train.muon_lr = 0.02, config.train.adamw_decay = 0.3;
    return &config;
}

/* nanoGPT, train.py, get_lr. */
static double nano_gpt(double it, double warmup, double decay, double lr, double min_lr) {
    if (it < warmup) return lr * (it + 1) / (warmup + 1);
    if (it > decay) return min_lr;
    double ratio = (it - warmup) / (decay - warmup);
    return min_lr + 0.5 * (1 + cos(M_PI * ratio)) * (lr - min_lr);
}

static void schedule(void) {
    const size_t warmups[] = {0, 1, 100, 999};
    Config *c = config_of(OPTIMIZER_ADAMW);
    c->train.steps = 1000, c->train.lr = 3e-3, c->train.min_lr = 2e-4;
    for (size_t w = 0; w < COUNT_OF(warmups); w++) {
        c->train.warmup = warmups[w];
        for (size_t step = 0; step <= 1000; step++)
            assert_close(learning_rate(c, step), nano_gpt((double)step, (double)warmups[w], 1000, 3e-3, 2e-4), 1e-15,
                         "step %zu, warmup %zu", step, warmups[w]);
        assert_close(learning_rate(c, warmups[w]), 3e-3, 1e-15, "after the warmup");
        assert_close(learning_rate(c, 1000), 2e-4, 1e-15, "at the end");
    }
    c->train.warmup = 100;
    assert_close(learning_rate(c, 0), 3e-3 / 101, 1e-15, "first step");
    assert_close(learning_rate(c, 550), (3e-3 + 2e-4) / 2, 1e-15, "half way down");
    const size_t longer[] = {1000, 5000}; /* never reaches lr, and divides by nothing */
    for (size_t w = 0; w < COUNT_OF(longer); w++) {
        c->train.warmup = longer[w];
        for (size_t step = 0; step < 1000; step++)
            assert_close(learning_rate(c, step), 3e-3 * (double)(step + 1) / (double)(longer[w] + 1), 1e-15,
                         "step %zu of a warmup of %zu", step, longer[w]);
        assert_true(isfinite(learning_rate(c, 1000)));
    }
}

static void norm(void) {
    static const size_t sizes[] = {1, 7, 4095, 4096, 4097, 50000};
    for (size_t n = 0; n < COUNT_OF(sizes); n++) {
        Optimizer o;
        real *g = normal_reals(sizes[n], 1e3), *last = g + sizes[n] - 1;
        const TensorTable table = {.flat = sizes[n]};
        long double sum = 0;
        double first = 0;
        for (size_t i = 0; i < sizes[n]; i++) sum += (long double)g[i] * (long double)g[i];
        for (size_t threads = 1; threads <= 8; threads *= 2) {
            optimizer_make(&o, config_of(OPTIMIZER_SGD), &table, threads);
            const double got = gradient_norm(&o, g);
            if (threads == 1) first = got;
            assert_close(got, sqrtl(sum), 1e-14 * got, "norm of %zu", sizes[n]);
            assert_close(got, first, 0, "norm of %zu by %zu threads", sizes[n], threads);
        }
        *last = NAN;
        assert_true(isnan(gradient_norm(&o, g)));
        *last = INFINITY;
        assert_true(isinf(gradient_norm(&o, g)));
        *last = 3e38f; /* its square is too large for a float */
        assert_true(isfinite(gradient_norm(&o, g)));
        support_release(NULL);
    }
}

static real *gradients(const TensorTable *table) { return normal_reals(table->flat, 1); }

/* Muon (Jordan et al. 2024): x (m,n) with the norm 1, iterated as it is defined, on its smaller side. */
static void reference_newton_schulz(double *x, size_t m, size_t n) {
    const bool tall = m > n;
    const size_t s = tall ? n : m, k = tall ? m : n, down = tall ? 1 : n, across = tall ? n : 1;
    double *a = memory_make(2 * s * s + s, sizeof *a, "an array"), *b = a + s * s, *column = b + s * s;
#define X(i, j) x[(i)*down + (j)*across] /* (s,k) */
    for (int iteration = 0; iteration < 5; iteration++) {
        memset(a, 0, s * s * sizeof *a);
        for (size_t i = 0; i < s; i++)
            for (size_t j = 0; j < s; j++)
                for (size_t l = 0; l < k; l++) a[i * s + j] += X(i, l) * X(j, l);
        for (size_t i = 0; i < s; i++)
            for (size_t j = 0; j < s; j++) {
                b[i * s + j] = -4.775 * a[i * s + j] + (i == j ? 3.4445 : 0);
                for (size_t l = 0; l < s; l++) b[i * s + j] += 2.0315 * a[i * s + l] * a[l * s + j];
            }
        for (size_t j = 0; j < k; j++) {
            for (size_t i = 0; i < s; i++) column[i] = X(i, j), X(i, j) = 0;
            for (size_t i = 0; i < s; i++)
                for (size_t l = 0; l < s; l++) X(i, j) += b[i * s + l] * column[l];
        }
    }
#undef X
    memory_free(a);
}

static bool is_qk(const Tensor *t, size_t at) {
    const bool attention = t->role == ATTN_W || t->role == ATTN_B;
    return attention && at % t->width < 2 * t->width / 3;
}

/* The parameters after one step of the same gradients from the same start. */
static const real *after_a_step(const Config *c, double qk_lr_scale) {
    ModelShape shape = SHAPE;
    Optimizer o;
    shape.attention.qk_lr_scale = qk_lr_scale;
    const TensorTable table = tensors_make(&shape);
    support_stream = 0;
    real *p = normal_reals(table.flat, 0.02), *g = gradients(&table);
    optimizer_make(&o, c, &table, 2);
    optimizer_step(&o, &table, p, g, gradient_norm(&o, g), 0.1, 0);
    return p;
}

/* W_Q, W_K and their biases change by qk_lr_scale times as much as otherwise, if nothing decays; with 0 they stay as
   they are, to the bit, without decay. All else is the same. */
static void qk_lr_scale(void) {
    for (OptimizerKind kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        Config *c = config_of(kind);
        const TensorTable table = tensors_make(&SHAPE);
        support_stream = 0;
        const real *start = normal_reals(table.flat, 0.02), *fixed = after_a_step(c, 0), *decayed = after_a_step(c, 1);
        c->train.weight_decay = c->train.adamw_decay = 0;
        const real *once = after_a_step(c, 1), *four_times = after_a_step(c, 4);
        for (size_t i = 0; i < table.count; i++) {
            const Tensor *t = &table.items[i];
            for (size_t j = 0; j < t->count; j++) {
                const size_t at = t->offset + j;
                const double change = (double)once[at] - (double)start[at];
                const double expected = (double)start[at] + (is_qk(t, j) ? 4 : 1) * change;
                assert_close(four_times[at], expected, 1e-6, "%s[%zu] at four times the rate", t->name, j);
                assert_that(fixed[at] == (is_qk(t, j) ? start : decayed)[at], "%s[%zu] at the rate 0", t->name, j);
            }
        }
        support_release(NULL);
    }
}

/* A matrix (m,n) of rank at most `rank`, of norm 1. */
static real *matrix_of(size_t m, size_t n, size_t rank) {
    real *x = normal_reals(m * n, 1);
    double squares = 0;
    if (rank < m && rank < n) {
        const real *a = normal_reals(m * rank, 1), *b = normal_reals(rank * n, 1);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) {
                x[i * n + j] = 0;
                for (size_t r = 0; r < rank; r++) x[i * n + j] += a[i * rank + r] * b[r * n + j];
            }
    }
    for (size_t i = 0; i < m * n; i++) squares += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < m * n; i++) x[i] /= (real)sqrt(squares);
    return x;
}

/* Orthogonalizes x (m,n), after it is made of norm 1. Returns how far the result is from the definition, as a share of
   its norm. */
static double error_of(real *x, size_t m, size_t n, bool bf16) {
    real *y = reals(m * n);
    double *expected = memory_make(m * n, sizeof *expected, "an array"), squares = 0, norm = 0, distance = 0;
    for (size_t i = 0; i < m * n; i++) squares += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < m * n; i++) {
        x[i] /= (real)sqrt(squares);
        expected[i] = (double)x[i];
    }
    reference_newton_schulz(expected, m, n);
    newton_schulz(m, n, x, bf16, 1, y, n, reals(newton_schulz_scratch(m, n, bf16)));
    for (size_t i = 0; i < m * n; i++) {
        norm += expected[i] * expected[i];
        distance += ((double)y[i] - expected[i]) * ((double)y[i] - expected[i]);
    }
    return sqrt(distance / norm);
}

typedef enum { RANDOM, COLUMN_DECADES, ROW_DECADES, REPEATED_ROWS, REPEATED_COLUMN, ZERO_ROWS, KINDS } Kind;
/* Returns a random matrix (m,n) of this rank; or of full rank, whose columns from the fifth on or whose rows have
   smaller and smaller sizes, down to 1e-4; or whose first `rank` rows are repeated, its first column, or its other rows
   zero. */
static real *matrix_of_kind(Kind kind, size_t m, size_t n, size_t rank) {
    real *x = matrix_of(m, n, kind == RANDOM ? rank : m);
    for (size_t i = 0; i < m * n; i++) {
        if (kind == COLUMN_DECADES && i % n >= 4) x[i] *= 1e-4f;
        if (kind == ROW_DECADES) x[i] *= (real)pow(10, -4 * (double)(i / n) / (double)m);
        if (kind == REPEATED_ROWS) x[i] = x[i % (rank * n)];
        if (kind == REPEATED_COLUMN) x[i] = x[i / n * n];
        if (kind == ZERO_ROWS && i / n >= rank) x[i] = 0;
    }
    return x;
}

/* Compares matrices of every shape. Where a matrix has singular values near 0, the rounding of float is multiplied by
   up to 3.4445^5 = 485. */
static void orthogonalized(void) {
    static const struct {
        size_t m, n, rank;
    } shapes[] = {{1, 1, 1},     {1, 37, 37},   {37, 1, 37},     {2, 3, 3},   {40, 40, 40}, {40, 40, 3},
                  {33, 130, 90}, {130, 33, 90}, {128, 128, 128}, {64, 96, 1}, {96, 31, 2},  {17, 16, 40}};
    for (size_t c = 0; c < COUNT_OF(shapes); c++) {
        const size_t m = shapes[c].m, n = shapes[c].n, rank = shapes[c].rank;
        const double error = error_of(matrix_of(m, n, rank), m, n, false);
        assert_that(error < 1e-3, "%zu x %zu of rank %zu: off by %g", m, n, rank, error);
    }
}

/* The bounds of newton_schulz.h. */
static void orthogonalized_in_bf16(void) {
    static const size_t shapes[][2] = {{16, 16}, {16, 40}, {17, 31}, {33, 100}, {100, 33}, {128, 128}};
    for (size_t c = 0; c < COUNT_OF(shapes); c++) {
        const size_t m = shapes[c][0], n = shapes[c][1];
        for (Kind kind = RANDOM; kind < KINDS; kind++)
            for (size_t draw = 0, rank = 1; draw < (m * n < 4000 ? 20 : 3); draw++, rank = 2 * rank % 63) {
                const size_t mark = memory_mark(), rows = rank < m ? rank : m;
                const double error = error_of(matrix_of_kind(kind, m, n, rows), m, n, true);
                assert_that(error < (kind == RANDOM ? .06 : .13), "%zu x %zu of rank %zu, kind %d: off by %g", m, n,
                            rows, kind, error);
                memory_release(mark);
            }
    }
}

int main(void) {
    return RUN_TESTS(TEST(schedule), TEST(norm), TEST(qk_lr_scale), TEST(orthogonalized), TEST(orthogonalized_in_bf16));
}
