/* A run: one training in one directory. This header has the directory as it is made and opened (its config, vocabulary
   and text, and the lock that excludes other processes), and run.json. That file says what the run is, when it was
   resumed and how it ended; docs/formats.md lists its entries. What the run measured is in its logs (run/logs.h). */
#pragma once

#include "base/files.h"
#include "base/results.h"
#include "data/corpus.h"
#include "data/ngrams.h"
#include "model/transformer.h"
#include "run/logs.h"
#include "show/progress.h"

typedef struct {
    char directory[RESULTS_PATH]; /* "" until it is made or opened */
    Config config;                /* as it was when the run was started, name included */
    Corpus corpus;                /* once loaded */
    double ngrams[NGRAM_ORDERS];  /* losses of n-gram tables, once run_count_ngrams has computed them */
    const Directory *locked;   /* the directory to write; NULL if the run is only read, or another process writes it */
    ResultsDirectory *results; /* of a new run; NULL for one that was opened */
    Json *description;         /* run.json, once it is written or read */

    /* Of an opened run, which was trained before: */
    Vocabulary vocabulary; /* from vocab.json; a new run uses its corpus's */
    size_t threads;        /* from run.json; 1 if it names none */
    bool finished;         /* as run.json says */
    size_t step;           /* the step of the checkpoint that run_load_model has read */
} Run;                     /* too large for small stacks */

/* The progress of a run. */
typedef struct {
    size_t step;                 /* updates so far */
    double seconds;              /* spent on them */
    double train_loss, val_loss; /* the last ones in metrics.csv; NaN if there are none yet */
    double best_val_loss;        /* as metrics.csv has it; INFINITY before the first evaluation */
    size_t best_step;
    size_t log_size[LOG_COUNT]; /* bytes of the logs before anything is measured at `step` */
} RunState;

/* Computes the losses of n-gram tables on the validation split of the run's text, which must be loaded. For recall,
   which has no text, it does nothing. run_begin writes the losses to run.json. */
void run_count_ngrams(Run *run);
/* Reads these losses from run.json of a directory; all are NaN if it has none, as for recall. */
void run_ngram_losses(const char *directory, double losses[NGRAM_ORDERS]);
/* Makes the directory of a new run (see results_make) with config.ini, vocab.json, checkpoint/ and attention/. The run
   must have its config and its text. If several processes train the run (ranks/ranks.h), only the first makes and
   writes the directory. On other ranks `locked` is NULL and every writer does nothing. */
void run_make_directory(Run *run, const char *out, bool force);
/* Writes run.json, with result "running", and a line to `progress`. Call it when the logs have their headers and there
   is a checkpoint, so that a directory with run.json can be resumed. */
void run_begin(Run *run, const Model *model, const char *command_line, Progress *progress);
/* run_describe makes run->description, the entries of run.json at the start of a run. run_describe_end adds the
   entries of its end. error NULL: none. */
void run_describe(Run *run, const Model *model, const char *command_line);
void run_describe_end(const Run *run, const RunState *state, const char *result, const char *error);

/* Opens the directory of an existing run, with `overrides` ("section.key=value") for its config. `exclusive` excludes
   other processes until the run is released. Refuses the directory of a sweep. Loads neither the vocabulary nor the
   text nor the parameters. */
void run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive);
/* Loads the vocabulary of an opened run, unless it is loaded. */
void run_load_vocabulary(Run *run);
/* Loads the vocabulary of an opened run, and its text, whose fingerprint must be the one in run.json. */
void run_load_corpus(Run *run);
/* Loads the vocabulary of an opened run and makes its model, without gradients, for up to `max_batch` sequences at a
   time (0: train.batch), with the parameters of its last checkpoint. */
void run_load_model(Run *run, Model *model, size_t max_batch, size_t threads);

/* run_compare checks that all processes that train the run have the same version, kernels, config and text, and the
   same parameters at `step`. run_compare_parameters compares the parameters alone. */
void run_compare(const Run *run, const Model *model, size_t step);
void run_compare_parameters(const Model *model, size_t step);

/* Notes that the run is resumed at `step`. Writes config.ini as it is now; in run.json adds an entry to `resumed`,
   sets the result back to "running" and removes the entries about its former end. Writes this to `progress`, with a
   note if bits will not repeat because threads or kernels differ from before. */
void run_resumed(const Run *run, const Model *model, size_t step, const char *command, Progress *progress);
/* Writes to run.json how the run has ended: early if `signal` is not 0, with an error if `failure` is one. */
void run_ended(const Run *run, const RunState *state, int signal, Error failure);

/* Loads the text that a config names, with `vocabulary` or, if that is NULL, with the vocabulary of the text. */
Corpus config_corpus(const Config *config, const Vocabulary *vocabulary);
/* Writes a config as a file. */
void config_save(const Config *config, const Directory *directory, const char *name);
/* Reads config.ini of the run or sweep in `directory`, whose run.json is `d`. A key that this version does not have is
   refused, as in every config. If another version wrote the file, an error names that version. */
void description_config(const Json *d, const char *directory, Config *config, const SweepReader *sweep,
                        const char *const *overrides, size_t count);
/* Adds an entry about this process to `resumed` of a run's or a sweep's run.json `d`, and returns it. */
Json *description_resumed(Json *d, const char *command_line);
/* Checks that a run or a sweep was trained on `text`, read from `path`; d is the run.json of `directory`. */
void description_check_corpus(const Json *d, const char *directory, const char *path, const Corpus *text);
/* Checks that the logs of a finished or diverged run are unchanged, by their hash in run.json. */
void run_check_logs(const char *directory);
