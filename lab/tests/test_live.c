/* The trainer without files (lab/live) computes what ./train computes: losses, parameters, text. Its divisor can be
   moved between two steps. */
#include "training.h"

#include "lab/live/live.h"
#include "lab/report/report.h"
#include "lab/why/why.h"

/* The config of a tiny model with a line more, which may begin another section. */
static const char *tiny(const char *more) {
    char *text = memory_make(1024, 1, "a config");
    snprintf(text, 1024,
             "[data]\nval_fraction = 0.02\n[model]\nlayers = 2\nheads = 2\nd_model = 32\ncontext = 16\n"
             "[train]\nsteps = 12\nbatch = 4\nlr = 1e-2\nwarmup = 5\n[eval]\nevery = 6\n"
             "[log]\nsample_tokens = 20\nattention_every = 6\nevery = 1\n%s",
             more);
    return text;
}

/* Writes the run's files into a new directory. */
static void write_run(Live *live, const char *directory) {
    char name[256];
    size_t count;
    const LiveFile *files = live_files(live, &count);
    snprintf(name, sizeof name, "mkdir -p %s/checkpoint %s/attention", directory, directory);
    assert_true(shell(name));
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/%s", directory, files[i].name);
        put(name, files[i].bytes, files[i].size);
    }
}

/* Asserts that two directories have the same files, apart from pictures, pages, times, and names of the run. */
static void same_runs(const char *a, const char *b) {
    char script[1024];
    snprintf(
        script, sizeof script,
        "for run in %s %s; do (cd $run\n"
        "  find . -type f ! -name '*.png' ! -name report.html ! -name owner | sort >../$run.names\n"
        "  cat vocab.json attention.csv samples.txt attention/*s checkpoint/best* >../$run.same\n"
        "  cut -d, -f 1,2,4- metrics.csv >../$run.metrics\n"
        "  grep -v '^out = ' config.ini >../$run.config\n"
        "  grep '^  \"[a-z_]*\":' run.json | grep -vE '\"(command|start|end|seconds|machine|name|logs)\"' >../$run.json)\n"
        "done\n"
        "for what in names same metrics config json; do cmp %s.$what %s.$what || exit 1; done",
        a, b, a, b);
    assert_that(shell(script), "%s and %s differ", a, b);
    assert_true(same_parameters(a, b));
}

/* Asserts that ./train why says of a run's files what the model has said of itself. */
static void same_sentences(const char *sentences, const char *directory) {
    static Why why; /* large */
    why_run(in(directory), &why);
    why_write(&why, print_into());
    assert_string_equal(sentences, what_was_printed());
}

static void trains_as_the_program(void) {
    static const char *const MODES[] = {"", "[model]\ndropout = 0.1\n", "[attention]\nscore = additive\n",
                                        "[train]\noptimizer = muon\nprecision = bf16\n",
                                        "[data]\ntask = recall\nrecall_pairs = 3\n"};
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        const char *text = tiny(MODES[i]);
        size_t size;
        config_load(&config, NULL, put_text("tiny.ini", text), NULL, 0);
        train("run", 1);
        const Table *logged = read_metrics("run");
        Live *live = live_make(text, NULL);
        const TensorTable *table;
        for (size_t step = 0; step <= 12; step++) {
            assert_true(live_evaluates(live) == (step % 6 == 0) && live_measures(live) == (step % 6 == 0));
            if (step % 6 == 0)
                assert_close(logs_rounded(live_evaluate(live)), logged->at[step][METRICS_VAL_LOSS], 0, "%zu", i);
            if (step == 12) break;
            assert_int_equal(live_steps(live), step);
            assert_close(logs_rounded(live_step(live)), logged->at[step][METRICS_TRAIN_LOSS], 0, "mode %zu, step %zu",
                         i, step);
        }
        assert_true(live_last(live) == 12 && strstr(live_config(live), "steps = 12\n"));
        const char *saved = numbers_of("run", &size);
        const real *parameters = live_parameters(live, &table);
        for (size_t t = 0; t < table->count; t++) {
            const Tensor *tensor = &table->items[t];
            const size_t bytes = tensor->size[0] * (tensor->dimensions > 1 ? tensor->size[1] : 1) * sizeof(real);
            assert_memory_equal(saved, parameters + tensor->offset, bytes);
            saved += bytes;
        }
        const char *sentences = live_why(live, in("files"));
        sentences = memory_copy_text(sentences, strlen(sentences));
        write_run(live, "files");
        same_runs("run", "files");
        same_sentences(sentences, "files");
        assert_true(shell("rm -r run files"));
        live_free(live);
    }
}

/* A run that was downloaded before its end is resumed by the program, to the files of a run that never stopped. */
static void run_is_resumed(void) {
    config_load(&config, NULL, put_text("tiny.ini", tiny("")), NULL, 0);
    train("run", 1);
    Live *live = live_make(tiny(""), NULL);
    for (size_t step = 0; step < 6; step++) live_step(live);
    live_evaluate(live); /* which resume makes again */
    live_files(live, &(size_t){0});
    write_run(live, "files");
    resume_with_key("files", "train.steps=12");
    assert_true(shell("sed -i /resumed/d files/run.json"));
    same_runs("run", "files");
}

/* One divisor that was moved is a switch in the config. After another one, or a moved rate, comments say what was
   moved, and run.json too. */
static void steering_is_recorded(void) {
    static const char said[] = "; This run was steered while it trained. This config alone does not make it again:\n"
                               "; from step 5 on the scores were divided by 20\n";
    config_load(&config, NULL, put_text("tiny.ini", tiny("[attention]\nswitch_step = 5\nswitch_divisor = 20\n")), NULL,
                0);
    train("run", 1);
    Live *live = live_make(tiny(""), NULL);
    for (size_t step = 0; step < 12; step++) {
        if (step == 5) live_divide(live, 3);
        if (step == 5) live_evaluate(live);
        if (step == 5) live_divide(live, 20);
        live_step(live);
    }
    write_run(live, "files");
    assert_true(shell("grep -q '\"divisor\": 20' files/run.json && sed -i '/\"moved\"/d' files/run.json"));
    same_runs("run", "files");
    live_free(live);
    live = live_make(tiny(""), NULL);
    live_divide(live, 7); /* before the first step: another config */
    assert_non_null(strstr(live_config(live), "scale_divisor = 7\n"));
    for (size_t step = 0; step < 8; step++) {
        if (step == 5) live_divide(live, 20);
        if (step == 6) live_evaluate(live);
        if (step == 6) live_divide(live, 2);
        if (step == 6) assert_true(isfinite(live_evaluate(live)) && *live_written(live));
        if (step == 7) live_rate(live, 0.5);
        live_step(live);
    }
    const char *text = live_config(live);
    assert_memory_equal(text, said, strlen(said));
    assert_non_null(strstr(text, "; from step 6 on the scores were divided by 2\n"));
    assert_non_null(strstr(text, "; from step 7 on the learning rate was 0.5 times that of the schedule\n"));
    assert_non_null(strstr(text, "scale_divisor = 2\n"));
    assert_non_null(strstr(text, "switch_step = 0\n"));
    write_run(live, "steered");
    const double loss = live_evaluate(live);
    Run run;
    Model model = {0};
    run_open(&run, in("steered"), NULL, 0, false);
    run_load_corpus(&run);
    run_load_model(&run, &model, 0, 1);
    assert_close((double)model.shape.attention.divisor, 2, 0, "the divisor in force");
    Engine engine;
    engine_make(&engine, ENGINE_FAST, 1, &model);
    assert_close(evaluate(&engine, &run.corpus, 0).loss, loss, 0, "its loss");
    /* At the last step the snapshot of another divisor takes the place of the one before. */
    size_t before, after;
    while (live_steps(live) < live_last(live)) live_step(live);
    live_files(live, &before);
    live_divide(live, 9);
    live_files(live, &after);
    assert_int_equal(before, after);
}

/* Rates that a config may not have are refused, also those of a product of factors, and the run's files can be read. */
static void rates_are_those_of_a_config(void) {
    static const double REFUSED[] = {0, -1, 1e9, NAN, INFINITY};
    Live *live = live_make(tiny(""), NULL);
    live_step(live);
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) assert_refused("learning rate", live_rate(live, REFUSED[i]));
    live_rate(live, 1e-200);
    assert_refused("learning rate", live_rate(live, 1e-200));
    live_rate(live, 1e203);
    assert_refused("learning rate", live_rate(live, 1e203));
    live_step(live);
    write_run(live, "files");
    Run run;
    run_open(&run, in("files"), NULL, 0, false);
    assert_close(run.config.train.lr, 10, 1e-9, "the rate %s", "that was moved");
}

static void attention_of_a_text(void) {
    const char *text = "The ferry";
    Live *live = live_make(tiny("[model]\nd_k = 16\n"), NULL);
    for (size_t step = 0; step < 5; step++) live_step(live);
    const LiveAttention a = *live_attention(live, text, 0);
    assert_true(a.L == 2 && a.H == 2 && a.T == strlen(text));
    for (size_t head = 0; head < a.L * a.H; head++) {
        assert_close(a.multiplier[head], .25, 0, "head %zu", head);
        for (size_t i = 0; i < a.T; i++) {
            double sum = 0;
            for (size_t j = 0; j < a.T; j++) {
                const size_t at = (head * a.T + i) * a.T + j;
                assert_true(j <= i || a.weights[at] == 0);
                sum += (double)a.weights[at];
            }
            assert_close(sum, 1, 1e-6, "head %zu, query %zu", head, i);
        }
    }
    /* The logits of the last character under the model's own divisor give the character that sample takes. */
    const size_t T = a.T, V = a.V;
    size_t best = 0, count;
    char expected[8] = "";
    const uint32_t *characters = live_vocabulary(live, &count);
    assert_int_equal(V, count);
    for (size_t v = 0; v < V; v++)
        if (a.logits[(T - 1) * V + v] > a.logits[(T - 1) * V + best]) best = v;
    utf8_encode(characters[best], expected);
    assert_string_equal(live_sample(live, text, 1, 0, 1), expected);
    real *own = memory_make(T * V, sizeof *own, "logits");
    memcpy(own, live_attention(live, text, 4)->logits, T * V * sizeof *own);
    const LiveAttention other = *live_attention(live, text, 1);
    assert_true(memcmp(own, other.logits, T * V * sizeof *own) != 0);
    assert_close(other.multiplier[0], 1, 0, "the other divisor");
    assert_memory_equal(own, live_attention(live, text, 0)->logits, T * V * sizeof *own);
    /* Statistics are of every head, and the baselines those of the built-in text. */
    const HeadStatistics *statistics = live_statistics(live);
    for (size_t head = 0; head < 4; head++) assert_true(statistics[head].entropy > 0 && statistics[head].entropy < 1);
    assert_true(live_baselines(live)[0] > live_baselines(live)[3]);
    /* Windows are of the validation split: the target of a token is the next one. */
    const LiveWindows w = *live_windows(live, 3);
    assert_true(w.count == 3 && w.T == 16 && memcmp(w.tokens + 1, w.targets, 15 * sizeof *w.tokens) == 0);
    assert_int_equal(live_windows(live, 100)->count, 4);
    const char *written = memory_copy_text(live_sample(live, "", 40, 1, 7), 40);
    assert_string_equal(live_sample(live, "", 40, 1, 7), written);
}

static void errors_are_named(void) {
    assert_refused("the config:2: \"divisor = 3\"", live_make("[attention]\ndivisor = 3\n", NULL));
    assert_refused("the text is too short", live_make(tiny(""), "abc"));
    assert_refused("is not UTF-8", live_make(tiny(""), "abc\xff"));
    assert_refused("leave data.corpus out", live_make("[data]\ncorpus = some.txt\n", NULL));
    assert_refused("[sweep]", live_make("[sweep]\ntrain.seed = 1, 2\n", NULL));
    Live *live = live_make(tiny(""), NULL);
    assert_refused("1e-6", live_divide(live, 0));
    assert_refused("1e-6", live_divide(live, NAN));
    assert_refused("U+20AC", live_attention(live, "€", 0));
    assert_refused("empty", live_attention(live, "", 0));
    live = live_make(tiny("[attention]\nscale_learned = head\n"), NULL);
    assert_refused("learns its scale", live_divide(live, 2));
    assert_refused("learns its scale", live_attention(live, "The ferry", 2));
}

/* Adds a model's run, called by its directory, to those that another model compares. */
static void join(Live *to, Live *live, const char *directory) {
    static const char *const NAMES[] = {"config.ini", "metrics.csv", "attention.csv"};
    const char *texts[3];
    size_t count;
    const LiveFile *files = live_files(live, &count);
    for (size_t i = 0; i < 3 * count; i++)
        if (strcmp(files[i / 3].name, NAMES[i % 3]) == 0) texts[i % 3] = files[i / 3].bytes;
    live_join(to, in(directory), texts[0], texts[1], texts[2]);
}

/* Asserts that the model says of runs what a report says of the directories that they are called by. */
static void same_comparison(Live *live, const char *const *runs, size_t count) {
    char paths[8][128];
    const char *directories[8];
    for (size_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", in(runs[i]));
        directories[i] = paths[i];
    }
    const Json *page = report_run_data(directories, count);
    const char *said = live_compared(live);
    assert_non_null(strstr(said, "nats per"));
    assert_string_equal(said, js_as_text(js_get(page, "why")));
}

/* Runs of several models are compared as a report compares their directories, without one that has not finished. */
static void models_are_compared(void) {
    static const char *const RUNS[] = {"scaled", "undivided", "steered", "paused"};
    static const char *const MORE[] = {"", "[attention]\nscale_divisor = none\n", "[eval]\nbatches = 3\n",
                                       "[attention]\nscale_divisor = dk\n"};
    Live *first = live_make(tiny(""), NULL);
    for (size_t i = 0; i < COUNT_OF(RUNS); i++) {
        Live *live = live_make(tiny(MORE[i]), NULL);
        for (size_t step = 0; step < (i == 3 ? 7 : 12); step++) {
            if (i == 2 && step == 5) live_divide(live, 20);
            live_step(live);
        }
        write_run(live, RUNS[i]);
        join(first, live, RUNS[i]);
        if (i == 1) {
            same_comparison(first, RUNS, 2);
            join(first, live, RUNS[1]);
        }
        live_free(live);
    }
    assert_refused("lr takes", live_join(first, "a", "[train]\nlr = 0\n", "", ""));
    assert_refused("metrics.csv is damaged", live_join(first, "a", tiny(""), "", ""));
    same_comparison(first, RUNS + 1, 3);
    assert_string_equal(live_compared(first), "None of the 0 runs has finished with a validation loss.");
    live_free(first);
    first = live_make(tiny("[data]\ntask = recall\nrecall_pairs = 3\n"), NULL); /* without baselines */
    while (live_steps(first) < live_last(first)) live_step(first);
    write_run(first, "recall");
    join(first, first, "recall");
    join(first, first, "recall");
    same_comparison(first, (const char *const[]){"recall", "recall"}, 2);
}

/* Makes errors, each after calls that keep something: moves, texts, files, snapshots and a checkpoint. */
static void make_errors(Live *live) {
    static const double RATES[] = {-1, NAN, INFINITY};
    size_t count;
    assert_refused("U+20AC", (live_config(live), live_attention(live, "The €", 0)));
    assert_refused("1e-6", live_attention(live, "The ferry", -1));
    assert_refused("empty", live_attention(live, "", 4));
    assert_refused("the prompt", (live_sample(live, "The", 4, 1, 1), live_sample(live, "€", 4, 1, 1)));
    assert_refused("1e-6", (live_files(live, &count), live_divide(live, 0)));
    assert_refused("1e-6", (live_why(live, "run"), live_divide(live, INFINITY)));
    for (size_t i = 0; i < COUNT_OF(RATES); i++)
        assert_refused("learning rate", (live_evaluate(live), live_rate(live, RATES[i])));
}

/* Steers and trains a run of 12 steps, and writes its files. With errors, there are some before each step and, in a
   protected call, behind each. */
static void steer(const char *directory, bool errors) {
    Live *live = live_make(tiny(""), NULL);
    for (size_t step = 0; step < 12; step++) {
        if (errors) make_errors(live);
        if (!errors && live_evaluates(live)) live_evaluate(live);
        if (step == 4) live_divide(live, 20);
        if (step == 7) live_rate(live, .5);
        if (errors) assert_refused("1e-6", (live_step(live), live_divide(live, -1)));
        else live_step(live);
    }
    if (errors) make_errors(live);
    write_run(live, directory);
    live_free(live);
}

static void errors_change_nothing(void) {
    steer("run", false);
    steer("files", true);
    same_runs("run", "files");
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(trains_as_the_program), TRAINING_TEST(rates_are_those_of_a_config),
                     TRAINING_TEST(attention_of_a_text), TRAINING_TEST(errors_are_named),
                     TRAINING_TEST(errors_change_nothing), TRAINING_TEST(models_are_compared),
                     TRAINING_TEST(run_is_resumed), TRAINING_TEST(steering_is_recorded));
}
