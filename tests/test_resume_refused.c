/* What is not what the checkpoint was made with is refused, with the difference named, and nothing is written: by
   resume and, as far as the model goes, by what evaluates or samples. */
#include "training.h"

#include <unistd.h>

#define RAISED "train.steps=8" /* to which the finished run is to be continued */

static void make_run(void) {
    CONFIGURE("train.steps=6", "eval.every=4", "log.every=2", "log.attention_every=5", "train.warmup=2");
    train("run", 1);
    assert_non_null(strstr(contents(in("run/checkpoint/a/state.json"), NULL), "\"step\": 6"));
}

static bool try_resume(const char *set, Error *err) {
    Progress progress = progress_make(stderr, true);
    const TrainOptions options = {.command_line = "resume", .progress = &progress};
    return train_resume(in("run"), &set, 1, &options, &outcome, err);
}

/* Names and checksums of a run's files. */
static char *checksums(void) {
    char command[1200], *sums = kept(calloc(1, 8192));
    snprintf(command, sizeof command, "cd %s && find . -type f -exec cksum {} + | sort", in("run"));
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    assert_true(fread(sums, 1, 8191, stream) > 0);
    pclose(stream);
    return sums;
}

static void refuse(const char *word, const char *set) {
    Error err = {0};
    const char *before = checksums();
    assert_refused(try_resume(set, &err), &err, word, word);
    assert_string_equal(before, checksums());
}

static void refusals(void **state) {
    (void)state;
    const struct {
        const char *file, *from, *to, *word;
    } changes[] = {
        {"run/config.ini", "heads = 2", "heads = 4", "model.heads = 2"},
        {"run/config.ini", "lr = 0.01", "lr = 0.02", "train.lr = 0.01"},
        {"run/config.ini", "seed = 1", "seed = 2", "train.seed"},
        {"run/config.ini", "context = 16", "context = 8", "context"},
        {"run/config.ini", "optimizer = adamw", "optimizer = sgd", "train.optimizer = adamw"},
        {"run/config.ini", "[model]", "[modell]", "model"},
        {"run/config.ini", "every = 4", "every = 2", "eval.every = 4, and"},
        {"run/config.ini", "\nevery = 2", "\nevery = 4", "log.every = 2, and"},
        {"run/config.ini", "attention_every = 5", "attention_every = 4", "log.attention_every = 5, and"},
        {"run/config.ini", "attention_text = \"\"", "attention_text = keys", "log.attention_text = \"\", and"},
        {"run/config.ini", "sample_tokens = 20", "sample_tokens = 19", "log.sample_tokens = 20, and"},
        {"run/config.ini", "batches = 0", "batches = 1", "eval.batches = 0, and"},
        {"run/vocab.json", "\"k\"", "\"j\"", "U+006B"},
        {"run/vocab.json", "\"k\"", "\"j\", \"k\"", "another text"},
        {"corpus.txt", "softly", "softer", "another text"},
        {"run/run.json", "\"sqrtdk\"", "\"other\"", "run.json"},
        {"run/run.json", "{", "", "JSON"},
        {"run/metrics.csv", "grad_norm", "norm", "metrics.csv"},
        {"run/metrics.csv", "\n0,", "\nzero,", "metrics.csv"},
        {"run/attention.csv", "entropy", "chaos", "attention.csv"},
        {"run/checkpoint/a/state.json", "\"format\": 2", "\"format\": 1", "format"},
        {"run/checkpoint/a/state.json", "\"step\": 6", "\"step\": 5", "step 5"},
        {"run/checkpoint/a/state.json", "\"step\": 6", "\"step\": -1", "entries"},
        {"run/checkpoint/a/state.json", "\"step\": 6", "\"step\": 99", "99"},
        {"run/checkpoint/a/state.json", "\"seconds\"", "\"minutes\"", "entries"},
        {"run/checkpoint/a/state.json", "\"logs\"", "\"files\"", "entries"},
        {"run/checkpoint/a/state.json", "\"metrics.csv\": ", "\"metrics.csv\": 9", "metrics.csv"},
        {"run/checkpoint/a/state.json", "\"metrics.csv\": ", "\"metrics.csv\": -", "entries"},
        {"run/checkpoint/a/state.json", "model.d_k", "model.d_q", "model.d_k"},
        {"run/checkpoint/a/state.json", "}", "", "JSON"},
    };
    make_run();
    /* A key that an earlier version did not have counts as its default, given in config.ini by now or not. */
    size_t all;
    const char *const state_json = "run/checkpoint/a/state.json", *const of_now = contents(in(state_json), &all);
    set_text(state_json, "\"attention.sink\"", "\"attention.zink\"");
    set_text("run/config.ini", "sink = none", "sink = one");
    refuse("attention.sink = (nothing)", RAISED);
    set_text("run/config.ini", "sink = one", "sink = none");
    refuse("less", "train.steps=3");
    put(state_json, of_now, all);
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        size_t size;
        const char *kept_text = contents(in(changes[i].file), &size);
        set_text(changes[i].file, changes[i].from, changes[i].to);
        refuse(changes[i].word, RAISED);
        put(changes[i].file, kept_text, size);
    }
    refuse("train.steps", "train.lr=1");
    refuse("less", "train.steps=3");
    refuse("train.steps", "train.steps=0.5");
    static const char *const gone[] = {"config.ini",
                                       "run.json",
                                       "vocab.json",
                                       "metrics.csv",
                                       "checkpoint/a/state.json",
                                       "checkpoint/a/model.safetensors",
                                       "checkpoint/a/optimizer.safetensors"};
    for (size_t i = 0; i < COUNT_OF(gone); i++) {
        char path[128];
        snprintf(path, sizeof path, "run/%s", gone[i]);
        assert_int_equal(rename(in(path), in("aside")), 0);
        if (strcmp(gone[i], "metrics.csv") != 0) refuse(strrchr(path, '/') + 1, RAISED);
        assert_int_equal(rename(in("aside"), in(path)), 0);
    }
    assert_int_equal(truncate(in("run/samples.txt"), 5), 0);
    refuse("samples.txt", RAISED);
}

/* Bytes of state.json set at random: accepted or refused, nothing else; never a value that was not checked. */
static void mutated(void **state) {
    (void)state;
    static const char likely[] = "0123456789-[]{}\",:.eE\\ \xFF";
    make_run();
    size_t size;
    char *whole = contents(in("run/checkpoint/a/state.json"), &size), *text = kept(malloc(size));
    Rng rng = rng_make(3, RNG_SAMPLE, 2);
    for (uint64_t n = 0; n < 400; n++) {
        Error err = {0};
        memcpy(text, whole, size);
        text[rng_below(&rng, 2 * n, size)] = likely[rng_below(&rng, 2 * n + 1, sizeof likely - 1)];
        put("run/checkpoint/a/state.json", text, size);
        /* Fewer steps than were made: refused there at the latest, so that no mutation trains. */
        bool done = try_resume("train.steps=1", &err);
        if (!done) assert_that(err.status == STATUS_USAGE && err.message[0], "mutation %d: %s", (int)n, err.message);
    }
}

/* What evaluates or samples takes the config the checkpoint was made with, and a checkpoint. */
static void model_of_its_config(void **state) {
    (void)state;
    Error err = {0};
    make_run();
    assert_that(open_model("run", &err), "%s", err.message);
    const char *whole = contents(in("run/config.ini"), NULL);
    set_text("run/config.ini", "scale_divisor = sqrt_dk", "scale_divisor = none");
    assert_refused(open_model("run", &err), &err, "made with attention.scale_divisor = sqrt_dk, and",
                   "another divisor");
    put_text("run/config.ini", whole);
    set_text("run/config.ini", "steps = 6", "steps = 7");
    assert_that(open_model("run", &err), "%s", err.message);
    assert_int_equal(remove(in("run/checkpoint/a/state.json")), 0);
    assert_refused(open_model("run", &err), &err, "state.json", "a checkpoint without its state");
    assert_int_equal(remove(in("run/checkpoint/current")), 0);
    assert_refused(open_model("run", &err), &err, "run has no checkpoint yet: ./train resume ",
                   "a run without a checkpoint");
    assert_true(directory_remove(in("run/checkpoint"), &err));
    assert_refused(open_model("run", &err), &err, "run has no checkpoint yet: ./train resume ",
                   "a run that has just begun");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TRAINING_TEST(refusals),
        TRAINING_TEST(mutated),
        TRAINING_TEST(model_of_its_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
