/* The files of a run, and at which steps they get what. */
#include "training.h"

#include <dirent.h>

#include "base/json.h"
#include "base/results.h"
#include "train/optimizer.h"

/* A number of a run's run.json. */
static double described(const char *run, const char *key) {
    char path[64];
    size_t size;
    double number = NAN;
    snprintf(path, sizeof path, "%s/run.json", run);
    const char *text = contents(in(path), &size);
    assert_that(js_as_number(js_get(js_parse(text, size, path), key), &number), "%s in %s", key, path);
    return number;
}

/* run.json ends with the losses of the last rows of metrics.csv, to the last digit. */
static void metrics(void) {
    static const double steps[] = {0, 7, 14, 20, 21, 28, 35, 40, 42, 49, 56, 60};
    CONFIGURE("train.accumulate=2");
    train("run", 1);
    const Table *m = read_metrics("run");
    assert_int_equal(m->rows, COUNT_OF(steps));
    double best = INFINITY;
    for (size_t i = 0; i < m->rows; i++) {
        const double *row = m->at[i];
        assert_close(row[METRICS_STEP], steps[i], 0, "step of row %zu", i);
        assert_close(row[METRICS_TOKENS], steps[i] * 2 * 4 * 16, 0, "tokens of row %zu", i);
        assert_close(row[METRICS_LR], learning_rate(&config, (size_t)steps[i]), 1e-7 * row[METRICS_LR], "lr of row %zu",
                     i);
        assert_true(row[METRICS_SECONDS] >= 0 && (i == 0 || row[METRICS_SECONDS] >= m->at[i - 1][METRICS_SECONDS]));
        assert_int_equal(isfinite(row[METRICS_VAL_LOSS]) != 0, (int)steps[i] % 20 == 0);
        assert_true(row[METRICS_TRAIN_LOSS] > 0 && row[METRICS_GRAD_NORM] > 0);
        if (isfinite(row[METRICS_VAL_LOSS])) best = fmin(best, row[METRICS_VAL_LOSS]);
    }
    assert_close(described("run", "steps"), 60, 0, "steps");
    assert_close(described("run", "train_loss"), last_of(m, METRICS_TRAIN_LOSS), 0, "training loss");
    assert_close(described("run", "val_loss"), last_of(m, METRICS_VAL_LOSS), 0, "validation loss");
    assert_close(described("run", "best_val_loss"), best, 0, "best validation loss");
    size_t samples = 0;
    for (const char *at = contents(in("run/samples.txt"), NULL); (at = strstr(at, "==== step")) != NULL; at++)
        samples++;
    assert_int_equal(samples, 4);
}

/* The logs have rows at the start, at every step asked for, and at the end, in order. Some intervals do not divide
   steps. */
static void intervals(void) {
    const struct {
        const char *eval, *log, *attention;
        size_t rows, evaluations, measurements;
    } cases[] = {
        {"eval.every=0", "log.every=1000", "log.attention_every=0", 2, 1, 2},
        {"eval.every=7", "log.every=4", "log.attention_every=13", 9, 4, 3}, /* 0 4 7 8 12 14 16 17 */
        {"eval.every=1", "log.every=1", "log.attention_every=1", 18, 18, 18},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        char name[16], path[64];
        snprintf(name, sizeof name, "run%zu", n);
        snprintf(path, sizeof path, "%s/attention.csv", name);
        CONFIGURE("train.steps=17", cases[n].eval, cases[n].log, cases[n].attention, "log.sample_tokens=0");
        train(name, 1);
        const Table *m = read_metrics(name);
        const Table *a = read_table(in(path), log_header(LOG_ATTENTION));
        size_t evaluations = 0, expected = n == 1 ? 8 : cases[n].rows;
        for (size_t i = 0; i < m->rows; i++) evaluations += isfinite(m->at[i][METRICS_VAL_LOSS]) != 0;
        assert_int_equal(m->rows, expected);
        assert_int_equal(evaluations, cases[n].evaluations);
        assert_int_equal(a->rows, cases[n].measurements * 2);
        assert_close(m->at[m->rows - 1][METRICS_STEP], 17, 0, "last step");
    }
}

/* log.attention_every and eval.every = doubling: rows, snapshots, heatmaps and validation losses at 0, at the powers of
   two, and at the end. */
static void doubling_intervals(void) {
    static const int steps[] = {0, 1, 2, 4, 8, 16, 17};
    CONFIGURE("train.steps=17", "log.attention_every=doubling", "eval.every=doubling", "log.sample_tokens=0");
    train("run", 1);
    const Table *m = read_metrics("run");
    for (size_t i = 0, n = 0; i < m->rows; i++) {
        if (!isfinite(m->at[i][METRICS_VAL_LOSS])) continue;
        assert_in_range(n, 0, COUNT_OF(steps) - 1);
        assert_close(m->at[i][METRICS_STEP], steps[n++], 0, "an evaluated step");
    }
    const Table *a = read_table(in("run/attention.csv"), log_header(LOG_ATTENTION));
    assert_int_equal(a->rows, COUNT_OF(steps) * 2);
    size_t files = 0;
    for (size_t i = 0; i < a->rows; i++) assert_close(a->at[i][0], steps[i / 2], 0, "step of row %zu", i);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        char name[64];
        snprintf(name, sizeof name, "run/attention/step%06d_layer0.png", steps[i]);
        assert_true(path_exists(in(name)));
    }
    DIR *attention = opendir(in("run/attention"));
    assert_non_null(attention);
    for (struct dirent *e; (e = readdir(attention)) != NULL;) files += e->d_name[0] != '.';
    closedir(attention);
    assert_int_equal(files, 2 * COUNT_OF(steps)); /* a snapshot and a heatmap each */
}

static void attention_table(void) {
    static const double steps[] = {0, 25, 50, 60};
    CONFIGURE("model.layers=3");
    train("run", 1);
    const Table *a = read_table(in("run/attention.csv"), log_header(LOG_ATTENTION));
    assert_int_equal(a->rows, COUNT_OF(steps) * 3 * 2);
    for (size_t i = 0; i < a->rows; i++) {
        const double *row = a->at[i];
        assert_close(row[0], steps[i / 6], 0, "step of row %zu", i);
        assert_close(row[1], i / 2 % 3, 0, "layer of row %zu", i);
        assert_close(row[2], i % 2, 0, "head of row %zu", i);
        assert_true(row[3] > 0 && row[4] > row[3] && row[5] > 0 && row[5] < 1 && row[6] > 1.0 / 16 && row[6] < 1);
        assert_true(row[7] >= 0 && row[7] < 1); /* saturated */
        for (size_t g = 8; g < 18; g += 5)      /* mean, rms, median, p10, p99 */
            assert_true(row[g] > 0 && row[g + 1] > row[g] && row[g + 2] > row[g + 3] && row[g + 4] > row[g + 2]);
    }
}

static void description(void) {
    static const char *const texts[] = {"version", "command", "products", "start", "end"};
    static const char *const numbers[] = {"threads", "parameters", "vocabulary", "steps"};
    CONFIGURE("attention.scale_divisor=none");
    train("run", 1);
    size_t size;
    const char *text = contents(in("run/run.json"), &size);
    const Json *run = js_parse(text, size, "run.json");
    for (size_t n = 0; n < COUNT_OF(texts); n++) assert_non_null(js_as_text(js_get(run, texts[n])));
    for (size_t n = 0; n < COUNT_OF(numbers); n++) {
        int64_t value = 0;
        assert_true(js_as_integer(js_get(run, numbers[n]), &value) && value > 0);
    }
    assert_string_equal(js_as_text(js_get(run, "program")), "sqrtdk");
    assert_string_equal(js_as_text(js_get(run, "result")), "finished");
    assert_non_null(strstr(text, "\"divisor\": 1"));
    assert_non_null(strstr(text, "\"multiplier\": 1"));
    results_check(in("run"), NULL, true); /* --force knows it again */
}

static size_t pages; /* that were written of a run */

/* Stands for the writer of the page. Each time there are loss curves, and logs that reach the step of an evaluation. At
   first it fails, as on a full disk. */
static void write_page_of(const Directory *directory) {
    (void)directory;
    assert_true(path_exists(in("run/loss.png")));
    const Table *m = read_metrics("run");
    assert_true(isfinite(m->at[m->rows - 1][METRICS_VAL_LOSS]));
    if (pages == 0) assert_close(m->at[m->rows - 1][METRICS_STEP], 0, 0, "the first evaluation");
    if (pages++ == 0) runtime_error("no space");
}

/* A run has its curves and its page from the first evaluation on. One that cannot be written does not stop the run. */
static void page_while_training(void) {
    CONFIGURE("train.steps=17", "eval.every=2");
    pages = 0;
    const size_t mark = memory_mark();
    const TrainOptions options = {.threads = 1,
                                  .out = in("run"),
                                  .command_line = "./train tiny.ini",
                                  .progress = progress_make(stderr, true),
                                  .page = write_page_of};
    assert_int_equal(run_loop(trainer_start(&config, &options))->state.step, 17);
    assert_in_range(pages, 2, 10);
    memory_release(mark);
}

/* A copy of a run that was made of hard links is resumed without a change of the original. */
static void hard_links(void) {
    CONFIGURE("train.steps=20");
    train("run", 1);
    assert_true(shell("cp -al run copy && (cd run && find . -type f -exec cksum {} + | sort) >before"));
    resume_with_key("copy", "train.steps=40");
    assert_true(shell("(cd run && find . -type f -exec cksum {} + | sort) | cmp - before"));
    assert_true(shell(
        "tail -n 1 copy/metrics.csv | grep -q ^40, && [ $(wc -c <copy/samples.txt) -gt $(wc -c <run/samples.txt) ]"));
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(metrics), TRAINING_TEST(intervals), TRAINING_TEST(attention_table),
                     TRAINING_TEST(description), TRAINING_TEST(doubling_intervals), TRAINING_TEST(page_while_training),
                     TRAINING_TEST(hard_links));
}
