/* The passes of the whole model in double precision: the guarantees about masks of dropout and sizes. Slices without
   dropout are in test_gradients_plain.c. */
#include "model_case.h"

static double forward_with_dropout(Setup *u) {
    return model_pass(&u->model, &u->batch, &(Pass){.training = true, .seed = SEED, .micro_step = u->micro_step});
}

static void dropout_is_drawn_by_step(void **state) {
    (void)state;
    Case c = {.name = "dropout", .dropout = .2, .threads = 2};
    Setup u;
    setup(&u, &c, true);
    double first = backward(&u, 1, true);
    assert_true(forward_with_dropout(&u) == first);
    u.micro_step++;
    double second = backward(&u, 1, true), plain = model_forward(&u.model, &u.batch);
    u.micro_step--;
    assert_true(first != second && first != plain && second != plain);
    assert_true(backward(&u, 1, true) == first);
    const Pass other = training_pass(SEED + 1, u.micro_step, 1, true);
    assert_true(model_pass(&u.model, &u.batch, &other) != first);
    teardown(&u);
}

/* Dropout masks differ between sequences and are the same in the backward pass: along the gradient the loss changes
   by the gradient's length. */
static void slices_have_masks_of_their_own(void **state) {
    (void)state;
    Setup u;
    const Case c = {.name = "slices with dropout", .L = 1, .T = SLICE_ROWS / 4, .B = 9, .threads = 2, .dropout = .3};
    setup(&u, &c, true);
    const size_t T = u.batch.T, flat = u.model.tensors.flat;
    for (size_t b = 1; b < 9; b++) memcpy(u.ids + b * T, u.ids, T * sizeof *u.ids);
    backward(&u, 1, true);
    double length = 0, loss[2];
    for (size_t i = 0; i < flat; i++) length += u.model.gradients[i] * u.model.gradients[i];
    real *parameters = copied_reals(u.model.parameters, flat);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < flat; i++)
            u.model.parameters[i] = parameters[i] + (side ? -1e-5 : 1e-5) * u.model.gradients[i];
        loss[side] = forward_with_dropout(&u) / (9 * (double)T);
    }
    assert_close((loss[0] - loss[1]) / 2e-5, length, 1e-6 * length, "change of the loss");
    for (size_t a = 0; a < 9; a++)
        for (size_t b = 0; b < a; b++)
            assert_true(memcmp(u.model.losses + a * T, u.model.losses + b * T, T * sizeof(real)) != 0);
    teardown(&u);
}

/* Sizes beyond size_t, beyond int (for BLAS) and beyond any machine end in an error. */
static void sizes_that_do_not_fit(void **state) {
    (void)state;
    static const Case cases[] = {
        {.C = SIZE_MAX / 2},    {.L = SIZE_MAX / 4},
        {.V = (size_t)1 << 62}, {.H = (size_t)1 << 33, .D = (size_t)1 << 33},
        {.T = (size_t)1 << 40}, {.F = SIZE_MAX},
        {.B = SIZE_MAX / 8},    {.T = (size_t)1 << 30, .B = 1 << 20},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        Model model;
        ModelShape shape = shape_of(&cases[n]);
        assert_that(!works(model_make(&model, &shape, cases[n].B ? cases[n].B : 2, 2, true)), "case %zu", n);
        assert_that(err.status != STATUS_OK && err.message[0], "case %zu has a message", n);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    const struct CMUnitTest tests[] = {
        TEST(dropout_is_drawn_by_step),
        TEST(slices_have_masks_of_their_own),
        TEST(sizes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
