/* The runs and settings of a sweep before any is trained: names, labels, the setting that each is compared with; and
   the numbers that are read back from the files of a run. */
#include "temporary.h"

#include "lab/report/report.h"
#include "lab/sweep/sweep.h"

static Sweep sweep;

static void plan(const char *text) {
    sweep = (Sweep){0};
    axes_load(&sweep.config, &sweep.axes, put_text("sweep.ini", text), NULL, 0);
    sweep_plan(&sweep);
}

static void names_and_settings(void) {
    plan("[sweep]\nscale_divisor = none, sqrt_dk, 3.50\nseed = 7, 8\n");
    assert_int_equal(sweep.run_count, 6);
    assert_int_equal(sweep.setting_count, 3);
    assert_string_equal(sweep.runs[0].name, "scale_divisor=none+seed=7");
    assert_string_equal(sweep.runs[5].name, "scale_divisor=3.5+seed=8");
    assert_int_equal(sweep.runs[5].config.train.seed, 8);
    assert_string_equal(sweep.settings[0].label, "÷ 1");
    assert_string_equal(sweep.settings[1].label, "÷ √d_k = 8");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(sweep.runs[i].setting, i / 2);
        assert_int_equal(sweep.settings[i / 2].run[i % 2], i);
        assert_int_equal(sweep.settings[i / 2].count, 2);
        assert_int_equal(sweep.settings[i / 2].reference, 1);
    }
}

static void labels(void) {
    plan("[sweep]\nscale_divisor = none, sqrt_dk\nlr = 1e-3, 2e-3\nseed = 7, 8\n");
    assert_string_equal(sweep.settings[3].label, "÷ √d_k = 8, lr 0.002");
    plan("[sweep]\nscale_divisor = none, sqrt_dk, 2sqrt_dk\nheads = 2, 4\n"); /* √d_k is not the same for both */
    assert_string_equal(sweep.settings[2].label, "÷ √d_k, heads 2");
    assert_string_equal(sweep.settings[5].label, "÷ 2√d_k, heads 4");
    plan("[sweep]\nscale_divisor = 2sqrt_dk, 3\n");
    assert_string_equal(sweep.settings[0].label, "÷ 2√d_k = 16");
    assert_string_equal(sweep.settings[1].label, "÷ 3");
}

static bool same_color(Color a, Color b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Sorted by divisor, then by the other keys as numbers; any two settings can be told apart. */
static void order_and_styles(void) {
    static const struct {
        const char *text;
        size_t order[8];
    } cases[] = {{"scale_divisor = dk, none, 2sqrt_dk, 3, sqrt_dk\n", {1, 3, 4, 2, 0}},
                 {"lr = 2e-3, 1e-3\nscale_divisor = 2, none\n", {3, 1, 2, 0}},
                 {"lr = 1e-2, 1e-3, 2e-3\nseed = 1, 2\n", {1, 2, 0}},
                 {"init = unit, torch, gpt2\nheads = 4, 2\n", {1, 0, 3, 2, 5, 4}}};
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        char text[128];
        size_t order[RUNS_MAX];
        snprintf(text, sizeof text, "[sweep]\n%s", cases[c].text);
        plan(text);
        report_sort(&sweep, order);
        for (size_t i = 0; i < sweep.setting_count; i++) {
            assert_int_equal(order[i], cases[c].order[i]);
            for (size_t k = 0; k < i; k++) {
                double dashes[2];
                const Color a = report_style(&sweep, i, &dashes[0]), b = report_style(&sweep, k, &dashes[1]);
                assert_that(!same_color(a, b) || dashes[0] != dashes[1], "settings %zu and %zu of: %s", i, k, text);
            }
        }
    }
    double dash;
    plan("[sweep]\nscale_divisor = none, 8, 5\n"); /* 8 is drawn as √d_k */
    assert_true(same_color(report_style(&sweep, 1, &dash), palette_divisor("sqrt_dk", 0)) && dash == 0);
    assert_true(same_color(report_style(&sweep, 0, &dash), palette_divisor("none", 0)) && dash == 0);
}

/* A sweep with the seed first, another key, and no divisor among the keys. */
static void seed_anywhere(void) {
    plan("[sweep]\nseed = 1, 2, 3\nlr = 1e-3, 2e-3\n");
    assert_int_equal(sweep.setting_count, 2);
    assert_string_equal(sweep.runs[3].name, "seed=2+lr=0.002");
    assert_int_equal(sweep.runs[3].setting, 1);
    assert_int_equal(sweep.settings[1].run[1], 3);
    assert_string_equal(sweep.settings[1].label, "lr 0.002");
    assert_int_equal(sweep.settings[1].reference, 1); /* it divides by √d_k itself */
    plan("[attention]\nscale_divisor = dk\n[sweep]\nseed = 1, 2\n");
    assert_int_equal(sweep.setting_count, 1);
    assert_string_equal(sweep.settings[0].label, "÷ d_k = 64");
    assert_int_equal(sweep.settings[0].reference, NO_SETTING);
}

/* Each setting is compared with one that differs from it in the divisor alone, and divides by √d_k in whatever form. */
static void references(void) {
    plan("[model]\nd_k = 4\n[sweep]\nscale_divisor = none, dk, 2, sqrt_dk\nseed = 1, 2\n");
    for (size_t i = 0; i < 4; i++) assert_int_equal(sweep.settings[i].reference, 2);
    plan("[model]\nd_model = 32\n[sweep]\nmodel.heads = 8, 2\nscale_divisor = dk, sqrt_dk, 2sqrt_dk\n");
    for (size_t i = 0; i < 6; i++) assert_int_equal(sweep.settings[i].reference, i / 3 * 3 + 1);
    plan("[sweep]\nscale_divisor = none, dk\nlr = 1e-3, 2e-3\n");
    for (size_t i = 0; i < 4; i++) assert_int_equal(sweep.settings[i].reference, NO_SETTING);
}

static void names_that_repeat(void) {
    plan("[sweep]\neval.every = 5, 10\nlog.every = 2, 4\ntrain.steps = 10, 20\nlr = 1e-3\n");
    assert_string_equal(sweep.runs[0].name, "eval.every=5+log.every=2+train.steps=10+lr=0.001"); /* steps is a column */
    assert_string_equal(sweep_key(&sweep.axes, 3), "lr");
}

static void refused(void) {
    assert_refused("no [sweep] section", plan("[train]\nsteps = 3\n"));
    assert_refused("does not divide", plan("[sweep]\nheads = 2, 3\n"));
    assert_refused(
        "more than 4096 combinations",
        plan(
            "[sweep]\nseed = 1,2,3,4,5,6,7,8\nlr=1,2,3,4,5,6,7,8\nd_ff=1,2,3,4,5,6,7,8\nwarmup=0,1,2,3\nheads=1,2,4\n"));
}

/* A row of attention.csv, in which the columns that a sweep does not read are 9. */
#define ROW(step, layer, head, std, entropy, saturated, grad_q, grad_scores, w_q, w_k)                                 \
#step "," #layer "," #head "," #std ",9," #entropy ",9," #saturated ",9,9," #grad_q ",9,9,9,9," #grad_scores       \
          ",9,9," #w_q "," #w_k ",9,9,9\n"

static void results_of_a_run(void) {
    static SweepRun run;
    const double *r = run.measured;
    run.config.train.warmup = 6;
    run.config.model.layers = run.config.model.heads = 2;
    snprintf(run.directory, sizeof run.directory, "%s", in("run"));
    assert_true(directory_make_new(in("run")));
    sweep_read_run(&run);
    assert_true(run.state == RUN_NOT_FINISHED);
    assert_true(isnan(r[MEASURE_VAL_LOSS]) && isnan(r[MEASURE_ENTROPY_LAST]));
    put_text("run/run.json",
             "{\"program\": \"sqrtdk\", \"result\": \"diverged\", \"error\": \"too far\", \"steps\": 12,"
             " \"train_loss\": 1, \"val_loss\": 3, \"seconds\": 1.5, \"threads\": 2}");
    put_log("run/metrics.csv", LOG_METRICS, "@0,1,1,1,4,4.5,2,\n5,1,1,1,3,,8,\n10,1,1,1,2,2.5,3,\n12,1,1,1,1,3,4,\n");
    put_log("run/attention.csv", LOG_ATTENTION,
            "@" ROW(0, 0, 0, 1, .5, 0, 1, 3, 2, 1) ROW(0, 0, 1, 3, .7, .5, 2, 3, 4, 3)
                ROW(0, 1, 0, 2, .9, 0, 3, 3, 2, 5) ROW(0, 1, 1, 2, .7, 0, 4, 3, 0, 1) ROW(9, 0, 0, 2, .1, 1, 6, 7, 1, 1)
                    ROW(9, 0, 1, 4, .2, 1, 8, 7, 1, 1) ROW(9, 1, 0, 6, .3, 1, 6, 9, 1, 1)
                        ROW(9, 1, 1, 8, .4, 0, 8, 9, 5, 5));
    sweep_read_run(&run);
    assert_true(run.state == RUN_DIVERGED);
    assert_string_equal(run.message, "too far");
    assert_true(r[MEASURE_TRAIN_LOSS] == 1);
    assert_true(r[MEASURE_VAL_LOSS] == 3 && r[MEASURE_BEST_VAL_LOSS] == 2.5 && r[MEASURE_BEST_STEP] == 10);
    assert_true(r[MEASURE_TRAIN_LOSS_MEAN] == 1 &&
                r[MEASURE_GRAD_NORM_MAX] == 4); /* from step 10.8, and from step 6 on */
    assert_true(r[MEASURE_GRAD_NORM_MEDIAN] == 3.5 && r[MEASURE_STEPS] == 12 && r[MEASURE_SECONDS] == 1.5 &&
                r[MEASURE_THREADS] == 2);
    assert_close(r[MEASURE_ENTROPY_FIRST], .7, 1e-15, "first mean entropy");
    assert_close(r[MEASURE_ENTROPY_LAST], .25, 1e-15, "last mean entropy");
    assert_close(r[MEASURE_SCORE_STD_LAST], 5, 1e-15, "mean score_std");
    assert_true(r[MEASURE_SATURATED_FIRST] == .125 && r[MEASURE_SATURATED_LAST] == .75);
    assert_true(r[MEASURE_GRAD_Q_FIRST] == 2.5 && r[MEASURE_GRAD_Q_LAST] == 7);
    assert_true(r[MEASURE_GRAD_SCORES_FIRST] == 3 && r[MEASURE_GRAD_SCORES_LAST] == 8);
    assert_true(r[MEASURE_QK_NORM_FIRST] == 6 && r[MEASURE_QK_NORM_LAST] == 7);
    put_text("run/run.json", "{\"program\": \"sqrtdk\", \"result\": \"interrupted\"}");
    run.config.model.layers = 1;
    put_log("run/attention.csv", LOG_ATTENTION,
            "@" ROW(0, 0, 0, 1, .5, 0, 0, 0, 0, 0) ROW(0, 0, 1, 3, .7, 0, 0, 0, 0, 0) ROW(9, 0, 0, 2, .1, 0, 0, 0, 0, 0)
                ROW(8, 0, 1, 2, .1, 0, 0, 0, 0, 0));
    sweep_read_run(&run);
    assert_true(run.state == RUN_DAMAGED && isnan(r[MEASURE_STEPS]));
    assert_non_null(strstr(run.message, "attention.csv:5")); /* steps in disorder */
    assert_int_equal(remove(in("run/attention.csv")), 0);
    put_log("run/metrics.csv", LOG_METRICS, "@0,0,1,1,4,4,1,\n8,8,2.5,1,3,,1,\n");
    sweep_read_run(&run);
    assert_true(run.state == RUN_NOT_FINISHED); /* it was stopped */
    assert_true(r[MEASURE_STEPS] == 8 && r[MEASURE_SECONDS] == 2.5 &&
                isnan(r[MEASURE_THREADS])); /* as far as its log goes */
    put_text("run/run.json", "{\"program\": \"sqrtdk\", \"result\": \"failed\", \"error\": \"no luck\"}");
    sweep_read_run(&run);
    assert_true(run.state == RUN_FAILED);
    assert_string_equal(run.message, "no luck");
    put_text("run/run.json", "{\"program\": \"sqrtdk\", \"result\": \"fini"); /* which is not "not started" */
    sweep_read_run(&run);
    assert_true(run.state == RUN_DAMAGED);
    assert_non_null(strstr(run.message, "run/run.json"));
}

/* Makes a run i that finished with loss 1 + i * step and entropies .5 and .25, or diverged. */
static void assert_table(const char *text, size_t diverged, double step, const char *expected) {
    plan(text);
    for (size_t i = 0; i < sweep.run_count; i++) {
        double *r = sweep.runs[i].measured;
        sweep.runs[i].state = i == diverged ? RUN_DIVERGED : RUN_FINISHED;
        r[MEASURE_VAL_LOSS] = 1 + (double)i * step;
        r[MEASURE_ENTROPY_FIRST] = .5;
        r[MEASURE_ENTROPY_LAST] = .25;
    }
    sweep_summarize(&sweep);
    sweep_print_table(&sweep, print_into());
    assert_string_equal(what_was_printed(), expected);
}

/* Means over seeds with their intervals, differences to the setting of the same d_k that divides by √d_k. */
static void table_of_settings(void) {
    assert_table("[sweep]\nscale_divisor = none, sqrt_dk\nseed = 1, 2\nd_k = 4, 16\n", 3, .01,
                 "\n"
                 "                          n      validation     against √d_k  entropy over time\n"
                 "÷ 1, d_k 4                2 1.0100 ± 0.1271 -0.0400 ± 0.0000  0.500 -> 0.250\n"
                 "÷ 1, d_k 16               1          1.0100          -0.0400  0.500 -> 0.250\n"
                 "    1 diverged\n"
                 "÷ √d_k, d_k 4             2 1.0500 ± 0.1271                -  0.500 -> 0.250\n"
                 "÷ √d_k, d_k 16            2 1.0600 ± 0.1271                -  0.500 -> 0.250\n");
    assert_table("[sweep]\nscale_divisor = none, sqrt_dk\n", 2, 1e-6, /* a difference that rounds to zero */
                 "\n"
                 "                          n      validation     against √d_k  entropy over time\n"
                 "÷ 1                       1          1.0000           0.0000  0.500 -> 0.250\n"
                 "÷ √d_k = 8                1          1.0000                -  0.500 -> 0.250\n");
    assert_table("[sweep]\nscale_divisor = none, 3\n", 0, .01, /* nothing to compare with */
                 "\n"
                 "                          n      validation  entropy over time\n"
                 "÷ 1                       0               -\n"
                 "    1 diverged\n"
                 "÷ 3                       1          1.0100  0.500 -> 0.250\n");
}

int main(void) {
    return RUN_TESTS(TEMPORARY_TEST(names_and_settings), TEMPORARY_TEST(labels), TEMPORARY_TEST(seed_anywhere),
                     TEMPORARY_TEST(references), TEMPORARY_TEST(names_that_repeat), TEMPORARY_TEST(refused),
                     TEMPORARY_TEST(results_of_a_run), TEMPORARY_TEST(table_of_settings),
                     TEMPORARY_TEST(order_and_styles));
}
