/* Sweeps as a whole: the runs, the tables. */
#include "sweeping.h"

/* A run of a sweep is the run that its config gives by itself, to the bit, and the summary has its numbers. */
static void runs_are_runs_by_themselves(void) {
    CONFIGURE(FOUR);
    sweep("sweep", 3);
    assert_result("sweep", "finished");
    char *rest = timeless("sweep"), *line = strsep(&rest, "\n");
    assert_string_equal(
        line, "run,scale_divisor,seed,divisor,result,steps,train_loss,train_loss_mean,val_loss,best_val_loss,best_step,"
              "val_accuracy,entropy_first,entropy_last,score_std_first,score_std_last,saturated_first,saturated_last,"
              "grad_q_first,grad_q_last,grad_scores_first,grad_scores_last,qk_norm_first,qk_norm_last,"
              "grad_norm_median,grad_norm_max,threads,error");
    for (int i = 0; i < 4; i++) {
        static const char *const divisors[] = {"none", "sqrt_dk"}, *const numbers[] = {"1", "4"};
        char name[64], divisor[64], seed[64], begin[160];
        double train_loss, val_loss;
        snprintf(name, sizeof name, "sweep/scale_divisor=%s+seed=%d", divisors[i / 2], i % 2 + 1);
        snprintf(divisor, sizeof divisor, "attention.scale_divisor=%s", divisors[i / 2]);
        snprintf(seed, sizeof seed, "train.seed=%d", i % 2 + 1);
        CONFIGURE(TINY, divisor, seed);
        train("alone", 2);
        assert_that(same_parameters("alone", name), "the parameters of %s", name);
        assert_true(directory_remove(in("alone")));
        const Table *metrics = read_metrics(name);
        snprintf(begin, sizeof begin, "%s,%s,%d,%s,finished,12,", strchr(name, '/') + 1, divisors[i / 2], i % 2 + 1,
                 numbers[i / 2]);
        line = strsep(&rest, "\n");
        assert_memory_equal(line, begin, strlen(begin));
        assert_int_equal(sscanf(line + strlen(begin), "%lf,%*f,%lf", &train_loss, &val_loss), 2);
        assert_true(train_loss == last_of(metrics, METRICS_TRAIN_LOSS) &&
                    val_loss == last_of(metrics, METRICS_VAL_LOSS));
        assert_string_equal(strrchr(line, ',') - 2, ",1,"); /* 3 threads for 4 runs: one each, and no error */
    }
    assert_non_null(strstr(contents(in("table.txt"), NULL), "÷ √d_k = 4"));
}

/* One run waits until the other three have finished, and for a few views more. */
#define WAIT_FOR_THE_OTHERS "until [ $(grep -l finished sweep/*/run.json | wc -l) = 3 ]; do sleep .05; done; sleep 1.5"

/* A terminal shows one line that fits about all runs, and a line for each run that has ended. */
static void one_progress_line(void) {
    size_t widest = 0;
    Progress progress = {.stream = print_into(), .terminal = true, .last = -INFINITY};
    CONFIGURE(FOUR);
    const SweepOptions options = {.threads = 4,
                                  .out = in("sweep"),
                                  .command_line = "./train sweep tiny.ini",
                                  .program = program_where(THE_ONE, WAIT_FOR_THE_OTHERS),
                                  .progress = &progress};
    FILE *table = fopen("/dev/null", "w");
    setenv("TERM", "xterm", 1);
    assert_int_equal(sweep_run(&config, &axes, &options, table), 0);
    fclose(table);
    char *text = what_was_printed();
    assert_non_null(strstr(text, ": 4 runs, 4 at a time with 1 thread each\n"));
    assert_non_null(strstr(text, "3 of 4 runs ended, 1 running   step 36/48"));
    assert_non_null(strstr(text, "[4/4] scale_divisor=none+seed=2: val "));
    for (char *rest = text, *line; (line = strsep(&rest, "\n\r\033")) != NULL;)
        if (strlen(line) > widest && !strstr(line, "sweeping")) widest = strlen(line);
    assert_in_range(widest, 20, 80); /* the path of the test's own directory may be longer */
}

/* Runs of a sweep may differ in context, heads, text and length. */
static void odd_sweeps_are_trained(void) {
    static const char *const sweeps[] = {"sweep.model.heads=1, 2, 8", "sweep.model.context=8, 16",
                                         "sweep.data.val_fraction=0.2, 0.3", "sweep.train.steps=2, 4"};
    for (size_t i = 0; i < COUNT_OF(sweeps); i++) {
        char name[16];
        snprintf(name, sizeof name, "sweep%zu", i);
        CONFIGURE(TINY, "train.steps=2", "train.warmup=1", sweeps[i]);
        sweep(name, 2);
    }
    assert_null(strstr(contents(in("sweep0/config.ini"), NULL), "\nd_k"));           /* it follows from heads */
    assert_null(strstr(contents(in("sweep0/config.ini"), NULL), "differs between")); /* also of keys that nobody set */
    assert_non_null(strstr(timeless("sweep0"), "\nheads=2,2,4,finished,2,"));
    assert_non_null(strstr(timeless("sweep0"), "\nheads=8,8,2,finished,2,")); /* √4, as 8 heads have a d_k of 4 */
}

int main(void) {
    return RUN_TESTS(SWEEP_TEST(runs_are_runs_by_themselves), SWEEP_TEST(one_progress_line),
                     SWEEP_TEST(odd_sweeps_are_trained));
}
