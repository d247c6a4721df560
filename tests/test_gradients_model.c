/* Every gradient of the whole model against differences of its loss, by the same check as ./train gradcheck, at the
   edges of every size; and what accumulation promises. */
#include "model_case.h"

#include "verbs/difference.h"

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
                           .entries = 12};
    gradcheck_make(&check);
    gradcheck_run(&check);
    const Tensor *wpe = tensor_find(&u.model.tensors, WPE, 0);
    for (size_t i = u.batch.T * wpe->width; i < wpe->count; i++)
        assert_close(u.model.gradients[wpe->offset + i], 0, 0, "%s: gradient %zu of wpe", c->name, i);
    for (size_t i = 0; i < check.row_count; i++) {
        const GradientRow *row = &check.rows[i];
        assert_int_equal(row->checked, row->count < 12 ? row->count : 12);
        assert_that(!row->failure && !row->rounded, "%s: %s [%zu,%zu] %s by %.3g, the largest gradient is %.3g",
                    c->name, row->name, row->at[0], row->at[1], row->failure ? row->failure : "is rounded", row->error,
                    row->largest);
    }
    teardown(&u);
}

/* Pre- or post-norm, GELU or ReLU, with biases or without, tied or untied: all sixteen, without and with dropout, and
   each value of each of these with both initializations; and the sixteen by the plain engine, which has no dropout. */
static void every_combination(void **state) {
    (void)state;
    for (unsigned n = 0; n < 48; n++) {
        char name[64];
        Case c = {.name = name,
                  .post = n & 1,
                  .relu = n & 2,
                  .no_bias = n & 4,
                  .untied = n & 8,
                  .dropout = n & 16 ? .2 : 0,
                  .plain = n & 32,
                  .init = __builtin_parity(n) ? INIT_TORCH : INIT_UNIT,
                  .threads = 1 + (n ^ n >> 2) % 3};
        snprintf(name, sizeof name, "%s-norm %s%s%s%s%s%s", c.post ? "post" : "pre", c.relu ? "relu" : "gelu",
                 c.no_bias ? "" : " bias", c.untied ? "" : " tied", c.dropout > 0 ? " dropout" : "",
                 c.init == INIT_TORCH ? " torch" : "", c.plain ? " plain" : "");
        check_case(&c);
    }
}

static void every_edge(void **state) {
    (void)state;
    static const Case cases[] = {
        {.name = "none", .divisor = {.mode = SCALE_NONE}},
        {.name = "dk", .divisor = {.mode = SCALE_DK}},
        {.name = "2sqrt_dk", .divisor = {.mode = SCALE_2SQRT_DK}, .post = true},
        {.name = "3.7", .divisor = {SCALE_NUMBER, 3.7}},
        {.name = "B = 1", .B = 1},
        {.name = "B = 1, 3 threads", .B = 1, .threads = 3},
        {.name = "B = 1, 8 threads, more threads than positions", .B = 1, .threads = 8, .dropout = .2},
        {.name = "B = 3, 8 threads", .threads = 8},
        {.name = "B = 3, 8 threads, post", .threads = 8, .post = true, .relu = true, .dropout = .2},
        {.name = "B = 5, 2 threads", .B = 5, .threads = 2, .dropout = .2},
        {.name = "B = 9, 8 threads", .B = 9, .threads = 8},
        {.name = "T = 1", .T = 1},
        {.name = "T = 1, post", .T = 1, .post = true, .threads = 2, .untied = true},
        {.name = "B = T = 1", .T = 1, .B = 1, .threads = 8},
        {.name = "H = 1", .H = 1},
        {.name = "H = 3, D = 1", .H = 3, .D = 1, .post = true},
        {.name = "V = 1", .V = 1},
        {.name = "V = 1, post, untied, two micro-batches", .V = 1, .post = true, .untied = true, .accumulate = 2},
        {.name = "B = T = H = D = V = 1", .B = 1, .T = 1, .H = 1, .D = 1, .V = 1, .dropout = .2},
        {.name = "V = 2", .V = 2, .untied = true},
        {.name = "L = 1", .L = 1, .post = true},
        {.name = "L = 3", .L = 3},
        {.name = "L = 3, post", .L = 3, .post = true, .dropout = .2},
        {.name = "L = 1, C = 3, F = 1, D = 1", .L = 1, .C = 3, .F = 1, .D = 1},
        {.name = "two blocks of queries", .T = 70, .B = 2, .threads = 3, .L = 1},
        {.name = "two blocks of queries, dropout", .T = 70, .B = 2, .threads = 3, .L = 1, .dropout = .2},
        {.name = "a short batch", .batch_T = 4, .max_batch = 6},
        {.name = "a short batch, post, 8 threads",
         .batch_T = 4,
         .max_batch = 6,
         .post = true,
         .threads = 8,
         .dropout = .2},
        {.name = "wide columns", .C = 40, .F = 70, .D = 11, .V = 37, .threads = 3},
        {.name = "gpt2", .init = INIT_GPT2},
        {.name = "gpt2, post, no bias", .init = INIT_GPT2, .post = true, .no_bias = true},
        {.name = "xavier", .init = INIT_XAVIER, .post = true},
        {.name = "two micro-batches", .accumulate = 2, .threads = 2, .relu = true},
        {.name = "every third target counts", .answers = 3, .dropout = .2},
        {.name = "every second, post, then all of another micro-batch", .answers = 2, .accumulate = 2, .post = true},
        {.name = "two micro-batches, dropout, T = 1", .accumulate = 2, .T = 1, .dropout = .2, .post = true},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        Case plain = cases[n];
        plain.plain = true;
        check_case(&cases[n]);
        if (plain.dropout == 0) check_case(&plain);
    }
}

/* Two micro-batches of weight 1/2, the first from zero, give the mean of what each gives alone. */
static void accumulation_is_the_mean(void **state) {
    (void)state;
    for (unsigned n = 0; n < 8; n++) {
        Case c = {.name = "accumulation", .post = n & 1, .untied = n & 2, .dropout = n & 4 ? .2 : 0, .threads = 2};
        Setup u;
        setup(&u, &c, true);
        const size_t flat = u.model.tensors.flat;
        const Batch batches[2] = {u.batch, {.tokens = u.ids + 3, .targets = u.ids, .B = 2, .T = 6}};
        real *alone[2], *mean = reals(flat);
        for (unsigned b = 0; b < 2; b++) {
            u.batch = batches[b], u.micro_step = b;
            backward(&u, 1, true);
            alone[b] = copied_reals(u.model.gradients, flat);
        }
        for (unsigned b = 0; b < 2; b++) u.batch = batches[b], u.micro_step = b, backward(&u, .5, b == 0);
        for (size_t i = 0; i < flat; i++) mean[i] = (alone[0][i] + alone[1][i]) / 2;
        for (size_t i = 0; i < flat; i++)
            assert_close(u.model.gradients[i], mean[i], 1e-14 * max_abs(mean, flat), "gradient %zu", i);
        teardown(&u);
    }
}

/* Slopes from a billionth to a billion; steps that start too wide, or serve as they are, or leave rounding behind. */
static double sine(void *context, double delta) {
    const double *steepness = context;
    return sin(*steepness * delta + .5) - sin(.5);
}
static void differences_find_their_step(void **state) {
    (void)state;
    const double rounding = 1e-15;
    for (int power = -9; power <= 9; power += 3) {
        double steepness = pow(10, power), slope = steepness * cos(.5);
        for (double start = 1e-6 / steepness; start < 20 / steepness; start *= 10) {
            double step = start, found = difference_extrapolated(sine, &steepness, CENTRAL, rounding, slope, &step);
            assert_close(found, slope, DIFFERENCE_ACCURACY * slope + rounding / step, "slope %g, from %g to %g", slope,
                         start, step);
            assert_that(step <= start && step * steepness < .1, "slope %g, from %g to %g", slope, start, step);
        }
    }
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

/* The rows of a check's table, in their order. */
static void every_tensor_has_a_row(void **state) {
    (void)state;
    static const char *const pre[] = {"wte.weight",
                                      "wpe.weight",
                                      "h.0.ln_1.weight",
                                      "h.0.ln_1.bias",
                                      "h.0.attn.c_attn.weight q",
                                      "h.0.attn.c_attn.weight k",
                                      "h.0.attn.c_attn.weight v",
                                      "h.0.attn.c_attn.bias q",
                                      "h.0.attn.c_attn.bias k",
                                      "h.0.attn.c_attn.bias v",
                                      "h.0.attn.c_proj.weight",
                                      "h.0.attn.c_proj.bias",
                                      "h.0.ln_2.weight",
                                      "h.0.ln_2.bias",
                                      "h.0.mlp.c_fc.weight",
                                      "h.0.mlp.c_fc.bias",
                                      "h.0.mlp.c_proj.weight",
                                      "h.0.mlp.c_proj.bias",
                                      "ln_f.weight",
                                      "ln_f.bias",
                                      "lm_head.weight"};
    static const char *const post[] = {"wte.weight",
                                       "wpe.weight",
                                       "h.0.ln_1.weight",
                                       "h.0.attn.c_attn.weight q",
                                       "h.0.attn.c_attn.weight k",
                                       "h.0.attn.c_attn.weight v",
                                       "h.0.attn.c_proj.weight",
                                       "h.0.ln_2.weight",
                                       "h.0.mlp.c_fc.weight",
                                       "h.0.mlp.c_proj.weight"};
    for (int n = 0; n < 2; n++) {
        const Case c = {.name = "rows", .L = 1, .post = n, .relu = n, .no_bias = n, .untied = !n, .batch_T = n ? 4 : 7};
        const char *const *names = n ? post : pre;
        Setup u;
        setup(&u, &c, true);
        GradientCheck check = {.engine = &u.engine, .batches = &u.batch, .count = 1, .seed = SEED, .entries = 5};
        gradcheck_make(&check);
        gradcheck_run(&check);
        assert_int_equal(check.row_count, n ? COUNT_OF(post) : COUNT_OF(pre));
        for (size_t i = 0; i < check.row_count; i++) {
            const GradientRow *row = &check.rows[i];
            assert_string_equal(row->name, names[i]);
            assert_int_equal(row->checked, row->count < 5 ? row->count : 5);
            assert_int_equal(row->zero, strstr(row->name, "bias k") != NULL);
        }
        teardown(&u);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    const struct CMUnitTest tests[] = {
        TEST(every_combination), TEST(every_edge), TEST(accumulation_is_the_mean), TEST(differences_find_their_step),
        TEST(near_a_kink),       TEST(on_a_kink),  TEST(every_tensor_has_a_row),   TEST(zeros_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
