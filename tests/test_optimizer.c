/* The schedule against nanoGPT's formula, the updates against the papers' written out for one number in double. */
#include "support.h"

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
    config.train.optimizer = (int)kind;
    config.train.beta1 = 0.9, config.train.beta2 = 0.99, config.train.eps = 1e-8;
    config.train.momentum = 0.9, config.train.weight_decay = 0.1, config.train.grad_clip = 1;
    return &config;
}

/* nanoGPT, train.py, get_lr. */
static double nano_gpt(double it, double warmup, double decay, double lr, double min_lr) {
    if (it < warmup) return lr * (it + 1) / (warmup + 1);
    if (it > decay) return min_lr;
    double ratio = (it - warmup) / (decay - warmup);
    return min_lr + 0.5 * (1 + cos(M_PI * ratio)) * (lr - min_lr);
}

static void schedule(void **state) {
    (void)state;
    const int64_t warmups[] = {0, 1, 100, 999};
    Config *c = config_of(OPTIMIZER_ADAMW);
    c->train.steps = 1000, c->train.lr = 3e-3, c->train.min_lr = 2e-4;
    for (size_t w = 0; w < COUNT_OF(warmups); w++) {
        c->train.warmup = warmups[w];
        for (size_t step = 0; step <= 1000; step++)
            assert_close(learning_rate(c, step), nano_gpt((double)step, (double)warmups[w], 1000, 3e-3, 2e-4), 1e-15,
                         "step %zu, warmup %d", step, (int)warmups[w]);
        assert_close(learning_rate(c, (size_t)warmups[w]), 3e-3, 1e-15, "after the warmup");
        assert_close(learning_rate(c, 1000), 2e-4, 1e-15, "at the end");
    }
    c->train.warmup = 100;
    assert_close(learning_rate(c, 0), 3e-3 / 101, 1e-15, "first step");
    assert_close(learning_rate(c, 550), (3e-3 + 2e-4) / 2, 1e-15, "half way down");
    const int64_t longer[] = {1000, 5000}; /* never reaches lr, and divides by nothing */
    for (size_t w = 0; w < COUNT_OF(longer); w++) {
        c->train.warmup = longer[w];
        for (size_t step = 0; step < 1000; step++)
            assert_close(learning_rate(c, step), 3e-3 * (double)(step + 1) / (double)(longer[w] + 1), 1e-15,
                         "step %zu of a warmup of %d", step, (int)longer[w]);
        assert_true(isfinite(learning_rate(c, 1000)));
    }
}

static void norm(void **state) {
    (void)state;
    const size_t sizes[] = {1, 7, 4095, 4096, 4097, 50000};
    for (size_t n = 0; n < COUNT_OF(sizes); n++) {
        real *g = normal_reals(sizes[n], 1e3);
        long double sum = 0;
        double first = 0;
        for (size_t i = 0; i < sizes[n]; i++) sum += (long double)g[i] * (long double)g[i];
        for (size_t threads = 1; threads <= 8; threads *= 2) {
            Optimizer o;
            Error err;
            assert_true(optimizer_make(&o, config_of(OPTIMIZER_SGD), sizes[n], threads, &err));
            double got = gradient_norm(&o, g);
            if (threads == 1) first = got;
            assert_close(got, sqrtl(sum), 1e-14 * got, "norm of %zu", sizes[n]);
            assert_close(got, first, 0, "norm of %zu by %zu threads", sizes[n], threads);
            if (threads == 1) {
                g[sizes[n] - 1] = NAN;
                assert_true(isnan(gradient_norm(&o, g)));
                g[sizes[n] - 1] = INFINITY;
                assert_true(isinf(gradient_norm(&o, g)));
                g[sizes[n] - 1] = 3e38f; /* its square is no float */
                assert_true(isfinite(gradient_norm(&o, g)));
                g[sizes[n] - 1] = 1;
                sum = 0;
                for (size_t i = 0; i < sizes[n]; i++) sum += (long double)g[i] * (long double)g[i];
                first = gradient_norm(&o, g);
            }
            optimizer_free(&o);
        }
    }
}

/* Gradients of ten steps, of sizes from far below the clip to far above it. */
static real *gradients_of_step(const TensorTable *table, size_t step) {
    const double sizes[] = {1e-4, 3, 1e-2, 50, 1, 1e-3, 0.2, 1e3, 1e-2, 0.1};
    real *g = reals(table->flat);
    for (size_t i = 0; i < table->count; i++)
        memcpy(g + table->items[i].offset, normal_reals(table->items[i].count, sizes[step]),
               table->items[i].count * sizeof *g);
    return g;
}

/* One number: Loshchilov and Hutter 2019, algorithm 2; torch.optim.SGD with decoupled decay. */
typedef struct {
    double p, m, v;
} Number;

static void reference_step(const Config *c, Number *n, double g, double decay, double lr, double lr_scale, double t) {
    double start = n->p;
    if (c->train.optimizer == OPTIMIZER_ADAMW) {
        n->m = c->train.beta1 * n->m + (1 - c->train.beta1) * g;
        n->v = c->train.beta2 * n->v + (1 - c->train.beta2) * g * g;
        double m_hat = n->m / (1 - pow(c->train.beta1, t)), v_hat = n->v / (1 - pow(c->train.beta2, t));
        n->p -= lr * lr_scale * m_hat / (sqrt(v_hat) + c->train.eps);
    } else {
        n->m = c->train.momentum * n->m + g;
        n->p -= lr * lr_scale * n->m;
    }
    n->p -= lr * decay * start;
}

/* Queries and keys are learned qk_lr_scale times as fast as the rest, and decay as it does. */
static double lr_scale(const Tensor *t, size_t at) {
    const bool attention = t->role == ATTN_W || t->role == ATTN_B;
    return attention && at % t->width < 2 * t->width / 3 ? SHAPE.attention.qk_lr_scale : 1;
}

/* Ten steps; the change of every parameter within 1e-5 of the largest change in its tensor. */
static void check_updates(const Config *c, size_t threads) {
    enum { STEPS = 10 };
    TensorTable table;
    Optimizer o;
    Error err;
    assert_true(tensors_make(&table, &SHAPE, &err));
    assert_true(optimizer_make(&o, c, table.flat, threads, &err));
    real *p = normal_reals(table.flat, 0.02), *start = copied_reals(p, table.flat);
    Number *numbers = calloc(table.flat, sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < table.flat; i++) numbers[i].p = (double)p[i];
    for (size_t step = 0; step < STEPS; step++) {
        real *g = gradients_of_step(&table, step);
        double length = gradient_norm(&o, g), lr = 0.1 / (double)(step + 1);
        double clip = c->train.grad_clip > 0 ? fmin(1, c->train.grad_clip / (length + 1e-6)) : 1;
        optimizer_step(&o, &table, p, g, length, lr, step);
        for (size_t i = 0; i < table.count; i++) {
            const Tensor *t = &table.items[i];
            for (size_t j = t->offset; j < t->offset + t->count; j++)
                reference_step(c, &numbers[j], (double)g[j] * clip, t->dimensions == 2 ? c->train.weight_decay : 0, lr,
                               lr_scale(t, j - t->offset), (double)step + 1);
        }
    }
    for (size_t i = 0; i < table.count; i++) {
        const Tensor *t = &table.items[i];
        double most = 0;
        for (size_t j = t->offset; j < t->offset + t->count; j++)
            most = fmax(most, fabs(numbers[j].p - (double)start[j]));
        assert_true(most > 0.01);
        for (size_t j = t->offset; j < t->offset + t->count; j++)
            assert_close((double)p[j] - (double)start[j], numbers[j].p - (double)start[j], 1e-5 * most, "%s[%zu]",
                         t->name, j - t->offset);
    }
    free(numbers);
    optimizer_free(&o);
    tensors_free(&table);
    support_release(NULL);
}

static void adamw(void **state) {
    (void)state;
    Config *c = config_of(OPTIMIZER_ADAMW);
    const double betas[][2] = {{0.9, 0.99}, {0.9, 0.999}, {0.99, 0.9999}, {0, 0}};
    for (size_t n = 0; n < COUNT_OF(betas); n++) {
        c->train.beta1 = betas[n][0], c->train.beta2 = betas[n][1];
        check_updates(c, n + 1);
    }
    c->train.grad_clip = 0, c->train.weight_decay = 3, c->train.eps = 0.1;
    check_updates(c, 3);
}

static void sgd(void **state) {
    (void)state;
    Config *c = config_of(OPTIMIZER_SGD);
    c->train.grad_clip = 100; /* over 20,000 numbers, a smaller one leaves changes too small for the tolerance */
    check_updates(c, 1);
    check_updates(c, 4);
    c->train.momentum = 0, c->train.weight_decay = 0;
    check_updates(c, 2);
    c->train.grad_clip = 0;
    check_updates(c, 2);
}

/* Without a gradient only decay moves anything, and only tensors of two dimensions. */
static void decay_alone(void **state) {
    (void)state;
    for (int kind = OPTIMIZER_ADAMW; kind <= OPTIMIZER_SGD; kind++) {
        TensorTable table;
        Optimizer o;
        Error err;
        assert_true(tensors_make(&table, &SHAPE, &err));
        assert_true(optimizer_make(&o, config_of((OptimizerKind)kind), table.flat, 2, &err));
        real *p = normal_reals(table.flat, 1), *before = copied_reals(p, table.flat), *g = reals(table.flat);
        optimizer_step(&o, &table, p, g, 0, 0.5, 0);
        for (size_t i = 0; i < table.count; i++) {
            const Tensor *t = &table.items[i];
            for (size_t j = t->offset; j < t->offset + t->count; j++)
                assert_close(p[j], t->dimensions == 2 ? 0.95 * (double)before[j] : (double)before[j],
                             t->dimensions == 2 ? 1e-7 * fabs((double)before[j]) : 0, "%s", t->name);
        }
        optimizer_free(&o);
        tensors_free(&table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(schedule), TEST(norm), TEST(adamw), TEST(sgd), TEST(decay_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
