/* One training run, from a config or a directory to its results. train.c has the loop, which calls these functions. */
#pragma once

#include "base/command.h"
#include "run/checkpoint.h"
#include "run/pictures.h"
#include "run/snapshot.h"
#include "train/evaluate.h"

typedef struct {
    size_t threads;           /* trainer_resume: 0 means as many as the run had */
    const char *out;          /* --out; NULL: log.out, or log.out with the next free number */
    bool force;               /* move an existing run (base/results.h) */
    const char *command_line; /* for run.json */
    Progress *progress;
    void (*page)(const Directory *directory); /* writes the page of a run; NULL: it has none */
} TrainOptions;
TrainOptions train_options(const Command *command, void (*page)(const Directory *directory));

/* A run while it is trained. Its arrays are made before the first step. Memory that a step makes, for pictures,
   snapshots' files and checkpoints, is released at the step's end. */
typedef struct {
    const TrainOptions *options;
    Run run;
    RunState state;
    double start;     /* when the run began (omp_get_wtime), as if it had never been stopped */
    double next_page; /* before this time trainer_show does nothing */
    Model model;
    Engine engine; /* of the model */
    Optimizer optimizer;
    Logs *logs;

    /* Attention is measured on a fixed validation batch and a fixed text. */
    double *measure_scratch;       /* measure_gradients_scratch */
    HeadStatistics *heads;         /* (L, H) */
    GradientStatistics *gradients; /* (L, H) */
    PictureText text;
    Snapshot snapshot;

    double loss, norm;   /* of this step: the training loss, and the norm of its gradients */
    double val_loss;     /* of this step, or NaN */
    double val_accuracy; /* of the last evaluation; NaN if there was none, and for a text */
    int signal;          /* that ends the run early, or 0 */
    bool had_finished;   /* before it was resumed */
    Error failure;       /* the error that ended the loop; STATUS_OK: none */
} Trainer;

/* Makes a new run: reads its text, makes and initializes its arrays, counts n-grams, makes and locks its directory, and
   starts the logs. Then writes the first checkpoint and run.json, and prints the summary. Writes nothing before config,
   text, memory and directory are known to be good. */
Trainer *trainer_start(const Config *config, const TrainOptions *options);

/* Makes everything of a run except its directory and logs, as trainer_start does. Config, text and options must be
   set. */
void trainer_make_arrays(Trainer *trainer);

/* Opens the run in `directory` at its last checkpoint. When it is trained further, it has the same bits as a run that
   never stopped, given the same number of threads and the same kernels. `overrides` may set only train.steps
   ("train.steps=2000"). If the run has already finished, makes its pictures and its page again, from its files, and
   sets had_finished. Refuses a directory whose config, text, vocabulary or logs do not match the checkpoint, and one in
   which another process trains. */
Trainer *trainer_resume(const char *directory, const char *const *overrides, size_t override_count,
                        const TrainOptions *options);
/* Resumes the run in options->out, which must have been started with this config, read from the file `path`. Starts it
   if there is none. */
Trainer *trainer_start_or_resume(const Config *config, const char *path, const TrainOptions *options);

/* The parts of the loop. Each works on the step trainer->state.step.

   trainer_begin cuts the logs back to the sizes in the checkpoint. trainer_evaluate computes the validation loss,
   saves the best parameters so far and writes a sample; a signal that cuts this short is stored in trainer->signal.
   trainer_measure writes the statistics and pictures of attention. trainer_log checks that loss and gradients are
   finite, writes the row of metrics.csv at each evaluation and every log.every steps, and shows the step in the
   terminal. trainer_show draws the loss curves and writes the page of the run so far, unless that would take more than
   a twentieth of the time. trainer_save writes a checkpoint. */
void trainer_begin(Trainer *trainer);
void trainer_evaluate(Trainer *trainer);
void trainer_measure(Trainer *trainer);
void trainer_log(Trainer *trainer);
void trainer_show(Trainer *trainer);
void trainer_save(Trainer *trainer);

/* Draws the loss curves, and writes to run.json and the page how the run ended, even if an error ended the loop
   (trainer->failure). Tries each of these, and then raises the first error. */
void trainer_end(Trainer *trainer);

/* Raises the error with which trainer_start would refuse to start. Writes no file. Returns the bytes of memory that
   training would need (training_memory). Writes a summary to `out`, unless NULL: corpus, model, memory and machine, as
   comments of a config. */
size_t trainer_check(const Config *config, const TrainOptions *options, FILE *out);

/* --- verbs.c: the verbs that read a trained model; train.c has those that train one. */

extern const Verb eval_verb, sample_verb;

/* --- summary.c */

/* Returns the bytes that training needs: the arenas of model, engine and optimizer, and the buffers into which threads
   pack matrices. */
size_t training_memory(const Engine *engine, const Optimizer *optimizer);
/* Checks that the machine has this much memory. Call it before the arenas are written to: the system gives their pages
   only then. */
void training_memory_check(size_t bytes);

/* Returns the tokens of one step of training. */
size_t tokens_per_step(const Config *config);

/* Prints corpus, n-gram tables, model, divisor and multiplier, training, memory, machine, and the note about the
   pictures, in lines that begin with `mark`. The scores' measured deviation is printed unless `measured_std` is NaN. */
void print_summary(Progress *to, const char *mark, const Trainer *trainer, double measured_std);

/* Prints to standard output how a run ended, and the path of its results. */
void print_outcome(const Trainer *trainer);
