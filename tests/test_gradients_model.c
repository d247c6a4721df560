/* Every gradient of the whole model against differences of its loss, by the same check as ./train gradcheck, at the
   edges of every size; and that check near the kinks of ReLU. */
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
    gradcheck_make(&check);
    gradcheck_run(&check);
    const Tensor *wpe = tensor_find(&u.model.tensors, WPE, 0);
    for (size_t i = u.batch.T * wpe->width; i < wpe->count; i++)
        assert_close(u.model.gradients[wpe->offset + i], 0, 0, "%s: gradient %zu of wpe", c->name, i);
    for (size_t i = 0; i < check.row_count; i++) {
        const GradientRow *row = &check.rows[i];
        assert_int_equal(row->checked, row->count < ENTRIES ? row->count : ENTRIES);
        assert_that(!row->failure && !row->rounded, "%s: %s [%zu,%zu] %s by %.3g, the largest gradient is %.3g",
                    c->name, row->name, row->at[0], row->at[1], row->failure ? row->failure : "is rounded", row->error,
                    row->largest);
    }
    teardown(&u);
}

/* Pre- or post-norm, GELU or ReLU, with biases or without, tied or untied: all sixteen, without and with dropout, and
   each value of each of these with both initializations. */
static void every_combination(void **state) {
    (void)state;
    for (unsigned n = 0; n < 32; n++) {
        char name[64];
        Case c = {.name = name,
                  .post = n & 1,
                  .relu = n & 2,
                  .no_bias = n & 4,
                  .untied = n & 8,
                  .dropout = n & 16 ? .2 : 0,
                  .init = __builtin_parity(n) ? INIT_TORCH : INIT_UNIT,
                  .threads = 1 + (n ^ n >> 2) % 3};
        snprintf(name, sizeof name, "%s-norm %s%s%s%s%s", c.post ? "post" : "pre", c.relu ? "relu" : "gelu",
                 c.no_bias ? "" : " bias", c.untied ? "" : " tied", c.dropout > 0 ? " dropout" : "",
                 c.init == INIT_TORCH ? " torch" : "");
        check_case(&c);
    }
}

static void every_edge(void **state) {
    (void)state;
    for (size_t n = 0; n < COUNT_OF(EDGES); n++) check_case(&EDGES[n]);
}

/* Checks a ReLU model, of which a unit is at this distance from its kink at one position. The gradient of that unit's
   bias is wrong by `mistake`, relative to the row's largest. */
static void check_near_kink(GradientCheck *check, double distance, double mistake) {
    enum { UNIT = 3, ROW = 8 };
    const Case c = {.name = "near a kink", .relu = true, .L = 1};
    Setup u;
    setup(&u, &c, true);
    const size_t bias = tensor_find(&u.model.tensors, FC_B, 0)->offset, F = u.model.shape.F;
    model_forward(&u.model, &u.batch);
    u.model.parameters[bias + UNIT] += distance - u.model.blocks[0].fc.values[ROW * F + UNIT];
    *check = (GradientCheck){.engine = &u.engine, .batches = &u.batch, .count = 1, .seed = SEED, .entries = SIZE_MAX};
    gradcheck_make(check);
    u.model.gradients[bias + UNIT] += mistake * max_abs(u.model.gradients + bias, F);
    gradcheck_run(check);
}

/* Where one unit is near its kink, every entry is compared, since the kink is on one side of it. */
static void near_a_kink(void **state) {
    (void)state;
    for (double distance = .1; distance > 5e-9; distance /= 10)
        for (unsigned n = 0; n < 4; n++) {
            const double signed_distance = n & 1 ? -distance : distance, mistake = n & 2 ? 3e-7 : 0;
            GradientCheck check;
            check_near_kink(&check, signed_distance, mistake);
            for (size_t i = 0; i < check.row_count; i++) {
                const GradientRow *row = &check.rows[i];
                const bool wrong = mistake > 0 && strcmp(row->name, "h.0.mlp.c_fc.bias") == 0;
                assert_int_equal(row->checked, row->count);
                assert_int_equal(row->skipped, 0);
                assert_that(wrong ? row->failure && strcmp(row->failure, "is off") == 0 : !row->failure,
                            "%g from a kink: %s [%zu,%zu] %s by %.3g of the largest gradient", signed_distance,
                            row->name, row->at[0], row->at[1], row->failure ? row->failure : "passes", row->relative);
            }
            support_release(NULL);
        }
}

/* Where a unit is on its kink, the entries that move it are counted, and a row of such entries fails. */
static void on_a_kink(void **state) {
    (void)state;
    for (double distance = 0; distance < 2e-14; distance += 1e-14) {
        GradientCheck check;
        check_near_kink(&check, distance, 0);
        for (size_t i = 0; i < check.row_count; i++) {
            const GradientRow *row = &check.rows[i];
            const size_t skipped = strcmp(row->name, "h.0.mlp.c_fc.bias") == 0     ? 1
                                   : strcmp(row->name, "h.0.mlp.c_fc.weight") == 0 ? 12
                                   : strcmp(row->name, "h.0.ln_2.bias") == 0       ? row->count
                                                                                   : row->skipped;
            assert_int_equal(row->skipped, skipped);
            assert_int_equal(row->checked + row->skipped, row->count);
            assert_int_equal(row->failure != NULL, row->checked == 0);
            if (row->failure) assert_non_null(strstr(row->failure, "kinks of ReLU too near"));
        }
        support_release(NULL);
    }
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
        gradcheck_make(&check);
        real *bias = u.model.gradients + tensor_find(&u.model.tensors, ATTN_B, 0)->offset;
        const double largest = max_abs(bias, 3 * HD);
        for (size_t i = 0; i < HD; i++) *(n & 2 ? &bias[i] : &bias[HD + i]) = n & 2 ? 0 : 3e-7 * largest;
        gradcheck_run(&check);
        for (size_t i = 0; i < check.row_count; i++) {
            const GradientRow *row = &check.rows[i];
            const bool wrong = strcmp(row->name, n & 2 ? "h.0.attn.c_attn.bias q" : "h.0.attn.c_attn.bias k") == 0;
            assert_that(wrong ? row->failure && strcmp(row->failure, "is off") == 0 : !row->failure, "%s %s", row->name,
                        row->failure ? row->failure : "passes");
        }
        teardown(&u);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    const struct CMUnitTest tests[] = {
        TEST(every_combination), TEST(every_edge), TEST(near_a_kink), TEST(on_a_kink), TEST(zeros_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
