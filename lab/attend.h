/* The attention of a trained model on any text, or the last attention that its run has logged: as a picture, a file
   of numbers, CSV, or in the terminal. Each form is made from a Snapshot. */
#pragma once

#include "base/command.h"
#include "run/run.h"
#include "run/snapshot.h"

/* Returns the attention of the last checkpoint's model on a UTF-8 text. A text that is longer than the context or a
   snapshot is cut, with a note. */
Snapshot attend_to_text(Run *run, const char *text, size_t size, size_t threads, Progress *progress);
/* Returns the last attention that the run has logged. */
Snapshot attend_to_log(const Run *run);

/* Two figures of attention.csv, for one head of a snapshot: means over its rows with at least two keys, where a sink
   counts as a key. They are NaN without such a row. */
typedef struct {
    double entropy;    /* mean of H(row) / ln(keys): 1 is uniform, 0 one-hot */
    double max_weight; /* mean of a row's largest weight */
} SnapshotStatistics;
SnapshotStatistics snapshot_statistics(const Snapshot *snapshot, size_t layer, size_t head);

/* Writes CSV with the columns layer,head,query,key,query_char,key_char,score,weight: a row for each visible key of
   each query. */
void attend_write_csv(const Snapshot *snapshot, Range layers, Range heads, FILE *out);
