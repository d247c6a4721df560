/* The sentences of ./train why. Each figure in them is computed here from the run's CSV files by other means. Figures
   that a run's files lack are not in the sentences. */
#include "sweeping.h"

#include "lab/why/why.h"

static Why why;

/* The mean of a column over the two heads, in the first rows or the last. */
static double heads_mean(const char *run, int column, bool last) {
    const Table *t = read_table(inside(run, "attention.csv"), log_header(LOG_ATTENTION));
    const size_t row = last ? t->rows - 2 : 0;
    return (t->at[row][column] + t->at[row + 1][column]) / 2;
}

/* Sets the losses of tables in run.json of a run. */
static void set_baselines(const char *run, const double losses[4]) {
    Json *description = run_description_load(in(run)), *list = js_array();
    for (size_t i = 0; i < 4; i++) js_append(list, js_number(losses[i]));
    js_set(description, "ngram_losses", list);
    run_description_save(description, directory_open(in(run)));
}

static void read_run(const char *run) { why_run(in(run), &why); }

/* Reads a sweep. */
static void read_sweep(void) { why_sweep(sweep_view(in("sweep")), &why); }

/* Returns whether any paragraph has these words. */
static bool says(const char *words) {
    for (size_t i = 0; i < why.count; i++)
        if (strstr(why.sentence[i], words)) return true;
    return strstr(why.table, words) != NULL;
}
static void assert_said(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void assert_said(const char *format, ...) {
    char words[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    for (size_t i = 0; !says(words) && i < why.count; i++) print_error("%s\n", why.sentence[i]);
    if (!says(words)) print_error("%s", why.table);
    assert_that(says(words), "no \"%s\"", words);
}

static void figures_of_a_run(void) {
    double uniform = 0;
    CONFIGURE("attention.scale_divisor=none", "model.d_k=64");
    train("run", 1);
    const Table *metrics = read_metrics("run"),
                *attention = read_table(in("run/attention.csv"), log_header(LOG_ATTENTION));
    double losses[4] = {0}, steps[4] = {0};
    size_t evaluated = 0;
    for (size_t row = 0; row < metrics->rows; row++)
        if (!isnan(metrics->at[row][METRICS_VAL_LOSS])) {
            losses[evaluated] = metrics->at[row][METRICS_VAL_LOSS];
            steps[evaluated++] = metrics->at[row][METRICS_STEP];
        }
    assert_int_equal(evaluated, 4);
    assert_true(losses[0] > losses[1] && losses[1] > losses[2]);
    /* Tables that are passed at the second and third evaluation, and one that is not. */
    set_baselines("run", (double[]){(losses[0] + losses[1]) / 2, (losses[1] + losses[2]) / 2, .25, .125});
    read_run("run");
    assert_said("Scores divided by 1: before the first step their standard deviation is %.3g "
                "(mean of 2 heads, from %.3g to %.3g)",
                heads_mean("run", ATTENTION_SCORE_STD, false),
                fmin(attention->at[0][ATTENTION_SCORE_STD], attention->at[1][ATTENTION_SCORE_STD]),
                fmax(attention->at[0][ATTENTION_SCORE_STD], attention->at[1][ATTENTION_SCORE_STD]));
    for (int position = 1; position < 16; position++) uniform += 1. / (position + 1) / 15;
    assert_said("entropy %.2f (1 is", heads_mean("run", ATTENTION_ENTROPY, false));
    assert_said("%.0f %% of its weight on one key, where uniform weights would put %.0f %%; %.0f %% of the queries",
                100 * heads_mean("run", ATTENTION_MAX_WEIGHT, false), 100 * uniform,
                100 * heads_mean("run", ATTENTION_SATURATED, false));
    assert_said("Nothing has taught it which key");
    assert_said("At step 60 the entropy is %.2f, and these shares are %.0f %% and %.0f %%.",
                heads_mean("run", ATTENTION_ENTROPY, true), 100 * heads_mean("run", ATTENTION_MAX_WEIGHT, true),
                100 * heads_mean("run", ATTENTION_SATURATED, true));
    assert_said(
        "a median norm of %.2g (mean %.2g) before the first step and of %.2g (mean %.2g) at step 60.",
        heads_mean("run", ATTENTION_GRAD_SCORES_MEDIAN, false), heads_mean("run", ATTENTION_GRAD_SCORES_MEAN, false),
        heads_mean("run", ATTENTION_GRAD_SCORES_MEDIAN, true), heads_mean("run", ATTENTION_GRAD_SCORES_MEAN, true));
    assert_said("at step 60 is %.2f nats per character (a table of character pairs has %.2f, one of character "
                "triples 0.25)",
                losses[3], (losses[1] + losses[2]) / 2);
    assert_said("it was first below a table of single characters at step %.0f, a table of character pairs at step "
                "%.0f, but not below a table of character triples.",
                steps[1], steps[2]);
    assert_said("run/config.ini --set attention.scale_divisor=sqrt_dk");
    assert_false(says("not finished"));
    /* Tables whose losses rise with the order: each has its own step. Of those never passed the highest is
     * named. */
    set_baselines("run", (double[]){.125, .25, (losses[1] + losses[2]) / 2, (losses[0] + losses[1]) / 2});
    read_run("run");
    assert_said(
        "it was first below a table of character triples at step %.0f, a table of 4-grams at step %.0f, but not "
        "below a table of character pairs.",
        steps[2], steps[1]);
    set_baselines("run", (double[]){.125, .25, .5, .375});
    read_run("run");
    assert_said(" It was not below a table of character triples.");
}

/* Above all tables, and below all: the one table that there is to name. */
static void ends_of_the_tables(void) {
    const double tables[] = {3, 2, 1.5, 1}, crossed[] = {3, 2, 1.5, 1.75}, none[] = {NAN, NAN, NAN, NAN};
    static const struct {
        double loss;
        const char *words;
    } cases[] = {{3.5, " (a table of single characters has 3.00)"},
                 {.5, " (a table of 4-grams has 1.00)"},
                 {2, " (a table of character pairs has 2.00, one of character triples 1.50)"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[WHY_BYTES] = "";
        baselines_add(tables, cases[i].loss, text);
        assert_string_equal(text, cases[i].words);
    }
    char text[WHY_BYTES] = "";
    baselines_add(crossed, 1.9, text);
    assert_string_equal(text, " (a table of character pairs has 2.00, one of 4-grams 1.75)");
    *text = 0;
    baselines_add(none, 1.9, text);
    assert_string_equal(text, "");
}

/* A figure that a run's files do not have is omitted. */
static void nothing_invented(void) {
    CONFIGURE("train.steps=1", "model.init=gpt2");
    train("soft", 1);
    read_run("soft");
    assert_said("before the first step");
    assert_said("at step 1 is");
    assert_false(says("Nothing has taught"));
    assert_that(remove(in("soft/attention.csv")) == 0, "no attention.csv");
    read_run("soft");
    assert_said("Scores divided by √d_k = 4. No scores were measured.");
    assert_false(says("entropy") || says("gradient"));

    CONFIGURE("train.steps=1", "model.context=1");
    train("position", 1);
    read_run("position");
    assert_said("standard deviation");
    assert_false(says("entropy") || says("gradient"));

    CONFIGURE("train.steps=1", "data.task=recall", "data.corpus=\"\"", "model.context=32",
              "attention.score_gradient=no");
    train("recall", 1);
    read_run("recall");
    assert_said("nats per answer; guessing has %.2f.", log(8));
    assert_said("; most queries are not asked for an answer; training does not use it");
    assert_said("one task");
    assert_false(says("a table of"));
}

static void unfinished_runs(void) {
    CONFIGURE("train.steps=4");
    train("run", 1);
    set_text("run/run.json", "\"finished\"", "\"running\"");
    read_run("run");
    assert_said("The run has not finished: run.json says running, so it is at work or was killed. It was logged up to "
                "step 4 of 4.");
    set_text("run/run.json", "\"running\"", "\"diverged\", \"error\": \"diverged at step 3: \\u001b[31mred\"");
    read_run("run");
    assert_said("run.json says diverged (diverged at step 3:");
    put_log("run/metrics.csv", LOG_METRICS, "@");
    read_run("run");
    assert_said("Nothing was logged.");
    assert_said("metrics.csv or attention.csv is not as the run left it");
    assert_false(says("nats per"));
    /* A log that is damaged, and a step with fewer rows than there are heads. */
    set_text("run/config.ini", "heads = 2\n", "heads = 3\n");
    read_run("run");
    assert_said("No scores were measured.");
    assert_said("attention.csv:4: a step does not have 3 rows, one for each head.");
    set_text("run/config.ini", "heads = 3\n", "heads = 2\n");
    set_text("run/attention.csv", "\n4,0,1,", "\nx,0,1,");
    put_text("run/metrics.csv", "");
    read_run("run");
    assert_said("Left out: ");
    assert_said("attention.csv:5");
    assert_said("metrics.csv is damaged: the line of the names of its columns is missing.");
}

static void figures_of_a_sweep(void) {
    static const char *const names[] = {"none+seed=1", "none+seed=2", "sqrt_dk+seed=1", "sqrt_dk+seed=2"};
    double loss[4], deviation[4], entropy[4], first[4], last[4];
    CONFIGURE(FOUR, "model.d_k=64", "model.layers=1");
    sweep("sweep", 2);
    for (size_t i = 0; i < 4; i++) {
        char run[64];
        snprintf(run, sizeof run, "sweep/scale_divisor=%s", names[i]);
        const Table *metrics = read_metrics(run);
        loss[i] = metrics->at[metrics->rows - 1][METRICS_VAL_LOSS];
        deviation[i] = heads_mean(run, ATTENTION_SCORE_STD, false);
        entropy[i] = heads_mean(run, ATTENTION_ENTROPY, true);
        first[i] = heads_mean(run, ATTENTION_GRAD_SCORES_MEDIAN, false);
        last[i] = heads_mean(run, ATTENTION_GRAD_SCORES_MEDIAN, true);
        set_baselines(run, (double[]){9, .5, .25, .125});
    }
    read_sweep();
    const size_t high = loss[0] + loss[1] > loss[2] + loss[3] ? 0 : 2, low = 2 - high;
#define MEAN(values, at) ((values[at] + values[(at) + 1]) / 2)
    const char *labels[] = {"÷ 1", "", "÷ √d_k = 8"};
    assert_said("On average over the seeds that finished, %s ends with the lowest validation loss, %.2f nats per "
                "character (a table of single characters has 9.00, one of character pairs 0.50). %s ends with the "
                "highest, %.2f nats",
                labels[low], MEAN(loss, low), labels[high], MEAN(loss, high));
    assert_said(" Their scores start with standard deviations of %.3g and %.3g.", MEAN(deviation, low),
                MEAN(deviation, high));
    assert_said("Lowest and highest are %.2f apart; a table of character pairs is 8.50 below one of single characters, "
                "triples 0.25 below pairs, 4-grams 0.12 below triples.",
                MEAN(loss, high) - MEAN(loss, low));
    assert_said(" %#8.2g %7.2f %#8.2g %7.2f\n", MEAN(first, 2), MEAN(entropy, 2), MEAN(last, 2), MEAN(loss, 2));
    /* Student's t for one degree of freedom */
    assert_said("uncertain by up to ± %.2g (95 %%)",
                12.706 * fmax(fabs(loss[0] - loss[1]), fabs(loss[2] - loss[3])) / 2);
    assert_false(says("diverged"));

    /* A text without order: a table of more characters is no better. */
    for (size_t i = 0; i < 4; i++) {
        char run[64];
        snprintf(run, sizeof run, "sweep/scale_divisor=%s", names[i]);
        set_baselines(run, (double[]){1.1807, 1.1977, 1.1977, 1.3078});
    }
    read_sweep();
    assert_said(
        "a table of character pairs is 0.02 above one of single characters, triples level with pairs, 4-grams 0.11 "
        "above triples.");
    assert_false(says("-0."));

    /* A run less. */
    set_text("sweep/scale_divisor=none+seed=2/run.json", "\"finished\"", "\"diverged\"");
    read_sweep();
    assert_said(
        "Of 4 runs 1 diverged, 0 failed, 0 are damaged and 0 have not finished; they are in no mean. The first is "
        "scale_divisor=none+seed=2.");
    assert_said("÷ 1                         1 ");
}

/* The table has the best and the last of many settings, and says how many it omits. Its lines, and those of the first
   paragraph, fit a terminal. */
static void many_settings(void) {
    size_t lines = 0;
    CONFIGURE("train.steps=2", "sweep.attention.scale_divisor=none, sqrt_dk, dk, 2sqrt_dk, 1.5",
              "sweep.train.lr=1e-3, 2e-3, 3e-3");
    sweep("sweep", 2);
    read_sweep();
    assert_said("(3 settings between these are left out)\n");
    for (char *rest = why.table, *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL; lines++)
        assert_that(utf8_columns(line, strlen(line)) <= 80, "%s", line);
    assert_int_equal(lines, 2 + 12 + 1 + 3);
    assert_said("the best rate is chosen by the losses that are shown");

    FILE *out = fopen(in("first"), "w");
    why_write_first(in("sweep"), out);
    assert_int_equal(fclose(out), 0);
    char *text = contents(in("first"), NULL);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        assert_in_range(utf8_columns(line, (size_t)(end - line)), 1, 80);
        *end = end[1] ? ' ' : 0;
    }
    assert_string_equal(text, why.sentence[0]);
}

/* The prediction for the first layer stands beside that layer's deviation, if there are several layers. */
static void prediction_of_the_first_layer(void) {
    CONFIGURE("train.steps=1");
    train("one", 1);
    read_run("one");
    assert_said("; for the first layer d_k = %zu and", config.model.d_k);
    CONFIGURE("train.steps=1", "model.layers=2");
    train("two", 1);
    read_run("two");
    assert_said("(mean of 4 heads, ");
    assert_said("; in the first layer it is %.3g, where d_k = %zu and", heads_mean("two", ATTENTION_SCORE_STD, false),
                config.model.d_k);
}

/* With a context of one character there is no entropy and no gradient of scores. */
static void nothing_measured(void) {
    CONFIGURE("train.steps=2", "sweep.model.context=1, 16");
    sweep("sweep", 2);
    read_sweep();
    assert_said("       -        -       -        - ");
    assert_false(says("nan"));
}

/* Settings that end with the very same loss are not ranked: beta1 does nothing in SGD. */
static void equal_settings(void) {
    CONFIGURE(TINY, "train.optimizer=sgd", "sweep.train.beta1=.8, .9");
    sweep("same", 2);
    const Table *metrics = read_metrics("same/beta1=0.8");
    const double loss = last_of(metrics, METRICS_VAL_LOSS);
    why_sweep(sweep_view(in("same")), &why);
    assert_said("All 2 settings end with the same validation loss, %.2f nats per character", loss);
    assert_false(says("lowest") || says("highest") || says("apart"));

    CONFIGURE(TINY, "train.optimizer=sgd", "sweep.train.beta1=.8, .9", "sweep.train.lr=.01, .02");
    sweep("sweep", 2);
    read_sweep();
    assert_said(" and 1 other end with the lowest validation loss, ");
    assert_said(" and 1 other end with the highest, ");
}

static void sweep_without_results(void) {
    CONFIGURE("train.optimizer=sgd", "train.steps=8", "eval.every=100", "train.grad_clip=0", "sweep.train.lr=1e5, 1e6");
    sweep("sweep", 2);
    read_sweep();
    assert_string_equal(why.sentence[0], "None of the 2 runs has finished with a validation loss.");
    assert_said("Of 2 runs 2 diverged, 0 failed");
    assert_string_equal(why.table, "");
}

int main(void) {
    return RUN_TESTS(SWEEP_TEST(figures_of_a_run), SWEEP_TEST(ends_of_the_tables), SWEEP_TEST(nothing_invented),
                     SWEEP_TEST(unfinished_runs), SWEEP_TEST(figures_of_a_sweep), SWEEP_TEST(many_settings),
                     SWEEP_TEST(sweep_without_results), SWEEP_TEST(prediction_of_the_first_layer),
                     SWEEP_TEST(nothing_measured), SWEEP_TEST(equal_settings));
}
