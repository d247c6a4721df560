/* The attention on a run's fixed text at one step, as a file: attention/stepNNNNNN.safetensors, with the tensors
   `scores`, `weights`, `multiplier` and `sink`. Heatmaps and report.html are made from these files, so any of them can
   be made again. */
#pragma once

#include "base/directory.h"
#include "model/measure.h"

enum { SNAPSHOT_TEXT_MAX = 48 }; /* characters of the text: a heatmap with more would not be readable */

typedef struct {
    size_t step, L, H, T;
    uint32_t text[SNAPSHOT_TEXT_MAX]; /* (T) code points, none of them 0 */
    AttentionSnapshot attention;
} Snapshot;

/* Allocates a snapshot of a model with L layers of H heads on a text of T characters, 1 to SNAPSHOT_TEXT_MAX. Free
   with snapshot_free, also after a failure. */
bool snapshot_make(Snapshot *snapshot, size_t L, size_t H, const uint32_t *text /* (T) */, size_t T, Error *err);
void snapshot_free(Snapshot *snapshot);

/* Writes the snapshot into a run's directory, first under another name, and then renames it. */
bool snapshot_save(const Snapshot *snapshot, const Directory *directory, Error *err);

/* snapshot_save under any name. */
bool snapshot_write(const Snapshot *snapshot, const Directory *directory, const char *name, Error *err);

/* Reads the snapshot of `step`. Its layers and heads must be the config's, its step that of its name, and its text as
   long as the tensors say; if not, fails with status STATUS_USAGE and names the file. Makes the snapshot; free it with
   snapshot_free, also after a failure. */
bool snapshot_load(Snapshot *snapshot, const char *directory, const Config *config, size_t step, Error *err);

static inline float *snapshot_weights(const Snapshot *s, size_t layer, size_t head) {
    return s->attention.weights + (layer * s->H + head) * s->T * s->T;
}
