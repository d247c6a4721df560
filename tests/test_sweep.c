/* Sweeps as a whole: the runs, the tables, the pictures. */
#include "sweeping.h"

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb_image.h>

#include "show/heatmap.h"

/* A run of a sweep is the run that its config gives by itself, to the bit, and the summary has its numbers. */
static void runs_are_runs_by_themselves(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("sweep", 3);
    assert_result("sweep", "finished");
    char *rest = timeless("sweep"), *line = strsep(&rest, "\n");
    assert_string_equal(
        line, "run,scale_divisor,seed,result,steps,train_loss,train_loss_mean,val_loss,best_val_loss,best_step,"
              "val_accuracy,entropy_first,entropy_last,score_std_first,score_std_last,saturated_first,saturated_last,"
              "grad_q_first,grad_q_last,grad_scores_first,grad_scores_last,qk_norm_first,qk_norm_last,"
              "grad_norm_median,grad_norm_max,threads,error");
    for (int i = 0; i < 4; i++) {
        static const char *const divisors[] = {"none", "sqrt_dk"};
        char name[64], divisor[64], seed[64], begin[160];
        double train_loss, val_loss;
        size_t n, m;
        snprintf(name, sizeof name, "sweep/scale_divisor=%s+seed=%d", divisors[i / 2], i % 2 + 1);
        snprintf(divisor, sizeof divisor, "attention.scale_divisor=%s", divisors[i / 2]);
        snprintf(seed, sizeof seed, "train.seed=%d", i % 2 + 1);
        CONFIGURE(TINY, divisor, seed);
        train("alone", 2);
        const char *first = contents(inside(name, "checkpoint/model.safetensors"), &n);
        const char *second = contents(in("alone/checkpoint/model.safetensors"), &m);
        assert_that(n == m && memcmp(first, second, n) == 0, "the parameters of %s", name);
        assert_true(directory_remove(in("alone"), &err));
        const Table *metrics = read_metrics(name);
        snprintf(begin, sizeof begin, "%s,%s,%d,finished,12,", strchr(name, '/') + 1, divisors[i / 2], i % 2 + 1);
        line = strsep(&rest, "\n");
        assert_memory_equal(line, begin, strlen(begin));
        assert_int_equal(sscanf(line + strlen(begin), "%lf,%*f,%lf", &train_loss, &val_loss), 2);
        assert_true(train_loss == last_of(metrics, TRAIN_LOSS) && val_loss == last_of(metrics, VAL_LOSS));
        assert_string_equal(strrchr(line, ',') - 2, ",1,"); /* 3 threads for 4 runs: one each, and no error */
    }
    assert_non_null(strstr(contents(in("table.txt"), NULL), "÷ √d_k = 4"));
}

static void divergence_is_no_failure(void **state) {
    (void)state;
    CONFIGURE(TINY, "train.optimizer=sgd", "train.grad_clip=0", "train.min_lr=0", "sweep.train.lr=1e-2, 1e6");
    sweep("sweep", 2);
    const char *csv = timeless("sweep");
    assert_non_null(strstr(csv, "\nlr=0.01,0.01,finished,12,"));
    assert_non_null(strstr(csv, "\nlr=1000000,1000000,diverged,"));
    assert_non_null(strstr(csv, "\"diverged at step ")); /* its message, with a comma in it */
}

/* The panels are those that the run drew of itself, from the same snapshots: the same colours. */
static void panels_are_the_runs_own(void **state) {
    (void)state;
    enum { T = 16, HEADS = 2, RUNS = 2 };
    static const char *const runs[RUNS] = {"scale_divisor=none", "scale_divisor=sqrt_dk"};
    static const char *const names[2] = {"step000000_layer0", "step000012_layer0"};
    const float weights[T * T] = {0},
                            *panels[8] = {weights, weights, weights, weights, weights, weights, weights, weights};
    const char *labels[8] = {"", "", "", "", "", "", "", ""};
    const uint32_t text[T] = {0};
    CONFIGURE(TINY, "sweep.attention.scale_divisor=none, sqrt_dk");
    sweep("sweep", 2);
    int width, height, channels;
    unsigned char *all = stbi_load(in("sweep/attention_compare.png"), &width, &height, &channels, 3);
    assert_non_null(all);
    const Heading headings[RUNS] = {{.text = ""}, {.text = ""}};
    AttentionFigure compare = {"", "", text, T, 2 * HEADS, RUNS, panels, labels, 2 * HEADS, headings, labels, NULL};
    AttentionFigure own = {"", "", text, T, 1, HEADS, panels, NULL, 0, NULL, labels, NULL};
    for (size_t n = 0; n < 2 * RUNS; n++) {
        char name[128];
        int own_width, own_height;
        snprintf(name, sizeof name, "sweep/%s/attention/%s.png", runs[n % 2], names[n / 2]);
        unsigned char *one = stbi_load(in(name), &own_width, &own_height, &channels, 3);
        assert_non_null(one);
        for (size_t i = 0; i < HEADS * T * T; i++) {
            int x, y, u, v;
            attention_figure_cell(&compare, n / 2 * HEADS + i / (T * T), n % 2, i / T % T, i % T, &x, &y);
            attention_figure_cell(&own, 0, i / (T * T), i / T % T, i % T, &u, &v);
            assert_true(x < width && y < height && u < own_width && v < own_height);
            assert_memory_equal(all + 3 * (y * width + x), one + 3 * (v * own_width + u), 3);
        }
        stbi_image_free(one);
    }
    stbi_image_free(all);
}

/* What stands on a terminal: one line that fits about all runs, and a line for each that has ended. */
static void one_progress_line(void **state) {
    (void)state;
    char *text;
    size_t size, widest = 0;
    Progress progress = {.stream = open_memstream(&text, &size), .terminal = true, .last = -INFINITY};
    char wait[2048]; /* until the sweep has noted that the other three are done, and for a few views more */
    snprintf(wait, sizeof wait,
             "until [ \"$(grep -c '\"result\": \"finished\"' %s)\" = 3 ]; do sleep 0.05; done; sleep 1.5",
             in("sweep/run.json"));
    assert_non_null(progress.stream);
    CONFIGURE(FOUR);
    const TrainOptions options = {.threads = 4,
                                  .out = in("sweep"),
                                  .command_line = "./train sweep tiny.ini",
                                  .program = program_that("none+seed=2", wait),
                                  .progress = &progress};
    int signal_number;
    FILE *table = fopen("/dev/null", "w");
    setenv("TERM", "xterm", 1);
    assert_true(sweep_run(&config, &options, table, &signal_number, &err));
    fclose(table);
    fclose(progress.stream);
    kept(text);
    assert_non_null(strstr(text, ": 4 runs, 4 at a time with 1 thread each\n"));
    assert_non_null(strstr(text, "3 of 4 runs ended, 1 running   step 36/48"));
    assert_non_null(strstr(text, "[4/4] scale_divisor=none+seed=2: val "));
    for (char *rest = text, *line; (line = strsep(&rest, "\n\r\033")) != NULL;)
        if (strlen(line) > widest && !strstr(line, "sweeping")) widest = strlen(line);
    assert_in_range(widest, 20, 80); /* the path of the test's own directory may be longer */
}

/* More than fits, sizes that differ, texts that differ: still pictures. */
static void odd_sweeps_are_drawn(void **state) {
    (void)state;
    static const char *const sweeps[] = {
        "sweep.attention.scale_divisor=none, dk, sqrt_dk, 2sqrt_dk, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 17, 18",
        "sweep.model.heads=1, 2, 8", "sweep.model.context=8, 16", "sweep.data.val_fraction=0.2, 0.3",
        "sweep.train.steps=2, 4"};
    for (size_t i = 0; i < COUNT_OF(sweeps); i++) {
        char name[16];
        snprintf(name, sizeof name, "sweep%zu", i);
        CONFIGURE(TINY, "train.steps=2", "train.warmup=1", sweeps[i]);
        sweep(name, 2);
        assert_true(path_exists(inside(name, "attention_compare.png")) && path_exists(inside(name, "score_std.png")));
    }
    assert_non_null(strstr(contents(in("sweep1/config.ini"), NULL), "; d_k differs between runs\n"));
}

/* Mean of the final validation losses of the two seeds of a setting, as the table of losses has it. */
static const char *cell(const char *setting) {
    static char text[4][32];
    static unsigned next;
    double loss[2];
    for (int seed = 1; seed <= 2; seed++) {
        char name[64];
        snprintf(name, sizeof name, "sweep/%s+seed=%d", setting, seed);
        loss[seed - 1] = last_of(read_metrics(name), VAL_LOSS);
    }
    char *out = text[next++ % 4];
    snprintf(out, sizeof text[0], "%.4f ±", (loss[0] + loss[1]) / 2);
    return out;
}

/* Losses by divisor and by the rest, the longer side down the page; each in its place. */
static void losses_by_divisor(void **state) {
    (void)state;
    char expected[512];
    CONFIGURE(TINY, "sweep.attention.scale_divisor=none, sqrt_dk", "sweep.model.d_k=4, 8", "sweep.train.seed=1, 2");
    sweep("sweep", 2);
    const char *text = contents(in("sweep/summary.md"), NULL), *table = strstr(text, "\n| validation loss |");
    assert_non_null(table);
    int head =
        snprintf(expected, sizeof expected, "\n| validation loss | ÷ 1 (none) | ÷ √d_k |\n|---|---|---|\n| d_k 4 | %s",
                 cell("scale_divisor=none+d_k=4"));
    assert_memory_equal(table, expected, (size_t)head);
    assert_non_null(strstr(table, cell("scale_divisor=sqrt_dk+d_k=4")));
    table = strstr(table, "| d_k 8 |");
    snprintf(expected, sizeof expected, "| d_k 8 | %s", cell("scale_divisor=none+d_k=8"));
    assert_memory_equal(table, expected, strlen(expected));
    const char *differences = strstr(table, "\n\n| against ÷ √d_k | ÷ 1 (none) | ÷ √d_k |\n|---|---|---|\n| d_k 4 | ");
    assert_non_null(differences);
    assert_true(strstr(table, cell("scale_divisor=sqrt_dk+d_k=8")) < differences);
    assert_non_null(strstr(differences, " | - |\n| d_k 8 | "));
    assert_false(path_exists(in("sweep/final.png"))); /* two values of d_k are no curve */

    CONFIGURE(TINY, "train.steps=1", "train.warmup=1", "sweep.attention.scale_divisor=none, sqrt_dk, 3",
              "sweep.train.lr=1e-3, 1e-2");
    sweep("down", 2);
    text = contents(in("down/summary.md"), NULL);
    assert_non_null(strstr(text, "| validation loss | lr 0.001 | lr 0.01 |\n|---|---|---|\n| ÷ 1 (none) | "));
    assert_non_null(strstr(text, "\n| ÷ √d_k = 4 | "));
}

/* Where a swept number has values enough: three, or five of the divisor. */
static void final_losses_are_drawn(void **state) {
    (void)state;
    static const struct {
        const char *sweep;
        bool drawn;
    } cases[] = {{"sweep.train.lr=1e-3, 1e-2, 2e-2", true},
                 {"sweep.model.d_k=4, 8, 16", true},
                 {"sweep.model.dropout=0, 0.1, 0.2", true}, /* no logarithm of zero */
                 {"sweep.attention.scale_divisor=none, sqrt_dk, 2sqrt_dk, dk", false},
                 {"sweep.attention.scale_divisor=none, 4, sqrt_dk, 2sqrt_dk, 8, 3.5", true},
                 {"sweep.model.init=unit, torch, gpt2", false},
                 {"sweep.train.seed=1, 2, 3", false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char name[16];
        snprintf(name, sizeof name, "sweep%zu", i);
        CONFIGURE(TINY, "train.steps=1", "train.warmup=1", cases[i].sweep);
        sweep(name, 2);
        assert_that(path_exists(inside(name, "final.png")) == cases[i].drawn, "%s", cases[i].sweep);
        assert_true((strstr(contents(inside(name, "summary.md"), NULL), "(final.png)") != NULL) == cases[i].drawn);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(runs_are_runs_by_themselves), SWEEP_TEST(one_progress_line),    SWEEP_TEST(divergence_is_no_failure),
        SWEEP_TEST(panels_are_the_runs_own),     SWEEP_TEST(odd_sweeps_are_drawn), SWEEP_TEST(losses_by_divisor),
        SWEEP_TEST(final_losses_are_drawn),
    };
    matmul_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
