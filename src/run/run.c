/* The directory of a run, and run.json in it. A process that trains holds a lock on the directory from the moment it
   has made or opened it until run_close, so that two never write the same logs. */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/text.h"
#include "ops/matmul.h"
#include "ranks/ranks.h"
#include "run/checkpoint.h"

bool config_corpus(Corpus *corpus, const Config *c, const Vocabulary *vocabulary, Error *err) {
    if (c->data.task == TASK_RECALL) return corpus_recall(corpus, (size_t)c->data.recall_pairs, vocabulary, err);
    return corpus_load(corpus, c->data.corpus, vocabulary, c->data.val_fraction, (size_t)c->model.context, err);
}

bool run_path(const Run *run, char path[4096], const char *name, Error *err) {
    return path_join(path, 4096, run->directory, name, err);
}

static bool write_config(const Run *run, Error *err) {
    FileWriter writer;
    if (!file_writer_open(&writer, &run->results.directory, "config.ini", err)) return false;
    config_write(&run->config, writer.stream);
    return file_writer_commit(&writer, err);
}

/* --- run.json */

#define LOGS "logs" /* the hash of the logs at the end of the run */

bool run_begin(Run *run, const Model *model, const char *command_line, Error *err) {
    const double divisor = divisor_value(run->config.attention.scale_divisor, model->shape.attention.D);
    char fingerprint[HASH_DIGITS];
    Json *d = run->description = run_description(command_line, model->threads);
    corpus_fingerprint(&run->corpus, fingerprint);
    if (ranks_count() > 1) js_set(d, "ranks", js_integer((int64_t)ranks_count()));
    js_set(d, "products", js_text(matmul_kernels(model->shape.attention.bf16)));
    js_set(d, "blas_core", js_text(matmul_core()));
    js_set(d, "blas_build", js_text(matmul_is_openmp_build() ? "OpenMP" : "pthread"));
    js_set(d, "name", js_text(run->config.name));
    js_set(d, "corpus", js_text(fingerprint));
    js_set(d, "vocabulary", js_integer((int64_t)model->shape.V));
    js_set(d, "parameters", js_integer((int64_t)model->tensors.parameters));
    js_set(d, "divisor", js_number(divisor));
    js_set(d, "multiplier", js_number((double)(real)(1 / divisor)));
    if (!run->corpus.pairs) ngram_losses_describe(d, run->ngrams);
    js_set(d, "result", js_text("running"));
    return results_begin(&run->results, d, err);
}

/* Says so if a resumed run will not repeat the bits of one that never stopped. With our own kernels, bits depend on the
   kernels alone; with OpenBLAS's, they depend on the number of threads as well. */
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

static Json *resumed_entry(const Model *model, size_t step, const char *command_line) {
    Json *now = js_object();
    js_set(now, "step", js_integer((int64_t)step));
    js_set(now, "time", time_now());
    js_set(now, "version", js_text(SQRTDK_VERSION));
    js_set(now, "command", js_text(command_line));
    js_set(now, "threads", js_integer((int64_t)model->threads));
    if (ranks_count() > 1) js_set(now, "ranks", js_integer((int64_t)ranks_count()));
    js_set(now, "blas_core", js_text(matmul_core()));
    return now;
}

bool run_resumed(const Run *run, const Model *model, size_t step, const char *command, Progress *progress, Error *err) {
    static const char *const of_the_end[] = {"error",     "steps",   "train_loss", "val_loss", "best_val_loss",
                                             "best_step", "seconds", "end",        LOGS};
    Json *d = run->description;
    if (!write_config(run, err)) return false;
    js_append(js_list(d, "resumed"), resumed_entry(model, step, command));
    for (size_t i = 0; i < sizeof of_the_end / sizeof *of_the_end; i++) js_remove(d, of_the_end[i]);
    js_set(d, "result", js_text("running"));
    progress_message(progress, "resuming %s in %s at step %zu of %lld", run->config.name, run->directory, step,
                     (long long)run->config.train.steps);
    note_differences(d, model->shape.attention.bf16, run->threads, model->threads, progress);
    return run_description_save(d, &run->results.directory, err);
}

/* A hash of the logs that tables and pictures are made from. */
static bool hash_logs(const char *directory, char out[HASH_DIGITS], Error *err) {
    uint64_t hash = HASH_START;
    for (Log log = LOG_METRICS; log <= LOG_ATTENTION; log++) {
        char path[4096], *text;
        size_t size;
        if (!path_join(path, sizeof path, directory, LOG_NAMES[log], err) ||
            !file_read(path, "the log", SIZE_MAX / 2, STATUS_USAGE, &text, &size, err))
            return false;
        hash = hash_bytes(hash, text, size);
        free(text);
    }
    hash_text(hash, out);
    return true;
}

bool run_check_logs(const char *directory, Error *err) {
    char now[HASH_DIGITS];
    Json *d;
    bool ok = run_description_load(&d, directory, err);
    const char *left = js_as_text(js_get(d, LOGS));
    if (ok && left)
        ok = hash_logs(directory, now, err) &&
             (strcmp(left, now) == 0 ||
              usage_error(err,
                          "%s: metrics.csv or attention.csv is not as the run left it: put the file back, or move the "
                          "directory away and train the run again",
                          directory));
    js_free(d);
    return ok;
}

bool run_ended(const Run *run, const RunState *state, int signal, const Error *failure, Error *err) {
    const char *result = signal ? "interrupted" : "finished";
    const bool complete = failure ? failure->status == STATUS_DIVERGED : signal == 0;
    char logs[HASH_DIGITS];
    Json *d = run->description;
    if (failure) result = complete ? "diverged" : "failed";
    if (complete && !hash_logs(run->directory, logs, err)) return false;
    js_set(d, "result", js_text(result));
    if (failure) js_set(d, "error", js_text(failure->message));
    js_set(d, "steps", js_integer((int64_t)state->step));
    js_set(d, "train_loss", js_number(state->train_loss));
    js_set(d, "val_loss", js_number(state->val_loss));
    js_set(d, "best_val_loss", js_number(state->best_val_loss));
    js_set(d, "best_step", js_integer((int64_t)state->best_step));
    js_set(d, "seconds", js_number(state->seconds));
    js_set(d, "end", time_now());
    if (complete) js_set(d, LOGS, js_text(logs));
    return run_description_save(d, &run->results.directory, err);
}

bool description_check_corpus(const Json *d, const char *directory, const char *path, const Corpus *text, Error *err) {
    char fingerprint[HASH_DIGITS];
    const char *then = js_as_text(js_get(d, "corpus"));
    corpus_fingerprint(text, fingerprint);
    if (then && strcmp(then, fingerprint) == 0) return true;
    return usage_error(err, "%s was trained on another text: %s or %s/vocab.json has changed since", directory,
                       *path ? path : "the built-in one", directory);
}

bool run_count_ngrams(Run *run, Error *err) {
    const Corpus *c = &run->corpus;
    if (c->pairs) return true;
    return ngram_losses(c->ids, c->train, c->ids + c->train, c->count - c->train, c->vocabulary.count, run->ngrams,
                        err);
}

/* --- the directory */

bool run_create(Run *run, const char *out, bool force, Error *err) {
    const Directory *directory = &run->results.directory;
    if (!results_make(&run->results, out, run->config.log.out, force, err)) return false;
    memcpy(run->directory, directory->path, sizeof run->directory);
    return write_config(run, err) && vocabulary_save(&run->corpus.vocabulary, directory, "vocab.json", err) &&
           directory_make_in(directory, "checkpoint", err);
}

/* Locks an opened directory, and checks that no link in it leads elsewhere. A directory without run.json is not locked:
   it is refused as soon as run.json is read. */
static bool lock_directory(Run *run, Error *err) {
    static const char *const parts[] = {"checkpoint", "attention"};
    char path[4096];
    if (!run_path(run, path, "run.json", err) || !path_exists(path)) return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!run_path(run, path, parts[i], err) || !directory_no_link(path, err)) return false;
    return directory_lock(&run->results.directory, run->directory, err);
}

static bool check_no_sweep(const char *path, const Json *d, Error *err) {
    const char *first = js_as_text(js_get(js_at(js_get(d, "runs"), 0), "name"));
    if (!first) return true;
    return usage_error(err, "%s is a sweep, whose runs are below it: name one, such as %s/%s", path, path, first);
}

/* Reads the config, and from run.json the rest of what a Run knows of a run that was trained before. */
static bool open_config(Run *run, const char *const *overrides, size_t count, Error *err) {
    char path[4096];
    int64_t threads;
    if (!run_description_load(&run->description, run->directory, err)) return false;
    const Json *d = run->description;
    const bool ok = check_no_sweep(run->directory, d, err) && run_path(run, path, "config.ini", err) &&
                    config_load(&run->config, NULL, path, overrides, count, err);
    const char *name = js_as_text(js_get(d, "name")), *result = js_as_text(js_get(d, "result"));
    const bool known = js_as_integer(js_get(d, "threads"), &threads) && threads > 0 && threads <= THREADS_MAX;
    run->threads = known ? (size_t)threads : 1;
    run->finished = result && strcmp(result, "finished") == 0;
    if (name) snprintf(run->config.name, sizeof run->config.name, "%s", name);
    text_make_plain(run->config.name);
    return ok;
}

bool run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive, Error *err) {
    char path[4096];
    *run = (Run){0};
    if (!results_name(run->directory, sizeof run->directory, directory, 1, err)) return false;
    if (exclusive && !lock_directory(run, err)) return false;
    return open_config(run, overrides, count, err) && run_path(run, path, "vocab.json", err) &&
           vocabulary_load(&run->vocabulary, path, err);
}

bool run_load_corpus(Run *run, Error *err) {
    return config_corpus(&run->corpus, &run->config, &run->vocabulary, err) &&
           description_check_corpus(run->description, run->directory, run->config.data.corpus, &run->corpus, err);
}

bool run_load_model(Run *run, Model *model, size_t max_batch, size_t threads, Error *err) {
    const ModelShape shape = model_shape(&run->config, run->vocabulary.count);
    RunState state;
    if (!max_batch) max_batch = (size_t)run->config.train.batch;
    if (!model_make(model, &shape, max_batch, threads, false, err) ||
        !checkpoint_load(run, CHECKPOINT_LAST, model, (Moments){0}, &state, err))
        return false;
    run->step = state.step;
    return true;
}

void run_close(Run *run) {
    corpus_free(&run->corpus);
    vocabulary_free(&run->vocabulary);
    js_free(run->description);
    results_release(&run->results);
    *run = (Run){0};
}
