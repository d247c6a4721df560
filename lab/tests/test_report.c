/* report.html, as far as the program writes it: whole or not at all, with nothing in it that ends the script element,
   and no larger than it may be. lab/tests/report_page.py opens it in a browser. Then the pictures of a sweep. */
#include "images.h"
#include "sweeping.h"

#include <sys/resource.h>

#include "lab/report/report.h"
#include "run/pictures.h"

static Json *data; /* of the page that was read last */

/* The page, written again, and, as `data`, what is in its script element. */
static const char *report(void) {
    static const char start[] = "<script type=\"application/json\" id=\"data\">";
    report_write(directory_open(in("run")));
    assert_false(path_exists(in("run/report.html" FILE_NEW)));
    char *page = contents(in("run/report.html"), NULL), *json = strstr(page, start);
    assert_non_null(json);
    json += strlen(start);
    data = js_parse(json, (size_t)(strstr(json, "</script") - json), "the data");
    return page;
}

static const char *text_of(const Json *object, const char *key) { return js_as_text(js_get(object, key)); }
static const Json *only_run(void) { return js_at(js_get(data, "runs"), 0); }

/* No text of a corpus, a config or a sample ends the script element, or is one of the template's marks. */
static void hostile_text(void) {
    static const char hostile[] = "</script><!--\x7f\u2028\u202e{{page.js}}";
    size_t ends = 0;
    char corpus[6000] = "";
    for (int i = 0; i < 120; i++) strcat(strcat(corpus, hostile), "\n");
    put_text("corpus.txt", corpus);
    CONFIGURE("train.steps=2", "model.context=40", "log.attention_text=</script><!--\x7f\u2028\u202e{{page.js}}");
    train("run", 1);
    const char *page = report();
    assert_string_equal(text_of(js_get(only_run(), "snapshots"), "text"), hostile);
    for (const char *end = page; (end = strstr(end, "</script")) != NULL; end++) ends++;
    assert_int_equal(ends, 2); /* one ends the data, one the program */
    for (const char *c = page; *c; c++) assert_true((unsigned char)*c != 0x7f);
    assert_null(strstr(page, "\u202e"));
}

/* A long log keeps the first row, the last, and those with a validation loss. */
static void thinned_logs(void) {
    enum { ROWS = 70000, VALIDATED = 9999 };
    CONFIGURE("train.steps=2");
    train("run", 1);
    char *log = memory_make(ROWS, 64, "a log"), *end = log;
    end += sprintf(end, "@");
    for (int i = 0; i < ROWS; i++) end += sprintf(end, "%d,%d,1,1,2,%s,1,\n", i, 64 * i, i % VALIDATED ? "" : "2.5");
    put_log("run/metrics.csv", LOG_METRICS, log);
    set_text("run/run.json", "\"finished\"", "\"failed\""); /* one that has finished has the rows it ended with */
    report();
    const char *thinned = text_of(only_run(), "metrics");
    int rows = 0, validated = 0;
    for (const char *c = thinned; (c = strchr(c, '\n')) != NULL; c++) rows++;
    for (const char *c = thinned; (c = strstr(c, ",2.5,")) != NULL; c++) validated++;
    assert_in_range(rows, 10000, 31000);
    assert_int_equal(validated, 1 + (ROWS - 1) / VALIDATED);
    assert_non_null(strstr(thinned, "\n0,0,"));
    assert_non_null(strstr(thinned, "\n69999,"));
    end = log + sprintf(log, "@");
    for (int i = 0; i < ROWS; i++) end += sprintf(end, "%d,%d,1,1,2,2.5,1,\n", i, 64 * i); /* all of them validated */
    put_log("run/metrics.csv", LOG_METRICS, log);
    end = log;
    for (int i = 0; i < ROWS; i++)
        end += sprintf(end, "==== step %d, validation loss 2.5 ====\na text of 20 letters\n\n", i);
    put("run/samples.txt", log, (size_t)(end - log));
    report();
    rows = 0;
    for (const char *c = text_of(only_run(), "metrics"); (c = strchr(c, '\n')) != NULL; c++) rows++;
    assert_in_range(rows, 10000, 61000);
    const Json *samples = js_get(only_run(), "samples");
    const size_t kept = js_array_size(samples);
    int64_t step;
    assert_in_range(kept * strlen("==== step 69999, validation loss 2.5 ====\na text of 20 letters\n\n"), 1000000,
                    1 << 20);
    assert_true(js_as_integer(js_get(js_at(samples, kept - 1), "step"), &step) && step == ROWS - 1);
    assert_string_equal(text_of(js_at(samples, 0), "text"), "a text of 20 letters");
}

/* A sample has log.sample_tokens characters, whatever they are: a text that looks like the line before a sample is
   none. One that a signal cut short is the last. What is no sample ends the list. */
static void samples_by_length(void) {
    static const char *const texts[] = {"\n==== step 7, valid\n", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
                                        "ÄÖÜ😀ÄÖÜ😀ÄÖÜ😀ÄÖÜ😀ÄÖÜ😀", "cut"};
    char file[1000] = "";
    CONFIGURE("train.steps=2");
    train("run", 1);
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        sprintf(file + strlen(file), "==== step %zu, validation loss 2.5 ====\n%s%s", i, texts[i], i < 3 ? "\n\n" : "");
    put_text("run/samples.txt", file);
    report();
    const Json *samples = js_get(only_run(), "samples");
    assert_int_equal(js_array_size(samples), COUNT_OF(texts));
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        int64_t step;
        assert_true(js_as_integer(js_get(js_at(samples, i), "step"), &step) && (size_t)step == i);
        assert_string_equal(text_of(js_at(samples, i), "text"), texts[i]);
    }
    for (const char *const *bad =
             (const char *const[]){"", "==== step x, validation loss 2 ====\n", "==== step 1, validation loss 2",
                                   "==== step 1, validation loss 2 ==== \ntext\n", NULL};
         *bad; bad++) {
        put_text("run/samples.txt", *bad);
        report();
        assert_int_equal(js_array_size(js_get(only_run(), "samples")), 0);
    }
}

/* Where there are too many scores, the first and the last step stay, and as many layers as fit, at even distances. */
static void chosen_steps_and_layers(void) {
    enum { L = 16, H = 48, STEPS = 3 };
    uint32_t text[SNAPSHOT_TEXT_MAX];
    CONFIGURE("train.steps=2", "model.context=48", "log.attention_every=1", "log.page_model=no");
    train("run", 1);
    set_text("run/config.ini", "layers = 1\n", "layers = 16\n");
    set_text("run/config.ini", "heads = 2\n", "heads = 48\n");
    for (size_t i = 0; i < SNAPSHOT_TEXT_MAX; i++) text[i] = 'a';
    Snapshot snapshot = snapshot_make(L, H, text, SNAPSHOT_TEXT_MAX);
    for (snapshot.step = 0; snapshot.step < STEPS; snapshot.step++) snapshot_save(&snapshot, directory_open(in("run")));
    report();
    const Json *shown = js_get(only_run(), "snapshots"), *steps = js_get(shown, "steps"),
               *layers = js_get(shown, "layers");
    double at[4];
    const size_t last = js_array_size(layers) - 1;
    assert_int_equal(js_array_size(steps), 2);
    assert_in_range(last, 8, L - 2);
    assert_true(js_as_number(js_at(steps, 0), &at[0]) && js_as_number(js_at(steps, 1), &at[1]));
    assert_true(js_as_number(js_at(layers, 0), &at[2]) && js_as_number(js_at(layers, last), &at[3]));
    assert_true(at[0] == 0 && at[1] == STEPS - 1 && at[2] == 0 && at[3] == L - 1);
    assert_non_null(strstr(js_as_text(js_at(js_get(data, "notes"), 0)), "2 of 3 steps and"));
}

/* A snapshot of a longer text than the run's others. */
static void save_longer_text(size_t step) {
    static const uint32_t text[] = {'a', 'a', 'a', 'a', 'a'};
    Snapshot snapshot = snapshot_make(config.model.layers, config.model.heads, text, COUNT_OF(text));
    snapshot.step = step;
    snapshot_save(&snapshot, directory_open(in("run")));
}

/* Asserts that the page has a note with these words. */
static void assert_noted(const char *words) {
    char *notes = js_dump(js_get(data, "notes"), JS_LINE);
    assert_that(strstr(notes, words) != NULL, "no %s in %s", words, notes);
}

/* A file that is damaged is named on the page, which has the rest. If the page cannot be written, the old one stays. */
static void damaged_files(void) {
    struct rlimit before;
    CONFIGURE("train.steps=2", "log.attention_text=the");
    train("run", 1);
    set_text("run/metrics.csv", "\n2,", "\nx,");
    report();
    assert_noted("The logs of ");
    assert_noted("metrics.csv");
    set_text("run/metrics.csv", "\nx,", "\n2,");
    set_text("run/attention/step000002.safetensors", "\"step\":\"2\"", "\"step\":\"3\"");
    report();
    assert_noted("step000002.safetensors");
    assert_null(js_get(only_run(), "snapshots"));
    assert_non_null(js_get(only_run(), "samples"));
    set_text("run/attention/step000002.safetensors", "\"step\":\"3\"", "\"step\":\"2\"");
    save_longer_text(2);
    report();
    assert_noted("two texts");
    assert_true(shell("mv run/samples.txt . && mkdir run/samples.txt && mv run/vocab.json . && mkfifo run/vocab.json"));
    report();
    assert_noted("Left out: the samples of ");
    assert_non_null(strstr(text_of(js_get(only_run(), "model"), "left_out"), "vocab.json"));
    assert_true(shell("rmdir run/samples.txt && mv samples.txt run && rm run/vocab.json && mv vocab.json run"));
    put_text("run/report.html", "old");
    train("again", 1);
    assert_true(rename(in("again/attention/step000002.safetensors"), in("run/attention/step000002.safetensors")) == 0);
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, before.rlim_max});
    const bool done = works(report_write(directory_open(in("run"))));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_that(!done && err.status == STATUS_FAILED && strstr(err.message, "report.html"), "full: %s", err.message);
    assert_string_equal(contents(in("run/report.html"), NULL), "old");
    assert_false(path_exists(in("run/report.html" FILE_NEW)));
    report();
}

/* The losses of n-gram tables that the page has: `count` of them, as run.json of run/ has them. */
static void assert_ngrams(const char *const *directories, size_t count, size_t expected) {
    double losses[NGRAM_ORDERS], on_page;
    data = report_run_data(directories, count);
    const Json *list = js_get(data, "ngram_losses");
    assert_int_equal(js_array_size(list), expected);
    run_ngram_losses(in("run"), losses);
    assert_true(!isnan(losses[0]));
    for (size_t n = 0; n < expected; n++) {
        assert_true(js_as_number(js_at(list, n), &on_page));
        assert_true(on_page == losses[n]);
    }
}

static const char *copied(const char *path) { return memory_copy_text(path, strlen(path)); }

/* A chart has the losses of n-gram tables where all of its runs have the same ones: not for runs on two texts, for a
   run of a version that had none, or for recall. */
static void losses_of_ngram_tables(void) {
    const char *directories[] = {copied(in("run")), copied(in("again")), copied(in("other"))};
    CONFIGURE("train.steps=1");
    train("run", 1);
    train("again", 1);
    assert_ngrams(directories, 1, NGRAM_ORDERS);
    assert_ngrams(directories, 2, NGRAM_ORDERS);
    assert_non_null(strstr(text_of(data, "why"), "All 2 runs end with the same validation loss, "));
    CONFIGURE("train.steps=1", "data.val_fraction=0.3");
    train("other", 1);
    assert_ngrams(directories, 3, 0);
    set_text("again/run.json", "ngram_losses", "other_losses");
    assert_ngrams(directories, 2, 0);
    CONFIGURE("train.steps=1", "data.task=recall", "data.corpus=", "data.recall_pairs=2");
    train("recall", 1);
    directories[0] = copied(in("recall"));
    assert_ngrams(directories, 1, 0);
}

static const Json *only_model(void) { return js_get(only_run(), "model"); }

/* The page's parameters are those of the last checkpoint. A model that is too large for it, has a weight beyond fp16,
   or is not wanted is omitted; so is a text that is missing. A checkpoint that cannot be read is an error. */
static void model_in_page(void) {
    CONFIGURE("train.steps=3");
    train("run", 1);
    report();
    int64_t parameters, step;
    const Json *description = js_get(only_run(), "description");
    assert_true(js_as_integer(js_get(description, "parameters"), &parameters));
    assert_int_equal(strlen(text_of(only_model(), "parameters")), (2 * parameters + 2) / 3 * 4);
    assert_true(js_as_integer(js_get(only_model(), "step"), &step) && step == 3);
    assert_int_equal(js_array_size(js_get(only_model(), "excerpt")), 8);
    set_text("run/config.ini", "corpus.txt", "nowhere.txt");
    report();
    assert_null(js_get(only_model(), "excerpt"));
    assert_non_null(strstr(text_of(only_model(), "no_excerpt"), "nowhere.txt"));
    set_text("run/checkpoint/last.safetensors", "\"step\\\":3", "\"step\\\":2");
    report();
    assert_non_null(strstr(text_of(only_model(), "left_out"), "last.safetensors"));
    set_text("run/config.ini", "page_model = auto", "page_model = no");
    report();
    assert_string_equal(text_of(only_model(), "left_out"), "log.page_model = no");
    assert_null(js_get(only_model(), "parameters"));

    CONFIGURE("train.steps=1", "train.optimizer=sgd", "train.lr=1e6", "train.warmup=0", "train.grad_clip=0");
    train("large", 1);
    const char *directory = in("large");
    data = report_run_data(&directory, 1);
    assert_non_null(strstr(text_of(only_model(), "left_out"), "65504"));
}

/* Numbers read back as the same, and what looks like one in a text stays as it is. */
static void numbers_of_json(void) {
    static const double numbers[] = {0.1, 1e-7, 8, 1e16, 1.0 / 3, -2.5e-300, 1.7976931348623157e308};
    static const char quoted[] = "0.10000000000000001 \"8.0000000000000004";
    double number;
    Json *array = js_array();
    for (size_t i = 0; i < COUNT_OF(numbers); i++) js_append(array, js_number(numbers[i]));
    js_append(array, js_text(quoted));
    js_append(array, js_number(NAN));
    const char *text = js_dump(array, JS_LINE);
    const Json *read = js_parse(text, strlen(text), "numbers");
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        assert_true(js_as_number(js_at(read, i), &number) && number == numbers[i]);
    assert_string_equal(js_as_text(js_at(read, COUNT_OF(numbers))), quoted);
    assert_string_equal(text + strlen(text) - strlen(",null]"), ",null]");
}

/* Pictures name the model that their runs share. */
static void models_are_named(void) {
    char text[256];
    CONFIGURE("model.heads=2", "train.lr=3e-3", "train.seed=7");
    Config other = config;
    const Config *const both[] = {&config, &other};
    picture_model(both, 2, text, sizeof text);
    assert_non_null(strstr(text, "heads 2, "));
    assert_non_null(strstr(text, "lr 0.003, seed 7"));
    other.train.seed = 8;
    picture_model(both, 2, text, sizeof text);
    assert_null(strstr(text, "seed"));
    picture_model(both + 1, 1, text, sizeof text);
    assert_non_null(strstr(text, ", seed 8"));
}

static Image picture_of_sweep(const char *name) {
    snprintf(picture, sizeof picture, "%s/sweep/%s", temporary, name);
    return image_read();
}

/* Sets the weights of a snapshot, which are not masked: to `previous` on the character before each query in the last
   head, and to `rest` everywhere else. */
static void set_weights(const char *run, size_t step, float previous, float rest) {
    const Directory *into = directory_open(in(run));
    Snapshot s = snapshot_load(into->path, &config, step);
    const size_t T = s.T, last = s.L * s.H - 1;
    for (size_t i = 0; i < s.L * s.H * T * T; i++) s.attention.weights[i] = rest;
    for (size_t query = 1; query < T; query++) s.attention.weights[(last * T + query) * T + query - 1] = previous;
    snapshot_save(&s, into);
}

/* The losses of all runs have their setting's colour; the strip has a column for each setting, and the weights of the
   head that looks at the previous character. */
static void pictures_of_a_sweep(void) {
    const Color none = palette_divisor("none", 0), root = palette_divisor("sqrt_dk", 0);
    CONFIGURE(FOUR, "log.attention_text=the the the");
    sweep_with(NULL, "sweep", 2, false);
    report_write(directory_open(in("sweep")));
    Image image = picture_of_sweep("losses.png");
    assert_true(image.width == 2000 && image.height == 1240);
    assert_white_border(&image, 16);
    assert_true(count_color(&image, none) > 500 && count_color(&image, root) > 500);
    stbi_image_free(image.rgb);

    set_weights("sweep/scale_divisor=sqrt_dk+seed=1", 12, 1, .25F);
    set_weights("sweep/scale_divisor=none+seed=1", 12, .5F, .01F);
    report_write(directory_open(in("sweep")));
    image = picture_of_sweep("triangles.png");
    const size_t T = 11, cell = 2 * 190 / T, area = cell * cell;
    assert_white_border(&image, 20);
    assert_true(count_color(&image, none) > 100 && count_color(&image, root) > 100);
    assert_in_range(count_color(&image, heatmap_color(1)), (T - 1) * area, (T + 3) * area);
    assert_in_range(count_color(&image, heatmap_color(.5)), (T - 1) * area, (T + 3) * area);
    assert_true(count_color(&image, heatmap_color(.25)) >= (T * (T + 1) / 2 - T + 1) * area);
    assert_true(count_color(&image, heatmap_masked) > 4 * T * (T - 1) / 2 * area);
    stbi_image_free(image.rgb);
}

/* Trains a sweep and writes its pictures. Returns whether there is a strip. */
static bool strip_of(const char *out) {
    char path[64];
    sweep_with(NULL, out, 2, false);
    report_write(directory_open(in(out)));
    snprintf(path, sizeof path, "%s/losses.png", out);
    assert_true(path_exists(in(path)));
    snprintf(path, sizeof path, "%s/triangles.png", out);
    return path_exists(in(path));
}

/* Models of several sizes and texts share a picture as far as they can; runs that are damaged are not in it. */
static void pictures_of_odd_sweeps(void) {
    CONFIGURE(TINY, "sweep.model.layers=2, 1", "sweep.model.context=4, 8");
    assert_true(strip_of("sizes"));
    CONFIGURE("train.steps=2", "data.task=recall", "data.corpus=", "data.recall_pairs=2", "sweep.train.seed=1, 2");
    assert_true(strip_of("recall"));
    set_text("recall/seed=1/metrics.csv", "\n2,", "\nx,");
    report_write(directory_open(in("recall")));
    set_text("recall/seed=2/metrics.csv", "\n2,", "\nx,");
    assert_int_equal(remove(in("recall/triangles.png")), 0);
    report_write(directory_open(in("recall")));
    assert_false(path_exists(in("recall/triangles.png")));
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(hostile_text), TRAINING_TEST(thinned_logs), TRAINING_TEST(samples_by_length),
                     TRAINING_TEST(chosen_steps_and_layers), TRAINING_TEST(damaged_files),
                     TRAINING_TEST(losses_of_ngram_tables), TRAINING_TEST(model_in_page),
                     TRAINING_TEST(numbers_of_json), TRAINING_TEST(models_are_named), SWEEP_TEST(pictures_of_a_sweep),
                     SWEEP_TEST(pictures_of_odd_sweeps));
}
