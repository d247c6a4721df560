/* The directory of a run, and run.json in it. A process that trains holds a lock on the directory from when it has
   made or opened it until its end, so that two processes never write the same logs. */
#include "run/run.h"

#include <math.h>
#include <string.h>

#include "base/command.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "gemm/matmul.h"
#include "ranks/ranks.h"
#include "run/checkpoint.h"

Corpus config_corpus(const Config *c, const Vocabulary *vocabulary) {
    if (c->data.task == TASK_RECALL) return corpus_recall(c->data.recall_pairs, vocabulary);
    return corpus_load(c->data.corpus, vocabulary, c->data.val_fraction, c->model.context);
}

void config_save(const Config *config, const Directory *directory, const char *name) {
    FileWriter *writer = file_writer_open(directory, name);
    config_write(config, writer->stream);
    file_writer_commit(writer);
}

/* --- run.json */

#define LOGS "logs" /* the hash of the logs at the end of the run */
#define NGRAM_LOSSES "ngram_losses"

void run_describe(Run *run, const Model *model, const char *command_line) {
    const double divisor = divisor_value(run->config.attention.scale_divisor, model->shape.attention.D);
    char fingerprint[HASH_DIGITS];
    Json *d = run->description = run_description(command_line, model->threads);
    corpus_fingerprint(&run->corpus, fingerprint);
    if (ranks_count() > 1) js_set(d, "ranks", js_size(ranks_count()));
    js_set(d, "products", js_text(matmul_kernels(model->shape.attention.rounds)));
    js_set(d, "blas_core", js_text(matmul_core()));
    js_set(d, "blas_build", js_text(matmul_build()));
    js_set(d, "name", js_text(run->config.name));
    js_set(d, "corpus", js_text(fingerprint));
    js_set(d, "vocabulary", js_size(model->shape.V));
    js_set(d, "parameters", js_size(model->tensors.parameters));
    js_set(d, "divisor", js_number(divisor));
    js_set(d, "multiplier", js_number((double)divisor_multiplier(divisor)));
    if (!run->corpus.pairs) {
        Json *losses = js_list(d, NGRAM_LOSSES);
        for (size_t i = 0; i < NGRAM_ORDERS; i++) js_append(losses, js_number(run->ngrams[i]));
    }
    js_set(d, "result", js_text("running"));
}

void run_begin(Run *run, const Model *model, const char *command_line, Progress *progress) {
    if (!run->locked) return;
    run_describe(run, model, command_line);
    results_begin(run->results, run->description);
    if (*run->results->old)
        progress_message(progress, "note: what stood in %s is now in %s", run->directory, run->results->old);
    progress_message(progress, "training %s into %s", run->config.name, run->directory);
}

/* Prints a note if a resumed run will not repeat the bits of one that never stopped. With this program's kernels, bits
   depend on the kernels alone. With OpenBLAS's, they depend on the number of threads as well. */
static void note_differences(const Json *d, bool bf16, size_t then, size_t threads, Progress *progress) {
    const char *core = js_as_text(js_get(d, "blas_core")), *products = js_as_text(js_get(d, "products"));
    const bool own = products && strcmp(products, "OpenBLAS") != 0;
    const char *now = matmul_kernels(bf16), *kernels = own ? products : core ? core : "?";
    if (strcmp(now, "OpenBLAS") == 0) now = matmul_core();
    if (strcmp(kernels, now) == 0 && (own || then == threads)) return;
    progress_message(progress, "  note      started with %zu thread%s (%s), resumed with %zu (%s):", then,
                     then == 1 ? "" : "s", kernels, threads, now);
    progress_message(progress, "            from here on equal to rounding, not to the bit");
}

Json *description_resumed(Json *d, const char *command_line) {
    Json *now = js_object();
    js_set(now, "time", time_now());
    js_set(now, "version", js_text(SQRTDK_VERSION));
    js_set(now, "command", js_text(command_line));
    js_append(js_list(d, "resumed"), now);
    return now;
}

void run_resumed(const Run *run, const Model *model, size_t step, const char *command, Progress *progress) {
    static const char *const of_the_end[] = {"error",     "steps",   "train_loss", "val_loss", "best_val_loss",
                                             "best_step", "seconds", "end",        LOGS};
    Json *d = run->description;
    if (!run->locked) return;
    config_save(&run->config, run->locked, "config.ini");
    directory_make_in(run->locked, "attention");
    Json *now = description_resumed(d, command);
    js_set(now, "step", js_size(step));
    js_set(now, "threads", js_size(model->threads));
    if (ranks_count() > 1) js_set(now, "ranks", js_size(ranks_count()));
    js_set(now, "blas_core", js_text(matmul_core()));
    for (size_t i = 0; i < sizeof of_the_end / sizeof *of_the_end; i++) js_remove(d, of_the_end[i]);
    js_set(d, "result", js_text("running"));
    progress_message(progress, "resuming %s in %s at step %zu of %zu", run->config.name, run->directory, step,
                     run->config.train.steps);
    note_differences(d, model->shape.attention.rounds, run->threads, model->threads, progress);
    run_description_save(d, run->locked);
}

/* Writes a hash of the logs that tables and pictures are made from. */
static void hash_logs(const char *directory, char out[HASH_DIGITS]) {
    uint64_t hash = HASH_START;
    for (Log log = LOG_METRICS; log <= LOG_ATTENTION; log++) {
        char path[PATH_CAPACITY];
        size_t size;
        path_join(path, directory, LOG_NAMES[log]);
        char *text = file_read(path, "the log", SIZE_MAX / 2, &size);
        hash = hash_bytes(hash, text, size);
        memory_free(text);
    }
    hash_text(hash, out);
}

void run_check_logs(const char *directory) {
    char now[HASH_DIGITS];
    const char *at_the_end = js_as_text(js_get(run_description_load(directory), LOGS));
    if (!at_the_end) return;
    hash_logs(directory, now);
    if (strcmp(at_the_end, now) != 0)
        usage_error(
            "%s: metrics.csv or attention.csv is not as the run left it: put the file back, or move the directory "
            "away and train the run again",
            directory);
}

void run_describe_end(const Run *run, const RunState *state, const char *result, const char *error) {
    Json *d = run->description;
    js_set(d, "result", js_text(result));
    if (error) js_set(d, "error", js_text(error));
    js_set(d, "steps", js_size(state->step));
    js_set(d, "train_loss", js_number(state->train_loss));
    js_set(d, "val_loss", js_number(state->val_loss));
    js_set(d, "best_val_loss", js_number(state->best_val_loss));
    js_set(d, "best_step", js_size(state->best_step));
    js_set(d, "seconds", js_number(state->seconds));
    js_set(d, "end", time_now());
}

void run_ended(const Run *run, const RunState *state, int signal, Error failure) {
    const char *result = signal ? "interrupted" : "finished";
    const bool complete = failure.status ? failure.status == STATUS_DIVERGED : signal == 0;
    char logs[HASH_DIGITS];
    if (failure.status) result = complete ? "diverged" : "failed";
    if (complete) hash_logs(run->directory, logs);
    run_describe_end(run, state, result, failure.status ? failure.message : NULL);
    if (complete) js_set(run->description, LOGS, js_text(logs));
    run_description_save(run->description, run->locked);
}

void description_check_corpus(const Json *d, const char *directory, const char *path, const Corpus *text) {
    char fingerprint[HASH_DIGITS];
    const char *then = js_as_text(js_get(d, "corpus"));
    corpus_fingerprint(text, fingerprint);
    if (!then || strcmp(then, fingerprint) != 0)
        usage_error("%s was trained on another text: %s or %s/vocab.json has changed since", directory,
                    *path ? path : "the built-in one", directory);
}

/* The arguments of load_config. */
typedef struct {
    Config *config;
    const SweepReader *sweep;
    const char *directory, *const *overrides;
    size_t count;
} ConfigOfResults;

static void load_config(void *argument) {
    const ConfigOfResults *c = argument;
    char path[PATH_CAPACITY];
    path_join(path, c->directory, "config.ini");
    config_load(c->config, c->sweep, path, c->overrides, c->count);
}

void description_config(const Json *d, const char *directory, Config *config, const SweepReader *sweep,
                        const char *const *overrides, size_t count) {
    const Json *resumed = js_get(d, "resumed"), *last = js_at(resumed, js_array_size(resumed) - 1);
    const char *version = js_as_text(js_get(last ? last : d, "version"));
    const char *name = js_as_text(js_get(d, "name"));
    Error error;
    const bool loaded = protect(load_config, &(ConfigOfResults){config, sweep, directory, overrides, count}, &error);
    if (!loaded && (!version || strcmp(version, SQRTDK_VERSION) == 0)) error_raise_again(&error);
    if (!loaded)
        error_raise(error.status, "%s; sqrtdk %.40s wrote that file, and this is %s", error.message, version,
                    SQRTDK_VERSION);
    if (name) snprintf(config->name, sizeof config->name, "%s", name);
    text_make_plain(config->name);
}

void run_count_ngrams(Run *run) {
    const Corpus *c = &run->corpus;
    if (!c->pairs)
        ngram_losses(c->ids, c->train, c->ids + c->train, c->count - c->train, c->vocabulary.count, run->ngrams);
}

void run_ngram_losses(const char *directory, double losses[NGRAM_ORDERS]) {
    const Json *list = js_get(run_description_load(directory), NGRAM_LOSSES);
    bool known = true;
    for (size_t i = 0; known && i < NGRAM_ORDERS; i++) known = js_as_number(js_at(list, i), &losses[i]);
    for (size_t i = 0; !known && i < NGRAM_ORDERS; i++) losses[i] = NAN;
}

/* --- the directory */

void run_make_directory(Run *run, const char *out, bool force) {
    if (ranks_index() > 0) return;
    run->results = results_make(out, run->config.log.out, force);
    run->locked = run->results->directory;
    memcpy(run->directory, run->locked->path, sizeof run->directory);
    config_save(&run->config, run->locked, "config.ini");
    vocabulary_save(&run->corpus.vocabulary, run->locked, "vocab.json");
    directory_make_in(run->locked, "checkpoint");
    directory_make_in(run->locked, "attention");
}

/* Locks an opened directory, and checks that no link in it leads elsewhere. A directory without run.json is not locked:
   it is refused as soon as run.json is read. */
static void lock_directory(Run *run) {
    static const char *const parts[] = {"checkpoint", "attention"};
    char path[PATH_CAPACITY];
    path_join(path, run->directory, "run.json");
    if (!path_exists(path)) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        path_join(path, run->directory, parts[i]);
        directory_check_no_link(path);
    }
    run->locked = directory_lock(run->directory);
}

void run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive) {
    int64_t threads;
    *run = (Run){0};
    results_name(run->directory, directory, 1);
    if (exclusive && ranks_index() == 0) lock_directory(run);
    const Json *d = run->description = run_description_load(run->directory);
    const char *first = js_as_text(js_get(js_at(js_get(d, "runs"), 0), "name"));
    if (first)
        usage_error("%s is a sweep, whose runs are below it: name one, such as %s/%s", run->directory, run->directory,
                    first);
    description_config(d, run->directory, &run->config, NULL, overrides, count);
    const char *result = js_as_text(js_get(d, "result"));
    const bool known = js_as_integer(js_get(d, "threads"), &threads) && threads > 0 && threads <= THREADS_MAX;
    run->threads = known ? (size_t)threads : 1;
    run->finished = result && strcmp(result, "finished") == 0;
}

void run_load_vocabulary(Run *run) {
    char path[PATH_CAPACITY];
    if (run->vocabulary.count) return;
    path_join(path, run->directory, "vocab.json");
    run->vocabulary = vocabulary_load(path);
}

/* Detects a machine that computes wrongly: every rank has a copy of the parameters, and these copies then differ. */
void run_compare_parameters(const Model *model, size_t step) {
    char what[64], hash[HASH_DIGITS];
    if (ranks_count() == 1) return;
    snprintf(what, sizeof what, "the hash of the parameters after %zu steps", step);
    hash_text(hash_bytes(HASH_START, model->parameters, model->tensors.flat * sizeof(real)), hash);
    ranks_same(what, hash);
}

void run_compare(const Run *run, const Model *model, size_t step) {
    char value[CONFIG_VALUE_MAX];
    if (ranks_count() == 1) return;
    ranks_same("the version", SQRTDK_VERSION);
    ranks_same("the kernel of products", matmul_kernels(model->shape.attention.rounds));
    if (!matmul_is_own()) ranks_same("the core of OpenBLAS", matmul_core());
    for (size_t key = 0; key < config_key_count(); key++) {
        config_value_text(&run->config, key, value, sizeof value);
        if (strcmp(config_key_name(key), "data.corpus") != 0) ranks_same(config_key_name(key), value);
    }
    corpus_fingerprint(&run->corpus, value); /* in place of data.corpus, since its path may differ between ranks */
    ranks_same("the hash of the text", value);
    run_compare_parameters(model, step);
}

void run_load_corpus(Run *run) {
    run_load_vocabulary(run);
    run->corpus = config_corpus(&run->config, &run->vocabulary);
    description_check_corpus(run->description, run->directory, run->config.data.corpus, &run->corpus);
}

void run_load_model(Run *run, Model *model, size_t max_batch, size_t threads) {
    run_load_vocabulary(run);
    const ModelShape shape = model_shape(&run->config, run->vocabulary.count);
    model_make(model, &shape, max_batch ? max_batch : run->config.train.batch, threads, false);
    run->step = checkpoint_load(run, CHECKPOINT_LAST, model, (Moments){0}).step;
}
