/* A config, model, text or log that differs from the checkpoint's is refused, the difference is named, and nothing is
   written. resume does so and, as far as the model is concerned, the verbs that evaluate or sample. */
#include "training.h"

#include <unistd.h>

#define RAISED "train.steps=8" /* to which the finished run is to be continued */

static void make_run(void) {
    CONFIGURE("train.steps=6", "eval.every=4", "log.every=2", "log.attention_every=5", "train.warmup=2");
    train("run", 1);
    assert_non_null(strstr(state_of("run"), "\"step\":6,"));
}

/* Names and checksums of a run's files. */
static char *checksums(void) { return output_of("cd run && find . -type f -exec cksum {} + | sort"); }

static void refuse(const char *word, const char *set) {
    const char *before = checksums();
    assert_refused(word, resume_with_key("run", set));
    assert_string_equal(before, checksums());
}

static void refusals(void) {
    const struct {
        const char *file, *from, *to, *word;
    } changes[] = {
        {"run/config.ini", "heads = 2", "heads = 4", "model.heads = 2"},
        {"run/config.ini", "lr = 0.01", "lr = 0.02", "train.lr = 0.01"},
        {"run/config.ini", "seed = 1", "seed = 2", "train.seed"},
        {"run/config.ini", "context = 16", "context = 8", "context"},
        {"run/config.ini", "optimizer = adamw", "optimizer = sgd", "train.optimizer = adamw"},
        {"run/config.ini", "shards = 2", "shards = 4", "train.shards = 2"},
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
    };
    make_run();
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
    static const char *const gone[] = {"config.ini", "run.json", "vocab.json", "metrics.csv",
                                       "checkpoint/last.safetensors"};
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

/* Each entry of a checkpoint is compared with the config, the model and the logs. */
static void changed_checkpoint(void) {
    static const struct {
        const char *from, *to, *word;
    } changes[] = {
        {"\"state\"", "\"stake\"", "has no state in its metadata"},
        {"\"state\":\"{", "\"state\":\"", "JSON"},
        {"format\\\":3", "format\\\":2", "another version of sqrtdk, in format 2; this is " SQRTDK_VERSION},
        {"format\\\":3", "format\\\":\\\"3\\\"", "\"format\" in its state"},
        {"\\\"format", "\\\"form", "\"format\" in its state"},
        {"step\\\":6", "step\\\":-1", "\"step\" in its state"},
        {"step\\\":6", "step\\\":6.5", "\"step\" in its state"},
        {"step\\\":6", "step\\\":99", "99"},
        {"step\\\":6", "step\\\":7", "metrics.csv"},
        {"step\\\":6", "step\\\":4", "metrics.csv"},
        {"seconds\\\":", "minutes\\\":", "\"seconds\" in its state"},
        {"seconds\\\":", "seconds\\\":-", "\"seconds\" in its state"},
        {"\\\"logs", "\\\"files", "\"metrics.csv\" in its state"},
        {"metrics.csv\\\":", "metrics.csv\\\":9", "metrics.csv"},
        {"metrics.csv\\\":", "metrics.csv\\\":-", "\"metrics.csv\" in its state"},
        {"samples.txt\\\":", "samples.txt\\\":0,\\\"other\\\":", "samples.txt"},
        {"model.d_k\\\":\\\"16", "model.d_k\\\":\\\"17", "model.d_k = 17, and"},
        {"scale_divisor\\\":\\\"sqrt_dk", "scale_divisor\\\":\\\"dk", "attention.scale_divisor = dk, and"},
        {"model.d_k", "model.d_q", "with model.d_q = 16 by sqrtdk " SQRTDK_VERSION ", and sqrtdk " SQRTDK_VERSION},
        {"config\\\":{", "config\\\":{\\\"model.new\\\":\\\"1\\\",",
         "made with model.new = 1 by sqrtdk " SQRTDK_VERSION},
        {"config\\\":{", "config\\\":{\\\"model.new\\\":1,", "\"model.new\" in its state is not a text"},
        {"\\\"config\\\"", "\\\"konfig\\\"", "its state has no \"config\""},
        {"\\\"model.bias\\\":\\\"yes\\\",", "\\\"model.bias\\\":\\\"no\\\",", "model.bias = no, and"},
        {"\\\"train.lr\\\":\\\"0.01\\\",", "", "made with train.lr = 0.001, and"}, /* its default */
        {"\"wte.weight\"", "\"wte.height\"", "has no tensor wte.weight"},
        {"\"exp_avg.wte.weight\"", "\"exp_avg.wte.height\"", "has no tensor exp_avg.wte.weight"},
        {"\"exp_avg_sq.wte.weight\"", "\"exp_max_sq.wte.weight\"", "has no tensor exp_avg_sq.wte.weight"},
        {"\"wte.weight\":{\"dtype\":\"F32\"", "\"wte.weight\":{\"dtype\":\"F64\"", "wte.weight is of type F64"},
        {"\"exp_avg.ln_f.bias\":{\"dtype\":\"F32\",\"shape\":[32]",
         "\"exp_avg.ln_f.bias\":{\"dtype\":\"F32\",\"shape\":[16,2]", "exp_avg.ln_f.bias has another shape"},
        {"\"__metadata__\"",
         "\"momentum_buffer.wte.weight\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"__metadata__\"",
         "holds the tensor momentum_buffer.wte.weight"},
    };
    const char *const path = "run/checkpoint/last.safetensors";
    size_t size;
    make_run();
    const char *whole = contents(in(path), &size);
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        set_header(path, changes[i].from, changes[i].to);
        refuse(changes[i].word, RAISED);
        put(path, whole, size);
    }
    /* the sizes of logs that drop rows or keep them twice, at the end of a line */
    static const char *const logs[] = {"metrics.csv", "attention.csv", "samples.txt"};
    for (size_t i = 0; i < COUNT_OF(logs); i++) {
        char name[32], entry[64], other[64];
        snprintf(name, sizeof name, "run/%s", logs[i]);
        const char *text = contents(in(name), NULL), *begin = i == 2 ? "==== step 4" : "\n4,";
        const char *at = strstr(text, i == 1 ? "\n5," : begin);
        assert_non_null(at);
        const size_t now = (size_t)strtoull(strstr(state_of("run"), logs[i]) + strlen(logs[i]) + 2, NULL, 10);
        snprintf(entry, sizeof entry, "%s\\\":%zu", logs[i], now);
        snprintf(other, sizeof other, "%s\\\":%zu", logs[i], (size_t)(at - text) + (i < 2));
        set_header(path, entry, other);
        refuse(logs[i], RAISED);
        put(path, whole, size);
        if (i == 2) continue;
        snprintf(other, sizeof other, "%s\\\":%zu", logs[i], strlen(text));
        set_header(path, entry, other);
        refuse(logs[i], RAISED);
        put(path, whole, size);
    }
}

/* A checkpoint and a config.ini of a version that had fewer keys: what they lack has its default, also where that
   follows from other keys. */
static void fewer_keys(void) {
    static const char *const gone[][2] = {{"\\\"model.dropout\\\":\\\"0\\\",", "dropout = 0\n"},
                                          {"\\\"model.d_k\\\":\\\"16\\\",", "d_k = 16\n"},
                                          {"\\\"train.min_lr\\\":\\\"0.001\\\",", "min_lr = 0.001\n"},
                                          {"\\\"version\\\":\\\"" SQRTDK_VERSION "\\\",", NULL}};
    make_run();
    assert_true(shell("cp -a run whole"));
    for (size_t i = 0; i < COUNT_OF(gone); i++) set_header("run/checkpoint/last.safetensors", gone[i][0], "");
    open_model("run");
    for (size_t i = 0; i < COUNT_OF(gone); i++)
        if (gone[i][1]) set_text("run/config.ini", gone[i][1], "");
    resume_with_key("run", RAISED);
    assert_true(shell("mv run fewer && mv whole run"));
    resume_with_key("run", RAISED);
    assert_true(same_parameters("run", "fewer"));
    assert_true(shell("diff run/config.ini fewer/config.ini && diff run/attention.csv fewer/attention.csv"));
}

/* Another version had one more key: it may change what is computed, and is refused. Unknown entries outside of the
   config are accepted. */
static void more_keys(void) {
    const char *const path = "run/checkpoint/last.safetensors";
    make_run();
    set_header(path, "\\\"step\\\"", "\\\"new\\\":[1],\\\"step\\\"");
    set_text("run/run.json", "\"version\": \"" SQRTDK_VERSION "\"", "\"version\": \"9.9\", \"new\": {}");
    open_model("run");
    set_header(path, "version\\\":\\\"" SQRTDK_VERSION, "version\\\":\\\"9.9");
    set_header(path, "config\\\":{", "config\\\":{\\\"model.new\\\":\\\"1\\\",");
    refuse("made with model.new = 1 by sqrtdk 9.9, and sqrtdk " SQRTDK_VERSION " has no such key", RAISED);
    set_text("run/config.ini", "[model]", "[model]\nnew = 1");
    refuse("[model] has no key new", RAISED);
    refuse("sqrtdk 9.9 wrote that file, and this is " SQRTDK_VERSION, RAISED);
}

/* A NaN or an infinity in any tensor, in its first number or its last; without the moments where they are not read. */
static void not_finite(void) {
    const char *const path = "run/checkpoint/last.safetensors";
    static const char *const names[] = {"\"wte.weight\"", "\"ln_f.bias\"", "\"exp_avg.wte.weight\"",
                                        "\"exp_avg_sq.ln_f.bias\""};
    size_t size;
    uint64_t header;
    make_run();
    char *whole = contents(in(path), &size);
    memcpy(&header, whole, sizeof header);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t begin, end;
        const char *entry = memmem(whole, size, names[i], strlen(names[i]));
        assert_non_null(entry);
        assert_int_equal(sscanf(strstr(entry, "data_offsets"), "data_offsets\":[%zu,%zu]", &begin, &end), 2);
        const real bad = i % 2 ? INFINITY : (real)NAN;
        char *changed = memory_make(size, 1, "a file"), word[64];
        memcpy(changed, whole, size);
        memcpy(memmem(changed, size, "\"checksum\"", 10), "\"no_check\"", 10); /* as if training had written it */
        memcpy(changed + sizeof header + header + (i < 2 ? begin : end - sizeof bad), &bad, sizeof bad);
        put(path, changed, size);
        snprintf(word, sizeof word, "the tensor %.*s has a NaN", (int)strlen(names[i]) - 2, names[i] + 1);
        refuse(word, RAISED);
        assert_int_equal(works(open_model("run")), i >= 2);
    }
}

/* A run whose checkpoint is missing is never trained over. */
static void lost_checkpoint(void) {
    static const char *const lost = "checkpoint/last.safetensors: No such file or directory";
    static const char *const old_format = /* version 0.6.0 */
        "cd checkpoint && mkdir a && mv last.safetensors a/model.safetensors && ln -s a current"
        " && ln -s current/model.safetensors model.safetensors";
    const char *const losses[] = {
        "rm checkpoint/last.safetensors",
        "rm -r checkpoint",
        "mv checkpoint/last.safetensors checkpoint/last.safetensors.new",
        "mv checkpoint/last.safetensors checkpoint/model.safetensors", /* as version 0.2.0 named it */
        old_format,
        "cd checkpoint && mkdir a && mv last.safetensors a/model.safetensors", /* old_format copied without links */
        "rm checkpoint/last.safetensors metrics.csv samples.txt && sed -i '/\"steps\"/d' run.json",
        "rm checkpoint/last.safetensors *.csv samples.txt",
    };
    make_run();
    assert_true(shell("cp -a run whole"));
    for (size_t i = 0; i < COUNT_OF(losses); i++) {
        char command[512];
        snprintf(command, sizeof command, "rm -r run && cp -a whole run && cd run && %s", losses[i]);
        assert_true(shell(command));
        refuse(lost, RAISED);
        assert_refused(lost, open_model("run"));
    }
}

/* checkpoint/ or attention/ is a link: files written into it would not be in the run's directory. */
static void linked_directories(void) {
    static const char *const parts[] = {"checkpoint", "attention"};
    make_run();
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        char command[256], words[64];
        snprintf(command, sizeof command, "mv run/%s victim && ln -s ../victim run/%s", parts[i], parts[i]);
        snprintf(words, sizeof words, "%s is a symbolic link", parts[i]);
        assert_true(shell(command));
        const char *before = contents(in("run/metrics.csv"), NULL);
        refuse(words, RAISED);
        assert_string_equal(before, contents(in("run/metrics.csv"), NULL));
        snprintf(command, sizeof command, "rm run/%s && mv victim run/%s", parts[i], parts[i]);
        assert_true(shell(command));
    }
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(refusals), TRAINING_TEST(changed_checkpoint), TRAINING_TEST(not_finite),
                     TRAINING_TEST(lost_checkpoint), TRAINING_TEST(linked_directories), TRAINING_TEST(fewer_keys),
                     TRAINING_TEST(more_keys));
}
