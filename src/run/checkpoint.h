/* A checkpoint is one file, RUN/checkpoint/last.safetensors. It has the parameters under their own names, the moments
   as `exp_avg.NAME` and `exp_avg_sq.NAME` (AdamW) or `momentum_buffer.NAME` (SGD, and Muon for its matrices), and in
   its metadata the state of the run as JSON (docs/formats.md). It is written under a new name, flushed to disk and
   renamed, so a kill, a full disk or a failing call leaves the old checkpoint or the new one, whole. run.json is
   written after the first checkpoint, so a directory with run.json always has a checkpoint.
   RUN/checkpoint/best.safetensors has only the parameters, the step and the config. A run cannot be resumed from it. */
#pragma once

#include "run/run.h"

typedef enum { CHECKPOINT_LAST, CHECKPOINT_BEST } Checkpoint;
extern const char *const CHECKPOINT_NAMES[]; /* "checkpoint/last.safetensors" */

/* Points to the moments of an optimizer, flat as the parameters; NULL: it has none. A velocity is a first moment. */
typedef struct {
    real *first, *second;
} Moments;

/* Writes a checkpoint into RUN/checkpoint/, which must exist. The logs must be on disk (logs_sync), since the state has
   their sizes. CHECKPOINT_BEST has the parameters with the lowest validation loss so far; of moments and state, it
   needs only the step. After a kill it may be of a later step than CHECKPOINT_LAST, until the resumed run reaches that
   step again. Before CHECKPOINT_LAST is written, the parameters of all processes that train the run are compared: a
   checkpoint of copies that differ must not replace a good one. checkpoint_write writes the same to a stream, which the
   caller checks. */
void checkpoint_save(const Run *run, Checkpoint which, const Model *model, Moments moments, const RunState *state);
void checkpoint_write(FILE *out, const Config *config, Checkpoint which, const Model *model, Moments moments,
                      const RunState *state);

/* Fills the model's parameters and the moments that are not NULL, and sets the model's divisor for the checkpoint's
   step. Returns what the checkpoint holds: step, seconds and sizes of the logs. Refuses whatever is not as
   checkpoint_save wrote it for this config, and names it: an entry of the state, a key of the config, a tensor's name,
   type or shape, a NaN or an infinity. */
RunState checkpoint_load(const Run *run, Checkpoint which, Model *model, Moments moments);
