/* The arms of a sweep before any is trained: names, groups, coincidences, what is compared with what; and what is read
   back from the files of a run. */
#include "temporary.h"

#include "sweep/arm_results.h"
#include "sweep/arms.h"

static Config config;
static Arms arms;

static int leave(void **state) {
    arms_free(&arms);
    return temporary_leave(state);
}
#define ARMS_TEST(function) cmocka_unit_test_setup_teardown(function, temporary_enter, leave)

static bool try_arms(const char *text, Error *err) {
    arms_free(&arms);
    return config_load(&config, put_text("sweep.ini", text), NULL, 0, err) && arms_make(&arms, &config, err);
}
static void make(const char *text) {
    Error err = {0};
    bool done = try_arms(text, &err);
    assert_that(done, "%s", err.message);
}

static void names_and_groups(void **state) {
    (void)state;
    make("[sweep]\nscale_divisor = none, sqrt_dk, 3.50\nseed = 7, 8\n");
    assert_int_equal(arms.count, 6);
    assert_int_equal(arms_runs(&arms), 6);
    assert_int_equal(arms.group_count, 3);
    assert_string_equal(arms.arms[0].name, "scale_divisor=none+seed=7");
    assert_string_equal(arms.arms[5].name, "scale_divisor=3.5+seed=8");
    assert_int_equal(arms.arms[5].config.train.seed, 8);
    assert_string_equal(arms.groups[0].label, "÷ 1 (none)");
    assert_string_equal(arms.groups[1].label, "÷ √d_k = 8");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(arms.arms[i].group, i / 2);
        assert_int_equal(arms.groups[i / 2].arm[i % 2], i);
        assert_int_equal(arms.groups[i / 2].count, 2);
        assert_int_equal(arms.groups[i / 2].reference, 1);
        assert_int_equal(arms.arms[i].same_as, i);
    }
}

/* What groups share that differ in one key. */
static void labels_without_a_key(void **state) {
    (void)state;
    char label[GROUP_LABEL];
    make("[sweep]\nscale_divisor = none, sqrt_dk\nlr = 1e-3, 2e-3\nseed = 7, 8\n");
    arms_label(&arms, 3, 0, label);
    assert_string_equal(label, "lr 0.002");
    arms_label(&arms, 3, 1, label);
    assert_string_equal(label, "÷ √d_k = 8");
    make("[sweep]\nscale_divisor = none, sqrt_dk, 3\nheads = 2, 4\n"); /* √d_k is not the same for both */
    arms_label(&arms, 3, 1, label);
    assert_string_equal(label, "÷ √d_k");
    arms_label(&arms, 5, 1, label);
    assert_string_equal(label, "÷ 3");
    make("[sweep]\nscale_divisor = none, sqrt_dk\n");
    arms_label(&arms, 1, 0, label);
    assert_string_equal(label, "");
    make("[sweep]\nlr = 1e-3, 2e-3\n");
    arms_label(&arms, 1, 0, label);
    assert_string_equal(label, "÷ √d_k = 8");
}

/* The seed first, another key, and no divisor among the keys. */
static void seed_anywhere(void **state) {
    (void)state;
    make("[sweep]\nseed = 1, 2, 3\nlr = 1e-3, 2e-3\n");
    assert_int_equal(arms.group_count, 2);
    assert_string_equal(arms.arms[3].name, "seed=2+lr=0.002");
    assert_int_equal(arms.arms[3].group, 1);
    assert_int_equal(arms.groups[1].arm[1], 3);
    assert_string_equal(arms.groups[1].label, "lr 0.002");
    assert_int_equal(arms.groups[1].reference, 1); /* it divides by √d_k itself */
    make("[attention]\nscale_divisor = dk\n[sweep]\nseed = 1, 2\n");
    assert_int_equal(arms.group_count, 1);
    assert_string_equal(arms.groups[0].label, "÷ d_k = 64");
    assert_int_equal(arms.groups[0].reference, NO_GROUP);
}

static void coincidences(void **state) {
    (void)state;
    make("[model]\nd_k = 4\n[sweep]\nscale_divisor = none, 2sqrt_dk, dk, 4, sqrt_dk, 2\nseed = 1, 2\n");
    static const size_t same[] = {0, 1, 1, 1, 4, 4};
    assert_int_equal(arms_runs(&arms), 6);
    for (size_t i = 0; i < 12; i++) assert_int_equal(arms.arms[i].same_as, 2 * same[i / 2] + i % 2);
    for (size_t g = 0; g < 6; g++) {
        assert_int_equal(arms.groups[g].same_as, same[g]);
        assert_int_equal(arms.groups[g].reference, 4);
    }
    assert_string_equal(arms.groups[1].legend, "÷ 2√d_k = 4 and ÷ d_k = 4 and ÷ 4");
    assert_string_equal(arms.groups[2].legend, "");
    /* d_k follows from heads: where it is 4 they coincide, and each is compared with the same number of heads */
    make("[model]\nd_model = 32\n[sweep]\nmodel.heads = 8, 2\nscale_divisor = sqrt_dk, 2sqrt_dk, dk\n");
    static const size_t those[] = {0, 1, 1, 3, 4, 5};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(arms.arms[i].same_as, those[i]);
        assert_int_equal(arms.groups[i].reference, i / 3 * 3);
    }
    assert_string_equal(arms.groups[2].label, "heads 8, ÷ d_k = 4");
    make("[sweep]\nmodel.d_ff = 512, 256\ndata.val_fraction = 0.1, 0.2\n"); /* 512 is the default, too: no two alike */
    assert_int_equal(arms_runs(&arms), 4);
}

static void names_that_repeat(void **state) {
    (void)state;
    make("[sweep]\neval.every = 5, 10\nlog.every = 2, 4\ntrain.steps = 10, 20\nlr = 1e-3\n");
    assert_string_equal(arms.arms[0].name, "eval.every=5+log.every=2+train.steps=10+lr=0.001"); /* steps is a column */
    assert_string_equal(arms_key(&config, 3), "lr");
}

static void refused(void **state) {
    (void)state;
    Error err = {0};
    assert_refused(try_arms("[train]\nsteps = 3\n", &err), &err, "no [sweep] section", "no section");
    assert_refused(try_arms("[sweep]\nheads = 2, 3\n", &err), &err, "does not divide", "three heads");
    assert_refused(try_arms("[sweep]\nseed = 1,2,3,4,5,6,7,8\nlr=1,2,3,4,5,6,7,8\nheads=1,2,4,8,16\n", &err), &err,
                   "more than 256 combinations", "320");
}

#define ATTENTION                                                                                                      \
    "layer,head,step,score_std,entropy,saturated,grad_q_median,grad_scores_median,w_k_norm,w_q_norm,new,score_max,"    \
    "max_weight,grad_q_mean,grad_q_rms,grad_q_p10,grad_q_p99,grad_scores_mean,grad_scores_rms,grad_scores_p10,"        \
    "grad_scores_p99\n"
#define REST ",9,9,9,9,9,9,9,9,9,9,9\n"

/* Columns that a later version adds, in whatever place, change nothing. */
static void results_of_a_run(void **state) {
    (void)state;
    Error err = {0};
    ArmResults r;
    char message[64];
    ArmState how;
    assert_true(directory_make(in("arm"), true, &err));
    assert_true(arm_state_read(in("arm"), &how, message, sizeof message, &err) && how == ARM_WAITING);
    assert_true(arm_results_read(&r, in("arm"), &err));
    assert_true(r.curves[CURVE_VAL_LOSS].count == 0 && isnan(curve_last(&r.curves[CURVE_ENTROPY])));
    arm_results_free(&r);
    put_text("arm/run.json",
             "{\"program\": \"sqrtdk\", \"result\": \"diverged\", \"error\": \"too far\", \"steps\": 12,"
             " \"seconds\": 1.5, \"threads\": 2}");
    put_text("arm/metrics.csv", "step,new,train_loss,val_loss,grad_norm,lr,seconds,tokens\n"
                                "0,1,4,4.5,2,1,1,1\n5,1,3,,8,1,1,1\n10,1,2,2.5,3,1,1,1\n12,1,1,3,4,1,1,1\n");
    put_text("arm/attention.csv",
             ATTENTION "0,0,0,1,.5,0,1,3,1,2" REST "0,1,0,3,.7,.5,2,3,3,4" REST "1,0,0,2,.9,0,3,3,5,2" REST
                       "1,1,0,2,.7,0,4,3,1,0" REST "0,0,9,2,.1,1,6,7,1,1" REST "0,1,9,4,.2,1,8,7,1,1" REST
                       "1,0,9,6,.3,1,6,9,1,1" REST "1,1,9,8,.4,0,8,9,5,5" REST "0,0,12,2,.1,0,0,0,0,0" REST);
    assert_true(arm_state_read(in("arm"), &how, message, sizeof message, &err) && how == ARM_DIVERGED);
    assert_string_equal(message, "too far");
    assert_that(arm_results_read(&r, in("arm"), &err), "%s", err.message);
    assert_int_equal(r.curves[CURVE_TRAIN_LOSS].count, 4);
    assert_int_equal(r.curves[CURVE_VAL_LOSS].count, 3);
    assert_true(curve_last(&r.curves[CURVE_VAL_LOSS]) == 3 && r.best_val_loss == 2.5 && r.best_step == 10);
    assert_true(r.grad_norm_median == 3.5 && r.steps == 12 && r.seconds == 1.5 && r.threads == 2);
    assert_int_equal(r.curves[CURVE_ENTROPY].count, 2); /* the last look was cut off */
    assert_close(curve_first(&r.curves[CURVE_ENTROPY]), .7, 1e-15, "mean entropy");
    assert_close(curve_last(&r.curves[CURVE_SCORE_STD]), 5, 1e-15, "mean score_std");
    assert_true(curve_first(&r.curves[CURVE_SATURATED]) == .125 && curve_last(&r.curves[CURVE_SATURATED]) == .75);
    assert_true(curve_first(&r.curves[CURVE_GRAD_Q]) == 2.5 && curve_last(&r.curves[CURVE_GRAD_Q]) == 7);
    assert_true(curve_first(&r.curves[CURVE_GRAD_SCORES]) == 3 && curve_last(&r.curves[CURVE_GRAD_SCORES]) == 8);
    assert_true(curve_first(&r.curves[CURVE_QK_NORM]) == 6 && curve_last(&r.curves[CURVE_QK_NORM]) == 7);
    assert_true(r.heads == 2 && r.entropy[3] == .2 && r.score_std[2] == 2 && r.curves[CURVE_ENTROPY].step[1] == 9);
    arm_results_free(&r);
    put_text("arm/attention.csv", ATTENTION "0,0,0,1,.5,0,0,0,0,0" REST "0,1,0,3,.7,0,0,0,0,0" REST
                                            "0,0,9,2,.1,0,0,0,0,0" REST "0,1,8,2,.1,0,0,0,0,0" REST);
    assert_refused(arm_results_read(&r, in("arm"), &err), &err, "attention.csv:5", "steps in disorder");
    arm_results_free(&r);
    put_text("arm/run.json", "{\"program\": \"sqrtdk\", \"result\": \"running\"}");
    assert_int_equal(remove(in("arm/attention.csv")), 0);
    put_text("arm/metrics.csv",
             "step,tokens,seconds,lr,train_loss,val_loss,grad_norm\n0,0,1,1,4,4,1\n8,8,2.5,1,3,,1\n");
    assert_that(arm_results_read(&r, in("arm"), &err), "%s", err.message);
    assert_true(r.steps == 8 && r.seconds == 2.5 && isnan(r.threads)); /* as far as its log goes */
    arm_results_free(&r);
    assert_true(arm_state_read(in("arm"), &how, message, sizeof message, &err) &&
                how == ARM_INTERRUPTED);                                      /* it was killed */
    put_text("arm/run.json", "{\"program\": \"sqrtdk\", \"result\": \"fini"); /* which is not "not started" */
    assert_refused(arm_state_read(in("arm"), &how, message, sizeof message, &err), &err, "arm/run.json", "cut off");
    assert_refused(arm_results_read(&r, in("arm"), &err), &err, "arm/run.json", "cut off");
    arm_results_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ARMS_TEST(names_and_groups),     ARMS_TEST(seed_anywhere), ARMS_TEST(coincidences),
        ARMS_TEST(names_that_repeat),    ARMS_TEST(refused),       ARMS_TEST(results_of_a_run),
        ARMS_TEST(labels_without_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
