/* The plain engine against the fast one in double precision: losses and every gradient of a step. The plain engine
   itself is compared with differences by ./train gradcheck lab/tests/gradcheck.ini --set train.engine=plain. */
#include "model_case.h"

/* Losses and gradients of two micro-batches by one engine, with the model's parameters as they are. */
static double two_micro_batches(Setup *u, Engine *engine) {
    const Batch swapped = {u->batch.targets, u->batch.tokens, u->batch.B, u->batch.T};
    const Pass first = training_pass(SEED, 0, .5, true), second = training_pass(SEED, 1, .5, false);
    double sum = engine_pass(engine, &u->batch, &first);
    if (batch_targets(&u->batch) == u->batch.B * u->batch.T) sum += engine_pass(engine, &swapped, &second);
    return sum;
}

/* Fills the gradients with NaN: a pass must not read what it finds there. */
static void forget_gradients(Setup *u) {
    for (size_t i = 0; i < u->model.tensors.flat; i++) u->model.gradients[i] = (real)NAN;
}

static void compare(const Case *c) {
    Setup u;
    Engine plain;
    setup(&u, c, true);
    engine_make(&plain, ENGINE_PLAIN, 1, &u.model);
    const size_t rows = u.batch.B * u.batch.T;
    for (size_t r = 0; c->answers && r < rows; r++)
        if (r % c->answers) u.ids[rows + r] = -1;
    forget_gradients(&u);
    const double fast_loss = two_micro_batches(&u, &u.engine);
    real *fast = copied_reals(u.model.gradients, u.model.tensors.flat);
    forget_gradients(&u);
    assert_close(two_micro_batches(&u, &plain), fast_loss, 1e-12 * fast_loss, "%s: loss", c->name);
    for (size_t i = 0; i < u.model.tensors.count; i++) {
        const Tensor *t = &u.model.tensors.items[i];
        const double largest = max_abs(fast + t->offset, t->count);
        for (size_t j = t->offset; j < t->offset + t->count; j++)
            assert_close(u.model.gradients[j], fast[j], 1e-12 * largest, "%s: %s[%zu]", c->name, t->name,
                         j - t->offset);
    }
    const double validation = model_forward(&u.model, &u.batch);
    const size_t correct = u.model.correct, T = u.batch.T, V = u.model.shape.V;
    const real *losses = copied_reals(u.model.losses, rows);
    assert_close(engine_pass(&plain, &u.batch, &(Pass){0}), validation, 1e-12 * validation,
                 "%s: loss without a backward pass", c->name);
    assert_int_equal(u.model.correct, correct);
    assert_all_close(u.model.losses, losses, rows, 1e-12, "losses");
    const Batch blind = {.tokens = u.batch.tokens, .B = u.batch.B, .T = T};
    assert_close(model_forward(&u.model, &blind), 0, 0, "%s: no targets, no loss", c->name);
    if (model_slice_size(&u.model.shape, blind.B) < blind.B)
        return teardown(&u); /* which has the logits of its last slice */
    for (size_t b = 0; b < blind.B; b++)
        assert_all_close(u.model.logits.values + b * T * V, plain_logits(&plain.plain, b), T * V, 1e-12, "logits");
    teardown(&u);
}

static void every_combination(void **state) {
    (void)state;
    for (unsigned n = 0; n < 16 * 6; n++) {
        static const Init inits[] = {INIT_UNIT, INIT_TORCH, INIT_GPT2};
        char name[64];
        Case c = {.name = name,
                  .post = n & 1,
                  .activation = n & 2 ? ACTIVATION_RELU : ACTIVATION_GELU,
                  .no_bias = n & 4,
                  .untied = n & 8,
                  .divisor = {(ScaleMode)(n / 16), n / 16 == SCALE_SQRT_DMODEL ? 12 : 3.7},
                  .init = inits[n % 3],
                  .threads = 1 + n % 3};
        snprintf(name, sizeof name, "combination %u", n);
        compare(&c);
    }
}

static void every_edge(void **state) {
    (void)state;
    static const Case three_tiles = {.name = "three tiles of queries", .T = 150, .B = 2, .threads = 2, .L = 1};
    static const Case three_slices = {.name = "three slices", .T = SLICE_ROWS / 4, .B = 9, .threads = 2, .L = 1};
    compare(&three_tiles);
    compare(&three_slices);
    for (size_t n = 0; n < COUNT_OF(EDGES); n++)
        if (EDGES[n].dropout == 0) compare(&EDGES[n]);
}

/* Each sequence adds up its own gradients, so the number of threads changes no bit. */
static void threads_change_nothing(void **state) {
    (void)state;
    static const size_t threads[] = {1, 2, 3, 8};
    real *gradients[COUNT_OF(threads)];
    double losses[COUNT_OF(threads)];
    size_t flat = 0;
    for (size_t n = 0; n < COUNT_OF(threads); n++) {
        const Case c = {.name = "threads", .plain = true, .B = 5, .T = 20, .C = 40, .threads = threads[n]};
        Setup u;
        setup(&u, &c, true);
        losses[n] = backward(&u, 1, true);
        flat = u.model.tensors.flat;
        gradients[n] = copied_reals(u.model.gradients, flat);
        assert_true(losses[n] == losses[0]);
        assert_memory_equal(gradients[n], gradients[0], flat * sizeof(real));
    }
}

static void sizes_that_do_not_fit(void **state) {
    (void)state;
    const Case small = {.name = "small"};
    Setup u;
    Plain plain;
    setup(&u, &small, true);
    u.model.shape.T = (size_t)1 << 40;
    assert_fails(STATUS_FAILED, "the plain engine's", plain_make(&plain, &u.model));
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    const struct CMUnitTest tests[] = {
        TEST(every_combination),
        TEST(every_edge),
        TEST(threads_change_nothing),
        TEST(sizes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
