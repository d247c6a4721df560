/* Checkpoints: model.safetensors, optimizer.safetensors and state.json in a run's checkpoint/, which change together.
   All three are written under new names and synced before the first takes its place, state.json last in both: whenever
   the program is killed, either the old three are there, or the new ones and what is still to be renamed, which
   checkpoint_load then does. best.safetensors goes by itself. */
#ifndef SQRTDK_TRAIN_CHECKPOINT_H
#define SQRTDK_TRAIN_CHECKPOINT_H

#include "model/transformer.h"
#include "train/logs.h"
#include "train/optimizer.h"

/* Where a run stands when nothing has been measured at `step` yet. */
typedef struct {
    size_t step;          /* updates so far */
    double seconds;       /* spent on them */
    double best_val_loss; /* INFINITY before the first evaluation */
    size_t best_step;
    size_t log_size[LOG_COUNT]; /* bytes */
} RunState;

/* What a checkpoint is about. Loading fills the model's parameters and the optimizer's moments. */
typedef struct {
    const char *directory; /* of the run */
    const Config *config;
    Model *model;
    Optimizer *optimizer;
} Checkpoint;

bool checkpoint_save(const Checkpoint *checkpoint, const RunState *state, Error *err);

/* False in *found when the run was stopped before its first checkpoint. Errors about what is in the files have
   status STATUS_USAGE: another format, another type of numbers, files of different steps, and whatever the
   config now says differently; each names the difference. */
bool checkpoint_load(const Checkpoint *checkpoint, RunState *state, bool *found, Error *err);

#endif
