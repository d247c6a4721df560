/* Checkpoints of a run, none of which can be lost by a kill, a full disk or an error of the file system.

     RUN/checkpoint/a/, b/       two slots: model.safetensors, optimizer.safetensors, state.json
     RUN/checkpoint/current      a symbolic link to "a" or "b": which slot is the checkpoint. Nothing else decides that.
     RUN/checkpoint/model.safetensors, optimizer.safetensors, state.json
                                 symbolic links to current/..., for readers; made before `current`, never changed
     RUN/checkpoint/best.safetensors     by itself (checkpoint_save_best)

   Saving fills the slot that `current` does not name, then replaces `current` by one rename, then removes the other
   slot. So a program that is killed leaves one of these states, and each has one meaning:

     current      slots                          what is loaded
     none         none, or `a` in any state      nothing: it was stopped before its first checkpoint
     a            a whole, b none                a
     a            a whole, b in any state        a (killed while b was filled, or before it was removed)
     b            the same with b and a exchanged

   current.new may be there in any of them: a `current` that had not taken its place yet, or did not. The next save
   replaces it, as it does what is in the slot that it fills. Loading changes nothing on disk. */
#pragma once

#include "train/optimizer.h"
#include "train/run.h"

/* Into RUN/checkpoint/, which must be there. On failure (STATUS_FAILED) a checkpoint that was there is still the one
   that is loaded, unless the new one had already taken its place. */
bool checkpoint_save(const Run *run, const Model *model, const Optimizer *optimizer, const RunState *state, Error *err);

/* The parameters, which have the lowest validation loss so far, at `step`. After a kill they may be of a later step
   than the checkpoint, until the resumed run comes there again. */
bool checkpoint_save_best(const Run *run, const Model *model, size_t step, Error *err);

/* Fills the model's parameters, sets its divisor to that of the checkpoint's step, and fills the optimizer's moments
   unless `optimizer` is NULL, and *state but for the last losses, which are in the logs. False in *found when the run
   was stopped before its first checkpoint. Errors about what is in the files have status STATUS_USAGE: another format,
   another type of numbers, files of different steps, and any key that decides what is computed or measured and that the
   config now sets differently; each names the difference. What cannot be read is an error, not an absent checkpoint. */
bool checkpoint_load(const Run *run, Model *model, Optimizer *optimizer, RunState *state, bool *found, Error *err);

/* Whether the run in `directory` has a checkpoint, by the same rules, without reading it. */
bool checkpoint_exists(const char *directory, bool *exists, Error *err);
