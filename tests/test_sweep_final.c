/* A sweep's final losses, as final.png and the tables by divisor show them: from runs whose losses are made up. */
#include "temporary.h"

#include "sweep/parts.h"

static Sweep sweep;
static double steps[1] = {1}, losses[RUNS_MAX];
static FinalLosses final;

/* The losses are this file's, not the sweep's to free. */
static void release(void) {
    for (size_t i = 0; sweep.runs && i < sweep.run_count; i++) sweep.runs[i].results = (RunResults){0};
    sweep_free(&sweep);
}

/* Run i finished with loss 1 + i / 100. */
static void make(const char *text) {
    Error err = {0};
    release();
    bool done = config_load(&sweep.config, put_text("sweep.ini", text), NULL, 0, &err) && sweep_plan(&sweep, &err);
    assert_that(done, "%s", err.message);
    for (size_t i = 0; i < sweep.run_count; i++) {
        losses[i] = 1 + (double)i / 100;
        sweep.runs[i].state = RUN_FINISHED;
        sweep.runs[i].results.curves[CURVE_VAL_LOSS] = (Curve){1, steps, &losses[i]};
    }
    sweep_summarize(&sweep);
}
static int leave(void **state) {
    release();
    return temporary_leave(state);
}
#define FINAL_TEST(function) cmocka_unit_test_setup_teardown(function, temporary_enter, leave)

static void assert_label(size_t line, const char *expected) {
    char label[SETTING_LABEL];
    sweep_label(&sweep, final.lines[line].setting, final.axis, label);
    assert_string_equal(label, expected);
}

/* Values out of order, three seeds, a line for each divisor; a logarithmic axis. */
static void against_a_learning_rate(void **state) {
    (void)state;
    make("[sweep]\ntrain.lr = 1e-2, 1e-4, 3e-3\nscale_divisor = none, sqrt_dk\nseed = 1, 2, 3\n");
    assert_true(sweep_final_losses(&sweep, &final));
    assert_int_equal(final.axis, 0);
    assert_true(final.count == 2 && final.more == 0 && final.seeds.fewest == 3 && final.seeds.most == 3 &&
                !final.seeds.range);
    assert_true(final.base == 10);
    assert_label(0, "÷ 1 (none)");
    assert_label(1, "÷ √d_k = 8");
    for (size_t i = 0; i < 2; i++) {
        const FinalLine *line = &final.lines[i];
        static const double x[] = {1e-4, 3e-3, 1e-2};
        static const size_t place[] = {1, 2, 0}; /* in the config */
        assert_true(line->count == 3 && line->band && line->diverged == 0);
        for (size_t k = 0; k < 3; k++) {
            double mean = 1.01 + .06 * (double)place[k] + .03 * (double)i, half = 4.30265273 * .01 / sqrt(3);
            assert_close(line->x[k], x[k], 1e-7, "x %zu of line %zu", k, i);
            assert_close(line->mean[k], mean, 1e-12, "mean %zu of line %zu", k, i);
            assert_close(line->low[k], mean - half, 1e-9, "low %zu of line %zu", k, i);
            assert_close(line->high[k], mean + half, 1e-9, "high %zu of line %zu", k, i);
        }
    }
}

/* In units of √d_k = 8; equal divisors in two forms (64 and dk) are two points. */
static void against_the_divisor(void **state) {
    (void)state;
    make("[sweep]\nscale_divisor = 64, none, 2sqrt_dk, 11.313708, 11.3137, dk\n");
    assert_true(sweep_final_losses(&sweep, &final));
    const FinalLine *line = &final.lines[0];
    assert_true(final.count == 1 && line->count == 6 && !line->band && final.base == 2 && final.seeds.most == 1);
    static const double x[] = {.125, 1.4142125, 1.41421356, 2, 8, 8}, mean[] = {1.01, 1.04, 1.03, 1.02, 1, 1.05};
    for (size_t k = 0; k < 6; k++) {
        assert_close(line->x[k], x[k], 2e-6, "x %zu", k);
        assert_close(line->mean[k], mean[k], 1e-12, "mean %zu", k);
        assert_true(isnan(line->low[k]) && isnan(line->high[k]));
    }
    assert_label(0, "");
    make("[sweep]\nscale_divisor = 1, 2, 3, 4, 5\n[model]\nd_k = 16\n");
    assert_true(sweep_final_losses(&sweep, &final) && final.base == 10); /* 3/4 is no power of √2 */
    assert_close(final.lines[0].x[2], .75, 1e-12, "3 / √16");
}

/* No logarithm of zero; the range of two seeds; runs that diverged are in no mean, but counted. */
static void what_is_missing(void **state) {
    (void)state;
    make("[sweep]\ndropout = 0, 0.1, 0.2\nseed = 1, 2\n");
    sweep.runs[1].state = sweep.runs[2].state = sweep.runs[3].state = RUN_DIVERGED;
    sweep_summarize(&sweep);
    assert_true(sweep_final_losses(&sweep, &final));
    const FinalLine *line = &final.lines[0];
    assert_true(final.base == 0 && final.seeds.range && final.seeds.fewest == 1 && final.seeds.most == 2 && line->band);
    assert_true(line->x[0] == 0 && line->x[2] == .2 && line->diverged == 3);
    assert_true(line->mean[0] == 1 && isnan(line->low[0]) && isnan(line->mean[1]));
    assert_true(line->low[2] == 1.04 && line->high[2] == 1.05);

    make("[sweep]\nlr = 1e-3, 2e-3, 3e-3\nheads = 1, 2\n"
         "scale_divisor = 9, 8, 7, 6, 5, 4, 3, 2, 1, 13, 12, 11, 10\n"); /* 26 lines, against the first key of three */
    assert_true(sweep_final_losses(&sweep, &final));
    assert_true(final.axis == 0 && final.count == SWEEP_LINES_MAX && final.more == 6);
    assert_label(0, "heads 1, ÷ 1"); /* by divisor first */
    assert_label(15, "heads 2, ÷ 8");
    make("[sweep]\nlr = 1e-3, 2e-3\nscale_divisor = none, sqrt_dk, 2sqrt_dk, dk\nseed = 1, 2, 3\n");
    assert_false(sweep_final_losses(&sweep, &final) || sweep_has_final(&sweep));
}

static void assert_tables(const char *expected) {
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    sweep_write_matrices(&sweep, stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, expected);
    free(text);
}

/* Every loss in its place; the longer side down. */
static void tables_by_divisor(void **state) {
    (void)state;
    make("[sweep]\nscale_divisor = none, sqrt_dk\nseed = 1, 2\nd_k = 4, 16\n");
    sweep.runs[3].state = RUN_DIVERGED; /* none, seed 2, d_k 16 */
    sweep_summarize(&sweep);
    assert_tables("\n| validation loss | ÷ 1 (none) | ÷ √d_k |\n|---|---|---|\n"
                  "| d_k 4 | 1.0100 ± 0.1271 | 1.0500 ± 0.1271 |\n"
                  "| d_k 16 | 1.0100 (1 diverged) | 1.0600 ± 0.1271 |\n"
                  "\n| against ÷ √d_k | ÷ 1 (none) | ÷ √d_k |\n|---|---|---|\n"
                  "| d_k 4 | -0.0400 ± 0.0000 | - |\n"
                  "| d_k 16 | -0.0400 (1 diverged) | - |\n");
    make("[sweep]\nlr = 1e-3, 2e-3\nscale_divisor = none, sqrt_dk, 3\n");
    assert_tables("\n| validation loss | lr 0.001 | lr 0.002 |\n|---|---|---|\n"
                  "| ÷ 1 (none) | 1.0000 | 1.0300 |\n| ÷ √d_k = 8 | 1.0100 | 1.0400 |\n| ÷ 3 | 1.0200 | 1.0500 |\n"
                  "\n| against ÷ √d_k | lr 0.001 | lr 0.002 |\n|---|---|---|\n"
                  "| ÷ 1 (none) | -0.0100 | -0.0100 |\n| ÷ √d_k = 8 | - | - |\n| ÷ 3 | +0.0100 | +0.0100 |\n");
    make("[sweep]\nscale_divisor = none, 3\nlr = 1e-3, 2e-3\n"); /* nothing to compare with */
    assert_tables("\n| validation loss | ÷ 1 (none) | ÷ 3 |\n|---|---|---|\n"
                  "| lr 0.001 | 1.0000 | 1.0200 |\n| lr 0.002 | 1.0100 | 1.0300 |\n");
    make("[sweep]\nscale_divisor = none, sqrt_dk\nseed = 1, 2\n");
    assert_tables("");
    make("[sweep]\nlr = 1e-3, 2e-3\nheads = 1, 2\n");
    assert_tables("");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FINAL_TEST(against_a_learning_rate),
        FINAL_TEST(against_the_divisor),
        FINAL_TEST(what_is_missing),
        FINAL_TEST(tables_by_divisor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
