/* Every gradient of the whole model against differences of its loss, by the same check as ./train gradcheck, at the
   edges of every size; and that check near the kinks of ReLU. Every kind of model is in
   lab/tests/gradcheck.ini. */
#include "model_case.h"

enum { ENTRIES = INSTRUMENTED ? 3 : 12 }; /* that are compared of each row */

static void check_case(const Case *c) {
    Setup u;
    setup(&u, c, true);
    if (u.model.shape.V == 1) assert_close(backward(&u, 1, true), 0, 0, "%s: loss of one character", c->name);
    for (size_t r = 0; c->answers && r < u.batch.B * u.batch.T; r++)
        if (r % c->answers) u.ids[u.batch.B * u.batch.T + r] = -1;
    const Batch batches[] = {u.batch,
                             {c->answers ? u.batch.tokens : u.batch.targets, u.batch.tokens, u.batch.B, u.batch.T}};
    GradientCheck check = {.engine = &u.engine,
                           .batches = batches,
                           .count = c->accumulate ? c->accumulate : 1,
                           .seed = SEED,
                           .micro_step = u.micro_step,
                           .entries = ENTRIES};
    for (size_t i = 0; i < u.model.tensors.flat; i++) u.model.gradients[i] = (real)NAN; /* must not be read */
    for (size_t m = 0; m < check.count; m++) {
        const Pass pass = training_pass(SEED, u.micro_step + m, 1 / (double)check.count, m == 0);
        engine_pass(&u.engine, &batches[m], &pass);
    }
    gradcheck_make(&check);
    const Tensor *wpe = tensor_find(&u.model.tensors, WPE, 0);
    for (size_t i = u.batch.T * wpe->width; i < wpe->count; i++)
        assert_close(u.model.gradients[wpe->offset + i], 0, 0, "%s: gradient %zu of wpe", c->name, i);
    for (GradientRow row; gradcheck_next(&check, &row);) {
        assert_int_equal(row.checked, row.count < ENTRIES ? row.count : ENTRIES);
        assert_that(!row.failed, "%s: %s [%zu,%zu] is off by %.3g, the largest gradient is %.3g", c->name, row.name,
                    row.at[0], row.at[1], row.error, row.largest);
    }
    teardown(&u);
}

static void every_edge(void **state) {
    (void)state;
    for (size_t n = 0; n < COUNT_OF(EDGES); n++) check_case(&EDGES[n]);
}

/* Checks a ReLU model, of which a unit is at this distance from its kink at one position. The gradient of that unit's
   bias is wrong by `mistake`, relative to the row's largest. */
static void check_near_kink(double distance, double mistake) {
    enum { UNIT = 3, ROW = 8 };
    const Case c = {.name = "near a kink", .activation = ACTIVATION_RELU, .L = 1};
    Setup u;
    setup(&u, &c, true);
    const size_t bias = tensor_find(&u.model.tensors, FC_B, 0)->offset, F = u.model.shape.F;
    model_forward(&u.model, &u.batch);
    u.model.parameters[bias + UNIT] += distance - u.model.blocks[0].fc.values[ROW * F + UNIT];
    backward(&u, 1, true);
    u.model.gradients[bias + UNIT] += mistake * max_abs(u.model.gradients + bias, F);
    GradientCheck check = {.engine = &u.engine, .batches = &u.batch, .count = 1, .seed = SEED, .entries = SIZE_MAX};
    gradcheck_make(&check);
    for (GradientRow row; gradcheck_next(&check, &row);) {
        const bool wrong = mistake > 0 && strcmp(row.name, "h.0.mlp.c_fc.bias") == 0;
        assert_int_equal(row.checked, row.count);
        assert_that(wrong == row.failed, "%g from a kink: %s [%zu,%zu] %s by %.3g of the largest gradient", distance,
                    row.name, row.at[0], row.at[1], row.failed ? "is off" : "passes", row.relative);
    }
    teardown(&u);
}

/* Where one unit is near its kink, or on it, every entry is compared, since the kink is on one side of it. */
static void near_a_kink(void **state) {
    (void)state;
    static const double distances[] = {.1, .01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-14, 0};
    for (size_t d = 0; d < COUNT_OF(distances); d++)
        for (unsigned n = 0; n < 4; n++) check_near_kink(n & 1 ? -distances[d] : distances[d], n & 2 ? 3e-7 : 0);
}

/* A gradient that is zero and should not be, or is not and should be, is off: the bias of q, and that of k. A post-norm
   model has small ones. */
static void zeros_are_checked(void **state) {
    (void)state;
    for (unsigned n = 0; n < 4; n++) {
        const Case c = {.name = "zeros", .L = 1, .post = n & 1};
        Setup u;
        setup(&u, &c, true);
        const size_t HD = u.model.shape.attention.H * u.model.shape.attention.D;
        GradientCheck check = {.engine = &u.engine, .batches = &u.batch, .count = 1, .seed = SEED, .entries = 12};
        backward(&u, 1, true);
        gradcheck_make(&check);
        real *bias = u.model.gradients + tensor_find(&u.model.tensors, ATTN_B, 0)->offset;
        const double largest = max_abs(bias, 3 * HD);
        for (size_t i = 0; i < HD; i++) *(n & 2 ? &bias[i] : &bias[HD + i]) = n & 2 ? 0 : 3e-7 * largest;
        for (GradientRow row; gradcheck_next(&check, &row);) {
            const bool wrong = strcmp(row.name, n & 2 ? "h.0.attn.c_attn.bias q" : "h.0.attn.c_attn.bias k") == 0;
            assert_that(wrong == row.failed, "%s %s", row.name, row.failed ? "is off" : "passes");
        }
        teardown(&u);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    const struct CMUnitTest tests[] = {
        TEST(every_edge),
        TEST(near_a_kink),
        TEST(zeros_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
