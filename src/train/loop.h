/* The training loop, and everything one run holds while it lasts. */
#ifndef SQRTDK_TRAIN_LOOP_H
#define SQRTDK_TRAIN_LOOP_H

#include "base/results.h"
#include "data/corpus.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/results.h"
#include "train/sample.h"
#include "train/trainer.h"

/* Arrays are made before the first step; the loop allocates nothing but for pictures and checkpoints. */
typedef struct {
    const Config *config;
    const TrainOptions *options;
    RunRecord *record;
    Corpus corpus;
    Model model;
    Optimizer optimizer;
    Sampler sampler;
    int32_t *tokens, *targets;           /* (batch, T): of training, or of the evaluation in progress */
    int32_t *look_tokens, *look_targets; /* (look_batch, T): the fixed validation batch */
    size_t look_batch;
    double *look_room;              /* gradient_probe_room */
    int32_t text[PICTURE_TEXT_MAX]; /* ids of the fixed text */
    bool text_is_cut;               /* it is longer than the context */
    ResultsDirectory place;         /* of a new run */
    Results results;
    size_t log_size[LOG_COUNT]; /* of the logs before anything was measured at the current step */
    bool cut_short;             /* a signal came during the last validation or sample */
    double start, last_train_loss, last_val_loss;
} Trainer;

static inline size_t batch_size(const Trainer *t) { return (size_t)t->config->train.batch; }

static inline Checkpoint trainer_checkpoint(Trainer *t) {
    return (Checkpoint){t->record->directory, t->config, &t->model, &t->optimizer};
}

/* From step `first` to the last, or to a signal; ends with a checkpoint. Step s is measured, then followed by update
   s + 1; the last step is measured only. */
bool loop_run(Trainer *trainer, size_t first, Error *err);

/* The attention of the parameters as they are, into a look: statistics on the fixed batch, weights on the fixed text.
 */
void loop_look(Trainer *trainer, size_t step, Look *look);

#endif
