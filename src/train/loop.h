/* The training loop, and everything one run holds while it lasts. */
#pragma once

#include "run/checkpoint.h"
#include "run/pictures.h"
#include "run/snapshot.h"
#include "train/evaluate.h"
#include "train/optimizer.h"
#include "train/trainer.h"

/* Arrays are made before the first step. What a step makes, for pictures, snapshots' files and checkpoints, is released
   at its end. */
typedef struct {
    const TrainOptions *options;
    Run run;
    RunState state;
    double start; /* when the run began (omp_get_wtime), as if it had never been stopped */
    Model model;
    Engine engine; /* of the model */
    Optimizer optimizer;
    Logs *logs;
    int32_t *tokens, *targets; /* (batch, T): for training, evaluation or sampling, whichever is in progress */

    /* What attention is measured on: a fixed validation batch and a fixed text. */
    int32_t *measured_tokens, *measured_targets; /* (measured_batch, T) */
    size_t measured_batch;
    double *measure_scratch;       /* measure_gradients_scratch */
    HeadStatistics *heads;         /* (L, H) */
    GradientStatistics *gradients; /* (L, H) */
    int32_t text[SNAPSHOT_TEXT_MAX];
    char text_note[PICTURE_NOTE]; /* says why `text` is not log.attention_text; else empty */
    Snapshot snapshot;

    double loss, norm;             /* of this step: the training loss, and the norm of its gradients */
    double val_loss, val_accuracy; /* of this step, or NaN; of the last evaluation, NaN if none or for a text */
    int signal;                    /* that ends the run early, or 0 */
    Error failure;                 /* what ended the loop; STATUS_OK: nothing */
} Trainer;

static inline size_t batch_size(const Trainer *t) { return t->run.config.train.batch; }

/* Saves a checkpoint of the run at trainer->state.step, before anything is measured at that step. */
void loop_save(Trainer *trainer);

/* Trains from trainer->state.step to the last step, or until a signal, which it stores in trainer->signal. It ends with
   a checkpoint. A step is measured before its update; the last step, train.steps, is measured and has no update. */
void loop_run(Trainer *trainer);

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
