/* A finished run, opened again from its directory: config.ini, vocab.json, checkpoint/model.safetensors. */
#ifndef SQRTDK_TRAIN_SAVED_RUN_H
#define SQRTDK_TRAIN_SAVED_RUN_H

#include "data/corpus.h"
#include "model/transformer.h"

typedef struct {
    char directory[4096];
    Config config;
    Vocabulary vocabulary;
    Model model; /* without gradients */
} SavedRun;

/* Up to `max_batch` sequences at a time (0: the run's own batch). Errors about what is in the directory have status
   STATUS_USAGE. Free with saved_run_close, also after a failure. */
bool saved_run_open(SavedRun *run, const char *directory, size_t max_batch, size_t threads, Error *err);
void saved_run_close(SavedRun *run);

/* Mean loss over the whole validation split of the run's corpus, and how many characters were predicted. A caught
   signal cuts it short; then *complete is false. */
bool saved_run_evaluate(SavedRun *run, double *loss, size_t *characters, bool *complete, Error *err);

#endif
