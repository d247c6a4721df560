/* A run's pictures, drawn from what is in its directory: the logs and the snapshots of its attention. They can be drawn
   again at any time, to the same bytes. */
#pragma once

#include "run/run.h"
#include "run/snapshot.h"
#include "show/heatmap.h"

/* The fixed text of a run's heatmaps. */
typedef struct {
    int32_t ids[SNAPSHOT_TEXT_MAX];
    uint32_t characters[SNAPSHOT_TEXT_MAX]; /* code points */
    size_t length;
    char note[512]; /* says why this is not the text that was asked for; else empty */
} PictureText;
/* Makes the text, of at most T characters: log.attention_text or, if that is empty, longer than SNAPSHOT_TEXT_MAX or
   has a character that the corpus lacks, the beginning of the validation split. */
PictureText picture_text(const Config *config, const Corpus *corpus, size_t T);

/* Draws DIRECTORY/loss.png: training and validation loss over the steps, from metrics.csv. */
void picture_loss(const Run *run);

/* Returns heads of a snapshot as one figure, which points into the snapshot. The caller sets its titles and writes the
   labels, which are empty. */
AttentionFigure heads_figure(const Snapshot *snapshot, Range layers, Range heads);

/* Draws DIRECTORY/attention/stepNNNNNN_layerL.png for every layer of every step in attention.csv from step `from` on,
   with the heads side by side. A picture is made from the snapshot of its step and the step's rows in attention.csv;
   both must exist. If the run is not written here (Run.locked), it does nothing. */
void picture_attention(const Run *run, size_t from);
