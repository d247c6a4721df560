#include "train/saved_run.h"

#include <stdlib.h>

#include "base/files.h"
#include "base/results.h"
#include "train/evaluate.h"
#include "train/plan.h"
#include "train/safetensors.h"

bool saved_run_open(SavedRun *run, const char *directory, size_t max_batch, size_t threads, Error *err) {
    char path[4096];
    *run = (SavedRun){0};
    if (!path_join(path, sizeof path, directory, "config.ini", err)) return false;
    if (!path_exists(path))
        return error_set(err, STATUS_USAGE, "%s is not the directory of a run: it holds no config.ini", directory);
    if (!config_load(&run->config, path, NULL, 0, err) || !path_join(path, sizeof path, directory, "vocab.json", err) ||
        !vocabulary_load(&run->vocabulary, path, err))
        return false;
    ModelShape shape = model_shape(&run->config, run->vocabulary.count);
    size_t step;
    if (!model_make(&run->model, &shape, max_batch ? max_batch : (size_t)run->config.train.batch, threads, false, err))
        return false;
    const TensorSet set = tensor_set(&run->model.tensors, run->model.parameters);
    if (!path_join(path, sizeof path, directory, "checkpoint/model.safetensors", err) ||
        !safetensors_load(path, &set, &step, err))
        return false;
    const char *broken = tensors_find_not_finite(&run->model.tensors, run->model.parameters);
    if (broken) return error_set(err, STATUS_USAGE, "%s: %s has a NaN or an infinity in it", path, broken);
    snprintf(run->directory, sizeof run->directory, "%s", directory);
    return true;
}

void saved_run_close(SavedRun *run) {
    model_free(&run->model);
    vocabulary_free(&run->vocabulary);
}

bool saved_run_evaluate(SavedRun *run, double *loss, size_t *characters, bool *complete, Error *err) {
    const Config *c = &run->config;
    Corpus corpus;
    size_t T = run->model.shape.T, B = run->model.max_batch;
    if (!plan_corpus(&corpus, c, &run->vocabulary, err)) return false;
    Json *description = NULL;
    int32_t *tokens = calloc(2 * B * T, sizeof *tokens);
    bool ok = (tokens != NULL || error_set(err, STATUS_FAILED, "no memory for the batches")) &&
              run_description_load(&description, run->directory, err) &&
              run_description_check_corpus(description, run->directory, c->data.corpus, &corpus, err);
    if (ok) *loss = evaluate(&run->model, &corpus, B, 0, tokens, tokens + B * T, complete);
    *characters = corpus.count - corpus.train - 1;
    js_free(description);
    free(tokens);
    corpus_free(&corpus);
    return ok;
}
