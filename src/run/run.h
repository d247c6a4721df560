/* A run: one training in one directory. Here are the directory as it is made and opened (its config, vocabulary and
   text, and the lock that keeps other processes out) and run.json, which says what the run is, when it was resumed and
   how it ended; docs/formats.md lists its entries. What the run measured is in its logs (run/logs.h). */
#pragma once

#include "base/files.h"
#include "base/results.h"
#include "data/corpus.h"
#include "model/transformer.h"
#include "ngrams/ngrams.h"
#include "run/logs.h"
#include "show/progress.h"

typedef struct {
    char directory[RESULTS_PATH]; /* "" until it is made or opened */
    Config config;                /* its name is that of the config the run was started with */
    Corpus corpus;                /* once loaded */
    double ngrams[NGRAM_ORDERS];  /* losses of n-gram tables, once run_count_ngrams has computed them */
    ResultsDirectory results;     /* the lock, and for a new run what --force has moved */
    Json *description;            /* run.json, once it is written or read */

    /* What is known of an opened run, which was trained before. */
    Vocabulary vocabulary; /* vocab.json; a new run has its corpus's */
    size_t threads;        /* 1 where run.json does not say */
    bool finished;         /* run.json says so */
    size_t step;           /* of the checkpoint that run_load_model has read */
} Run;                     /* large: keep it off small stacks */

/* How far a run is. */
typedef struct {
    size_t step;                 /* updates so far */
    double seconds;              /* spent on them */
    double train_loss, val_loss; /* the last ones in metrics.csv; NaN: none yet */
    double best_val_loss;        /* as metrics.csv has it; INFINITY before the first evaluation */
    size_t best_step;
    size_t log_size[LOG_COUNT]; /* bytes of the logs before anything is measured at `step` */
} RunState;

/* Computes what n-gram tables lose on the validation split of the run's text, which is loaded; for recall, which has no
   text, it does nothing. run_begin writes it to run.json. */
bool run_count_ngrams(Run *run, Error *err);
/* Makes the directory of a new run (see results_make) with config.ini, vocab.json and checkpoint/. The run must have
   its config and its text. */
bool run_create(Run *run, const char *out, bool force, Error *err);
/* Writes run.json, with result "running". Call it when the logs have their headers and there is a checkpoint, so that a
   directory with run.json can be resumed. */
bool run_begin(Run *run, const Model *model, const char *command_line, Error *err);

/* Opens the directory of a run that is there, with `overrides` ("section.key=value") for its config; `exclusive` keeps
   other processes out until run_close. What is wrong with it, a process that trains there, and the directory of a sweep
   are errors of status STATUS_USAGE. Loads neither the text nor the parameters. Close with run_close, also after a
   failure. */
bool run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive, Error *err);
/* Loads the text of an opened run, which must be the one it was trained on: its fingerprint is in run.json. */
bool run_load_corpus(Run *run, Error *err);
/* Makes the model of an opened run, without gradients, for up to `max_batch` sequences at a time (0: the run's own
   batch), with the parameters of its last checkpoint. Refused (STATUS_USAGE) where checkpoint_load refuses it. Free
   with model_free, also after a failure. */
bool run_load_model(Run *run, Model *model, size_t max_batch, size_t threads, Error *err);
void run_close(Run *run);

/* "directory/name" */
bool run_path(const Run *run, char path[4096], const char *name, Error *err);

/* The run is resumed at `step`: writes config.ini as it is now, and in run.json adds an entry to `resumed`, sets the
   result back to "running" and removes the entries about how it ended before. Says so to `progress`, and where bits
   will not repeat because threads or kernels are not what they were. */
bool run_resumed(const Run *run, const Model *model, size_t step, const char *command, Progress *progress, Error *err);
/* The run has ended, early where `signal` is not 0, or failed where there is a `failure`: run.json says so. */
bool run_ended(const Run *run, const RunState *state, int signal, const Error *failure, Error *err);

/* Loads the text a config names, with that vocabulary or, where it is NULL, with the text's own. Fails as corpus_load
   does; the caller frees with corpus_free, also after a failure. */
bool config_corpus(Corpus *corpus, const Config *config, const Vocabulary *vocabulary, Error *err);
/* Whether a text, of `path`, is the one that the run or sweep of `directory`, which has this run.json, was trained on:
   an error of status STATUS_USAGE when it is not. */
bool description_check_corpus(const Json *d, const char *directory, const char *path, const Corpus *text, Error *err);
/* Whether the logs of a finished or diverged run are unchanged, by their hash in run.json. If not, fails with status
   STATUS_USAGE and names the log. */
bool run_check_logs(const char *directory, Error *err);
