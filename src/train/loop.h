/* The training loop, and everything one run holds while it lasts. */
#pragma once

#include "run/checkpoint.h"
#include "run/snapshot.h"
#include "train/evaluate.h"
#include "train/optimizer.h"

/* Arrays are made before the first step; the loop allocates only for pictures, snapshots' files and checkpoints. */
typedef struct {
    Run run;
    RunState state;
    double start; /* when the run began (omp_get_wtime), as if it had never been stopped */
    Progress *progress;
    Model model;
    Engine engine; /* of the model */
    Optimizer optimizer;
    Logs logs;
    Arena arena;               /* holds the arrays below, except the snapshot's */
    int32_t *tokens, *targets; /* (batch, T): for training, evaluation or sampling, whichever is in progress */

    /* What attention is measured on: a fixed validation batch and a fixed text. */
    int32_t *measured_tokens, *measured_targets; /* (measured_batch, T) */
    size_t measured_batch;
    double *measure_scratch;       /* measure_gradients_scratch */
    HeadStatistics *heads;         /* (L, H) */
    GradientStatistics *gradients; /* (L, H) */
    int32_t text[SNAPSHOT_TEXT_MAX];
    Error text_note; /* says why `text` is not log.attention_text; else empty */
    Snapshot snapshot;

    double val_loss, val_accuracy; /* of this step, or NaN; of the last evaluation, NaN if none or for a text */
    int signal;                    /* that ends the run early, or 0 */
} Trainer;

static inline size_t batch_size(const Trainer *t) { return (size_t)t->run.config.train.batch; }

/* Saves a checkpoint of the run at trainer->state.step, before anything is measured at that step. */
bool loop_save(Trainer *trainer, Error *err);

/* Trains from trainer->state.step to the last step, or until a signal, which it stores in trainer->signal. It ends with
   a checkpoint. A step is measured before its update; the last step, train.steps, is measured and has no update. */
bool loop_run(Trainer *trainer, Error *err);

/* The time of the parts of step_gradients that are no pass over the model. */
typedef struct {
    double batch, shards; /* drawing the batches; adding up the gradients of the shards */
} StepSeconds;

/* The two halves of a step, without what surrounds them, for the benchmark and the comparison with PyTorch as well.
   First the gradients over the step's train.accumulate batches, into model->gradients; returns their mean loss. Adds
   to *seconds, unless that is NULL. */
double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step,
                      int32_t *tokens /* (batch,T) */, int32_t *targets /* (batch,T) */, StepSeconds *seconds);
/* Then update number `step`, from 0, of the parameters, by these gradients and their norm, and QK-clip. */
void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step);
