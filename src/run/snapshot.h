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

/* Makes a snapshot of a model with L layers of H heads on a text of T characters, 1 to SNAPSHOT_TEXT_MAX. */
Snapshot snapshot_make(size_t L, size_t H, const uint32_t *text /* (T) */, size_t T);

/* Writes the snapshot into a run's directory, first under another name, and then renames it. Without a directory (NULL)
   it does nothing. */
void snapshot_save(const Snapshot *snapshot, const Directory *directory);

/* snapshot_write is snapshot_save under any name. snapshot_put writes the same to a stream, which the caller checks.
   snapshot_name returns the name of a step's file in a run's directory. */
void snapshot_write(const Snapshot *snapshot, const Directory *directory, const char *name);
void snapshot_put(const Snapshot *snapshot, FILE *out);
void snapshot_name(size_t step, char name[64]);

/* Reads the snapshot of `step`. Its layers and heads must be the config's, its step the one in its name, and its text
   as long as the tensors say. */
Snapshot snapshot_load(const char *directory, const Config *config, size_t step);

static inline float *snapshot_weights(const Snapshot *s, size_t layer, size_t head) {
    return s->attention.weights + (layer * s->H + head) * s->T * s->T;
}
