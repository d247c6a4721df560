/* Gradients in double precision: those of the whole model against differences of its loss, by the same check as
   ./train gradcheck, at the edges of every size and for every way to score; those of the plain engine and the fast one;
   the norms that attention.csv has of them. Every kind of model is in lab/tests/gradcheck.ini. */
#include "configs.h"

#include "base/statistics.h"
#include "model/measure.h"
#include "model_case.h"

enum { ENTRIES = INSTRUMENTED ? 3 : 12 }; /* that are compared of each row */

/* Asserts that every row of a check passes. */
static void assert_agrees(GradientCheck *check, const char *name) {
    for (GradientRow row; gradcheck_next(check, &row);) {
        assert_int_equal(row.checked, row.count < check->entries ? row.count : check->entries);
        assert_that(!row.failed, "%s: %s [%zu,%zu] is off by %.3g, the largest gradient is %.3g", name, row.name,
                    row.at[0], row.at[1], row.error, row.largest);
    }
}

static void check_case(const Case *c) {
    Setup u;
    setup(&u, c);
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
    assert_agrees(&check, c->name);
    const Tensor *wpe = tensor_find(&u.model.tensors, WPE, 0);
    for (size_t i = u.batch.T * wpe->width; i < wpe->count; i++)
        assert_close(u.model.gradients[wpe->offset + i], 0, 0, "%s: gradient %zu of wpe", c->name, i);
    teardown(&u);
}

static void edges_against_differences(void) {
    for (size_t n = 0; n < COUNT_OF(EDGES); n++) check_case(&EDGES[n]);
}

/* Checks a ReLU model, of which a unit is at this distance from its kink at one position. The gradient of that unit's
   bias is wrong by `mistake`, relative to the row's largest. */
static void check_near_kink(double distance, double mistake) {
    enum { UNIT = 3, ROW = 8 };
    const Case c = {.name = "near a kink", .activation = ACTIVATION_RELU, .L = 1};
    Setup u;
    setup(&u, &c);
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
static void near_a_kink(void) {
    static const double distances[] = {.1, .01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-14, 0};
    for (size_t d = 0; d < COUNT_OF(distances); d++)
        for (unsigned n = 0; n < 4; n++) check_near_kink(n & 1 ? -distances[d] : distances[d], n & 2 ? 3e-7 : 0);
}

/* A gradient that is zero and should not be, or is not and should be, is off: the bias of q, and that of k. A post-norm
   model has small ones. */
static void zeros_are_checked(void) {
    for (unsigned n = 0; n < 4; n++) {
        const Case c = {.name = "zeros", .L = 1, .post = n & 1};
        Setup u;
        setup(&u, &c);
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

/* --- every way to score */

/* The options, by key: each value of a key is tried with each value of every other key. */
static const struct {
    const char *key, *value;
} OPTIONS[] = {{"attention.score", "additive"},
               {"attention.qk_norm", "l2"},
               {"attention.qk_norm", "rms"},
               {"attention.qk_norm", "layer"},
               {"attention.scale_divisor", "none"},
               {"attention.scale_divisor", "dk"},
               {"attention.scale_divisor", "0.7"},
               {"attention.scale_divisor", "sqrt_dmodel"},
               {"attention.scale_learned", "layer"},
               {"attention.scale_learned", "head"},
               {"attention.scale_length", "log"},
               {"attention.softcap", "0.8"},
               {"attention.sink", "one"},
               {"attention.sink", "learned"},
               {"model.dropout", "0.2"},
               {"model.bias", "no"},
               {"train.qk_clip", "0.1"}};

static void check_model(const char *name) {
    const Case c = {.name = name, .B = 2, .threads = 2, .init = config.model.init};
    const ModelShape shape = model_shape(&config, 6);
    Setup u;
    setup_shape(&u, &c, &shape);
    GradientCheck check = {.engine = &u.engine,
                           .batches = &u.batch,
                           .count = 1,
                           .seed = SEED,
                           .micro_step = u.micro_step,
                           .entries = INSTRUMENTED ? 3 : 16};
    backward(&u, 1, true);
    gradcheck_make(&check);
    assert_agrees(&check, name);
    teardown(&u);
}

static const char SMALL[] =
    "[model]\nlayers = 2\nheads = 2\nd_model = 4\nd_k = 3\nd_ff = 5\ncontext = 5\ninit = torch\n";

/* qk_clip is refused with options by which scores are not proportional to W_Q and W_K. test_config.c has each refused
   pair. */
static void every_pair(void) {
    size_t checked = 0;
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        for (size_t j = i; j < COUNT_OF(OPTIONS); j++) {
            char name[160], values[3][64] = {"attention.scale_divisor=sqrt_dk"};
            const char *const overrides[] = {values[0], values[1], values[2]}; /* l2 needs a divisor */
            if (i != j && strcmp(OPTIONS[i].key, OPTIONS[j].key) == 0) continue;
            snprintf(values[1], sizeof values[1], "%s=%s", OPTIONS[i].key, OPTIONS[i].value);
            snprintf(values[2], sizeof values[2], "%s=%s", OPTIONS[j].key, OPTIONS[j].value);
            snprintf(name, sizeof name, "%s, %s", values[1], values[2]);
            if (load_with(SMALL, 3, overrides)) check_model(name), checked++;
            else assert_that(strstr(err.message, " does not go with train.qk_clip = 0.1 (--set)"), "%s", err.message);
        }
    assert_int_equal(checked, 137);
}

/* Each option alone, at one position and at more than a tile of queries holds. */
static void every_length(void) {
    static const char *const contexts[] = {"model.context=1", "model.context=70"};
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        for (size_t c = 0; c < COUNT_OF(contexts); c++) {
            char name[160], value[64];
            const char *const overrides[] = {"attention.scale_divisor=sqrt_dk", "model.layers=1", contexts[c], value};
            snprintf(value, sizeof value, "%s=%s", OPTIONS[i].key, OPTIONS[i].value);
            snprintf(name, sizeof name, "%s, %s", value, contexts[c]);
            assert_that(load_with(SMALL, 4, overrides), "%s: %s", name, err.message);
            check_model(name);
        }
}

/* --- dropout and sizes */

static double forward_with_dropout(Setup *u) {
    return model_pass(&u->model, &u->batch, &(Pass){.training = true, .seed = SEED, .micro_step = u->micro_step});
}

static void dropout_is_drawn_by_step(void) {
    Case c = {.name = "dropout", .dropout = .2, .threads = 2};
    Setup u;
    setup(&u, &c);
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
static void slices_have_masks_of_their_own(void) {
    Setup u;
    const Case c = {.name = "slices with dropout", .L = 1, .T = SLICE_ROWS / 4, .B = 9, .threads = 2, .dropout = .3};
    setup(&u, &c);
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
static void sizes_that_do_not_fit(void) {
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
    const Case small = {.name = "small"};
    Setup u;
    Plain plain;
    setup(&u, &small);
    u.model.shape.T = (size_t)1 << 40;
    assert_fails(STATUS_FAILED, "the plain engine's", plain_make(&plain, &u.model));
}

/* --- the plain engine */

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
    setup(&u, c);
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

static void combinations_of_both_engines(void) {
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

static void edges_of_both_engines(void) {
    static const Case three_tiles = {.name = "three tiles of queries", .T = 150, .B = 2, .threads = 2, .L = 1};
    static const Case three_slices = {.name = "three slices", .T = SLICE_ROWS / 4, .B = 9, .threads = 2, .L = 1};
    compare(&three_tiles);
    compare(&three_slices);
    for (size_t n = 0; n < COUNT_OF(EDGES); n++)
        if (EDGES[n].dropout == 0) compare(&EDGES[n]);
}

/* Each sequence adds up its own gradients, so the number of threads changes no bit. */
static void threads_change_nothing(void) {
    static const size_t threads[] = {1, 2, 3, 8};
    real *gradients[COUNT_OF(threads)];
    double losses[COUNT_OF(threads)];
    size_t flat = 0;
    for (size_t n = 0; n < COUNT_OF(threads); n++) {
        const Case c = {.name = "threads", .plain = true, .B = 5, .T = 20, .C = 40, .threads = threads[n]};
        Setup u;
        setup(&u, &c);
        losses[n] = backward(&u, 1, true);
        flat = u.model.tensors.flat;
        gradients[n] = copied_reals(u.model.gradients, flat);
        assert_true(losses[n] == losses[0]);
        assert_memory_equal(gradients[n], gradients[0], flat * sizeof(real));
    }
}

/* --- the norms of gradients in attention.csv */

enum { HEADS = 4, ROWS = 3 * 7 };

/* Computes the gradients of the sum of the losses, without dropout. */
static void sum_gradients(Setup *u) {
    model_pass(
        &u->model, &u->batch,
        &(Pass){.with_backward = true, .zero_gradients = true, .batch_weight = (double)batch_targets(&u->batch)});
}

static void check_norms(const NormStatistics *got, double *norms, size_t n, const char *name, size_t head) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += norms[i], squares += norms[i] * norms[i];
    sort_numbers(norms, n);
    assert_int_equal(n, 18); /* so the median and both quantiles are between two norms */
    const double expected[] = {sum / 18, sqrt(squares / 18), (norms[8] + norms[9]) / 2, .3 * norms[1] + .7 * norms[2],
                               .17 * norms[16] + .83 * norms[17]};
    const double values[] = {got->mean, got->rms, got->median, got->p10, got->p99};
    for (size_t i = 0; i < 5; i++) {
        assert_true(values[i] > 0);
        assert_close(values[i], expected[i], 1e-12 * norms[17], "%s of head %zu, statistic %zu", name, head, i);
    }
}

static void norms_of_every_row(void) {
    for (size_t threads = 1; threads <= 5; threads += 2) { /* five: sequences are split */
        Setup u;
        const Case c = {
            .name = "norms", .threads = threads, .dropout = .4, .divisor = {.mode = SCALE_NUMBER, .number = 3}};
        setup(&u, &c);
        const ModelShape *s = &u.model.shape;
        const size_t T = s->T, D = s->attention.D, HD = s->attention.H * D;
        GradientStatistics got[HEADS];
        for (size_t layer = 0; layer < 2; layer++) { /* which share these arrays, unless each has its own */
            u.model.blocks[layer].att.gradient = filled_reals(ROWS * HD, NAN);
            u.model.blocks[layer].qkv.gradient = filled_reals(ROWS * 3 * HD, NAN);
        }
        measure_gradients(&u.model, &u.batch, reals(measure_gradients_scratch(s, u.batch.B)), got);
        real *measured = copied_reals(u.model.blocks[0].qkv.gradient, ROWS * 3 * HD);
        sum_gradients(&u);
        assert_all_close(u.model.blocks[0].qkv.gradient, measured, ROWS * 3 * HD, 1e-12, "gradients of the sum");

        for (size_t i = 0; i < HEADS; i++) {
            const Block *block = &u.model.blocks[i / 2];
            const size_t head = i % 2;
            double query[ROWS], scores[ROWS];
            size_t n = 0;
            for (size_t row = 0; row < ROWS; row++) {
                const size_t t = row % T, first = row - t;
                const real *q = block->qkv.values + row * 3 * HD + head * D;
                const real *dout = block->att.gradient + row * HD + head * D;
                double e[7], dp[7], sum = 0, mean = 0, squares = 0;
                if (t == 0) continue;
                for (size_t j = 0; j <= t; j++) {
                    const real *k = block->qkv.values + (first + j) * 3 * HD + HD + head * D;
                    e[j] = exp(dot(q, k, D) / 3);
                    dp[j] = dot(dout, k + HD, D);
                    sum += e[j];
                }
                for (size_t j = 0; j <= t; j++) mean += e[j] / sum * dp[j];
                for (size_t j = 0; j <= t; j++) squares += pow(e[j] / sum * (dp[j] - mean), 2);
                const real *dq = block->qkv.gradient + row * 3 * HD + head * D;
                query[n] = sqrt(dot(dq, dq, D));
                scores[n++] = sqrt(squares);
            }
            check_norms(&got[i].query, query, n, "dq", i);
            check_norms(&got[i].scores, scores, n, "ds", i);
        }
        teardown(&u);
    }
}

/* Where no row has two keys there are no norms. A model that has diverged has NaN for its norms, not a number that
   comes from sorting NaN. */
static void no_norms(void) {
    for (int diverged = 0; diverged < 2; diverged++) {
        const Case c = {.name = "no norms", .T = diverged ? 6 : 1};
        Setup u;
        GradientStatistics got[HEADS];
        setup(&u, &c);
        if (diverged) tensor_at(&u.model.tensors, u.model.parameters, WPE, 0)[0] = NAN;
        measure_gradients(&u.model, &u.batch, reals(measure_gradients_scratch(&u.model.shape, u.batch.B)), got);
        for (size_t i = 0; i < HEADS; i++) {
            const NormStatistics *norms[] = {&got[i].query, &got[i].scores};
            for (size_t n = 0; n < 2; n++)
                assert_true(isnan(norms[n]->mean) && isnan(norms[n]->p10) && isnan(norms[n]->median) &&
                            isnan(norms[n]->p99));
        }
        teardown(&u);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    return RUN_TESTS(TEST(edges_against_differences), TEST(near_a_kink), TEST(zeros_are_checked),
                     TEST_WITH(every_pair, enter, leave), TEST_WITH(every_length, enter, leave),
                     TEST(dropout_is_drawn_by_step), TEST(slices_have_masks_of_their_own), TEST(sizes_that_do_not_fit),
                     TEST(combinations_of_both_engines), TEST(edges_of_both_engines), TEST(threads_change_nothing),
                     TEST(norms_of_every_row), TEST(no_norms));
}
