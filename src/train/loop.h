/* The training loop, and everything one run holds while it lasts. */
#pragma once

#include "train/checkpoint.h"
#include "train/snapshot.h"

/* Arrays are made before the first step; the loop allocates only for pictures, snapshots' files and checkpoints. */
typedef struct {
    Run run;
    RunState state;
    double start; /* when the run began, had it never been stopped */
    Progress *progress;
    Model model;
    Optimizer optimizer;
    Logs logs;
    Arena arena;               /* of the arrays below */
    int32_t *tokens, *targets; /* (batch, T): of training, evaluation or sampling, whichever is in progress */

    /* What attention is measured on: a fixed validation batch and a fixed text. */
    int32_t *probe_tokens, *probe_targets; /* (probe_batch, T) */
    size_t probe_batch;
    double *probe_scratch;         /* probe_gradients_scratch */
    HeadStatistics *heads;         /* (L, H) */
    GradientStatistics *gradients; /* (L, H) */
    int32_t text[SNAPSHOT_TEXT_MAX];
    Error text_note; /* about the text, or empty */
    Snapshot snapshot;

    double val_loss, val_accuracy; /* at this step, if it was measured */
    bool cut_short;                /* a signal came during the last validation or sample */
    int signal;                    /* that ended the run early, or 0 */
} Trainer;

static inline size_t batch_size(const Trainer *t) { return (size_t)t->run.config.train.batch; }

/* From trainer->state.step to the last step, or to a signal; ends with a checkpoint. Step s is measured, then followed
   by update s + 1; the last step is measured only. */
bool loop_run(Trainer *trainer, Error *err);

/* One step without what surrounds it, as the benchmark times it: gradients of the model over the step's
   train.accumulate batches, into model->gradients; returns their mean loss. With `batch_seconds`, adds to it how long
   the making of batches took. tokens, targets: (batch, context). */
double step_gradients(Model *model, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, double *batch_seconds);
/* Then the update of the parameters, number `step`, from these gradients and their norm, and QK-clip. */
void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step);
