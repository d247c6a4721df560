/* Checkpoints of a run, none of which can be lost by a kill, a full disk or an error of the file system.

     RUN/checkpoint/a/, b/       two slots: model.safetensors, optimizer.safetensors, state.json
     RUN/checkpoint/current      a symbolic link to "a" or "b": which slot is the checkpoint. Nothing else decides that.
     RUN/checkpoint/model.safetensors, optimizer.safetensors, state.json
                                 symbolic links to current/..., for readers; made before `current`, never changed
     RUN/checkpoint/best.safetensors     by itself

   Saving fills the slot that `current` does not name, then replaces `current` by one rename, then removes the other
   slot. So a program that is killed leaves one of these states, and each has one meaning:

     current      slots                          what is loaded
     none         none, or `a` in any state      nothing: it was stopped before its first checkpoint
     a            a whole, b none                a
     a            a whole, b in any state        a (killed while b was filled, or before it was removed)
     b            the same with b and a exchanged

   current.new may be there in any of them: a `current` that had not taken its place yet, or did not. The next save
   removes it, as it does what is in the slot that it fills. Loading changes nothing on disk. */
#pragma once

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

/* Into RUN/checkpoint/, which must be there. On failure (STATUS_FAILED) a checkpoint that was there is still the one
   that is loaded, unless the new one had already taken its place. */
bool checkpoint_save(const Checkpoint *checkpoint, const RunState *state, Error *err);

/* False in *found when the run was stopped before its first checkpoint. Errors about what is in the files have
   status STATUS_USAGE: another format, another type of numbers, files of different steps, and whatever the
   config now says differently; each names the difference. What cannot be read is an error, never an absent checkpoint.
 */
bool checkpoint_load(const Checkpoint *checkpoint, RunState *state, bool *found, Error *err);

/* Whether a config is what the last checkpoint of `directory` was made with, in every key that decides what is computed
   or measured, by the rules of checkpoint_load: an error of status STATUS_USAGE that names the first that is not, or
   that says that there is no checkpoint yet. */
bool checkpoint_check_config(const char *directory, const Config *config, Error *err);

/* Whether the run in `directory` has a checkpoint, by the same rules, without reading it. */
bool checkpoint_exists(const char *directory, bool *exists, Error *err);
