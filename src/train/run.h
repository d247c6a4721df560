/* A run's directory, opened: its config, vocabulary and text, and the lock that keeps other processes out. Whatever
   reads or continues a run starts here; what it measured is in its logs (train/logs.h). What run.json says is in
   train/description.h. */
#pragma once

#include "base/json.h"
#include "base/results.h"
#include "data/corpus.h"
#include "model/transformer.h"

typedef struct {
    char directory[RESULTS_PATH]; /* "" until it is made or opened */
    Config config;                /* its name is that of the config the run was started with */
    Vocabulary vocabulary;        /* of vocab.json; empty for a new run, whose corpus has one */
    Corpus corpus;                /* once loaded */
    size_t threads;               /* of one that was opened; 1 where run.json does not say */
    bool finished;                /* run.json of one that was opened says so */
    ResultsDirectory made;        /* the directory of a new run, and what it replaces */
    int lock;                     /* held on the directory of one that was opened; -1: none */
} Run;                            /* large: keep it off small stacks */

/* A new run, nothing of which is on disk yet: copies the config and loads its text, which fails as corpus_load does.
   Free with run_close, also after a failure; the same goes for run_open. */
bool run_new(Run *run, const Config *config, Error *err);
/* Makes the directory of a new run (see results_make), locks it, and writes run.json, config.ini and vocab.json.
   Takes `description`, what run.json is to say, over, also on failure. */
bool run_create(Run *run, const char *wanted, bool named, bool force, Json *description, Error *err);

/* Opens the directory of a run that is there, with `overrides` ("section.key=value") for its config; `exclusive` keeps
   other processes out until run_close. Errors about what is in it have status STATUS_USAGE, and so has another process
   that is at it, and a sweep. Loads neither its text nor its parameters. */
bool run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive, Error *err);
/* Loads the text of an opened run, which must be the one it was trained on: its fingerprint is in run.json. */
bool run_load_corpus(Run *run, Error *err);
/* Makes the model of an opened run, without gradients, for up to `max_batch` sequences at a time (0: the run's own
   batch), with the parameters of its last checkpoint. Refused (STATUS_USAGE) where there is none yet, and where
   config.ini is not what it was made with. Free with model_free, also after a failure. */
bool run_load_model(const Run *run, Model *model, size_t max_batch, size_t threads, Error *err);
void run_close(Run *run);

/* run.json; the caller frees, also after a failure. */
bool run_load_description(const Run *run, Json **description, Error *err);
bool run_save_description(const Run *run, const Json *description, Error *err);
/* config.ini as the config is now. */
bool run_write_config(const Run *run, Error *err);
/* "directory/name" */
bool run_path(const Run *run, char path[4096], const char *name, Error *err);

/* Mean loss of the model over the whole validation split of the run's text, which is loaded, and how many characters
   were predicted. A caught signal cuts it short; then *complete is false. */
bool run_evaluate(Run *run, Model *model, double *loss, size_t *characters, bool *complete, Error *err);

/* Loads the text a config names, with that vocabulary or, where it is NULL, with the text's own. Fails as corpus_load
   does; the caller frees with corpus_free, also after a failure. */
bool config_corpus(Corpus *corpus, const Config *config, const Vocabulary *vocabulary, Error *err);
