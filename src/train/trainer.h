/* One training run, from a config to a directory of results. */
#pragma once

#include "base/command.h"
#include "run/run.h"

typedef struct {
    size_t threads;           /* train_resume: 0 means as many as the run had; a sweep: of all runs together */
    const char *out;          /* --out; NULL: log.out, or log.out with the next free number */
    bool force;               /* move a run that is there (base/results.h) */
    const char *command_line; /* for run.json */
    Progress *progress;
    size_t jobs; /* a sweep: how many runs to train at a time; 0: as many as there are threads and memory for */
    /* Writes the page of the results in a directory when they are complete; NULL: none is written. */
    void (*report)(const Directory *directory);
    /* A sweep: writes the first sentence about its results; NULL: none is written. */
    void (*why)(const char *directory, FILE *out);
    const char *program; /* a sweep: the program that trains a run; NULL: the one that runs */
} TrainOptions;          /* of one run, or of a sweep's runs */
TrainOptions train_options(const Command *command);

/* The outcome of a run: its directory, how many steps it made and what ended it. */
typedef struct {
    char directory[RESULTS_PATH];
    RunState state;
    int signal;        /* the signal that ended it early, or 0 */
    bool had_finished; /* train_resume: there was nothing left to train */
} TrainOutcome;

/* Trains, and writes the run directory. Nothing is written before config, corpus, memory and directory are known to be
   good. A signal (interrupt_catch) ends it after the current step with everything saved. A loss or gradient that is NaN
   or infinite is an error of status STATUS_DIVERGED. After an error too, run.json says how the run ended. */
TrainOutcome train_run(const Config *config, const TrainOptions *options);

/* Continues the run in `directory` from its last checkpoint, to the same bits as if it had never stopped, given the
   same number of threads and the same kernels. `overrides` may set train.steps ("train.steps=2000"), nothing else. If
   the run has already finished, only its pictures and its page are made again, from its files. A directory
   whose config, text, vocabulary or logs are not those of the checkpoint, or in which another process trains, is
   refused, and the difference named. Ends like train_run. */
TrainOutcome train_resume(const char *directory, const char *const *overrides, size_t override_count,
                          const TrainOptions *options);

/* Raises the error with which train_run would refuse to start. Writes no file. Returns the bytes of memory that
   train_run would take (training_memory). What it would train goes to `out`, unless NULL: corpus, model, memory and
   machine, as comments of a config. */
size_t train_check(const Config *config, const TrainOptions *options, FILE *out);

/* The verb that trains (command.c). The verb `resume`, in sweep/command.c, calls resume_run for a run. */
extern const Verb train_verb;
int resume_run(const Command *command);
