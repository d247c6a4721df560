#include "train/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/range.h"
#include "train/checkpoint.h"
#include "train/description.h"
#include "train/evaluate.h"
#include "train/tensor_set.h"

bool config_corpus(Corpus *corpus, const Config *c, const Vocabulary *vocabulary, Error *err) {
    return corpus_load(corpus, c->data.corpus, vocabulary, c->data.val_fraction, (size_t)c->model.context, err);
}

bool run_path(const Run *run, char path[4096], const char *name, Error *err) {
    return path_join(path, 4096, run->directory, name, err);
}

bool run_load_description(const Run *run, Json **description, Error *err) {
    return run_description_load(description, run->directory, err);
}

bool run_save_description(const Run *run, const Json *description, Error *err) {
    return run_description_save(description, run->directory, err);
}

bool run_write_config(const Run *run, Error *err) {
    char path[4096];
    FileWriter writer;
    if (!run_path(run, path, "config.ini", err) || !file_writer_open(&writer, path, err)) return false;
    config_write(&run->config, writer.stream);
    return file_writer_commit(&writer, err);
}

bool run_new(Run *run, const Config *config, Error *err) {
    *run = (Run){.config = *config, .lock = -1};
    return config_corpus(&run->corpus, config, NULL, err);
}

bool run_create(Run *run, const char *wanted, bool named, bool force, Json *description, Error *err) {
    char path[4096];
    bool ok = results_make(&run->made, wanted, named, force, err);
    if (ok) memcpy(run->directory, run->made.path, sizeof run->directory);
    ok = ok && run_save_description(run, description, err) && run_write_config(run, err) &&
         run_path(run, path, "vocab.json", err) && vocabulary_save(&run->corpus.vocabulary, path, err);
    js_free(description);
    return ok;
}

/* What run.json says. The config has no name of its own but "config" there. */
static void take_description(Run *run, const Json *d) {
    const char *name = js_as_text(js_get(d, "name")), *result = js_as_text(js_get(d, "result"));
    int64_t threads;
    const bool known = js_as_integer(js_get(d, "threads"), &threads) && threads > 0 && threads <= THREADS_MAX;
    run->threads = known ? (size_t)threads : 1;
    run->finished = result && strcmp(result, "finished") == 0;
    if (name) snprintf(run->config.name, sizeof run->config.name, "%s", name);
}

static bool check_no_sweep(const char *directory, const Json *d, Error *err) {
    const char *arm = js_as_text(js_get(js_at(js_get(d, "runs"), 0), "name"));
    return !arm || error_set(err, STATUS_USAGE, "%s is a sweep, whose runs are below it: name one, such as %s/%s",
                             directory, directory, arm);
}

/* run.json is read under the lock; a directory without one is not locked, but refused. */
static bool load_config(Run *run, const char *const *overrides, size_t count, bool exclusive, Error *err) {
    Json *description;
    char path[4096];
    if (!run_path(run, path, "run.json", err)) return false;
    if (exclusive && path_exists(path) && !directory_lock(run->directory, &run->lock, err)) return false;
    bool ok = run_load_description(run, &description, err) && check_no_sweep(run->directory, description, err) &&
              run_path(run, path, "config.ini", err) && config_load(&run->config, path, overrides, count, err);
    if (ok) take_description(run, description);
    js_free(description);
    return ok;
}

bool run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive, Error *err) {
    char path[4096];
    *run = (Run){.lock = -1};
    int length = snprintf(run->directory, sizeof run->directory, "%s", directory);
    if (length <= 0 || (size_t)length >= sizeof run->directory)
        return error_set(err, STATUS_USAGE, "the path of the run directory is %s", length ? "too long" : "empty");
    return load_config(run, overrides, count, exclusive, err) && run_path(run, path, "vocab.json", err) &&
           vocabulary_load(&run->vocabulary, path, err);
}

bool run_load_corpus(Run *run, Error *err) {
    Json *description = NULL;
    bool ok = config_corpus(&run->corpus, &run->config, &run->vocabulary, err) &&
              run_load_description(run, &description, err) &&
              description_check_corpus(description, run->directory, run->config.data.corpus, &run->corpus, err);
    js_free(description);
    return ok;
}

bool run_load_model(const Run *run, Model *model, size_t max_batch, size_t threads, Error *err) {
    const ModelShape shape = model_shape(&run->config, run->vocabulary.count);
    char path[4096];
    size_t step;
    if (!checkpoint_check_config(run->directory, &run->config, err) ||
        !model_make(model, &shape, max_batch ? max_batch : (size_t)run->config.train.batch, threads, false, err))
        return false;
    const TensorSet set = tensor_set(&model->tensors, model->parameters);
    if (!run_path(run, path, "checkpoint/model.safetensors", err) || !tensor_set_load(path, &set, &step, err))
        return false;
    const char *broken = tensors_find_not_finite(&model->tensors, model->parameters);
    return !broken || error_set(err, STATUS_USAGE, "%s: %s has a NaN or an infinity in it", path, broken);
}

void run_close(Run *run) {
    corpus_free(&run->corpus);
    vocabulary_free(&run->vocabulary);
    results_release(&run->made);
    if (*run->directory && run->lock >= 0) close(run->lock);
    *run = (Run){.lock = -1};
}

bool run_evaluate(Run *run, Model *model, double *loss, size_t *characters, bool *complete, Error *err) {
    const size_t T = model->shape.T, B = model->max_batch;
    int32_t *tokens = calloc(2 * B * T, sizeof *tokens);
    if (!tokens) return error_set(err, STATUS_FAILED, "no memory for the batches");
    *loss = evaluate(model, &run->corpus, B, 0, tokens, tokens + B * T, complete);
    *characters = run->corpus.count - run->corpus.train - 1;
    free(tokens);
    return true;
}
