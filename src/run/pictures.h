/* A run's pictures, drawn from what is in its directory: the logs and the snapshots of its attention. They can be drawn
   again at any time, to the same bytes. */
#pragma once

#include "run/run.h"
#include "run/snapshot.h"
#include "show/chart.h"
#include "show/heatmap.h"

/* The fixed text of a run's heatmaps. */
typedef struct {
    int32_t ids[SNAPSHOT_TEXT_MAX];
    uint32_t characters[SNAPSHOT_TEXT_MAX]; /* code points */
    size_t length;
    char note[512]; /* says which text that was asked for is shown, or why it is not; else empty */
} PictureText;
/* Makes the text, of at most T characters: log.attention_text. If that is empty, longer than SNAPSHOT_TEXT_MAX or has
   a character that the corpus lacks, the text is the beginning of the validation split. */
PictureText picture_text(const Config *config, const Corpus *corpus, size_t T);

/* Writes the description of a picture's model: "layers 2, heads 2, d_k 64, context 64, init unit, lr 0.003, seed 1". A
   key that differs between the configs is omitted. */
void picture_model(const Config *const *configs, size_t count, char *out, size_t capacity);
/* Returns the validation losses of a run as a curve, which has no label yet. */
Series picture_losses(const char *directory);
/* Makes thin lines of losses to compare with, from step 0 to `last`, and returns their number: for a text the losses of
   n-gram tables, for recall the losses of guessing and of right answers (data/recall.h). */
size_t picture_levels(const Config *config, const double ngrams[NGRAM_ORDERS], double last,
                      Series levels[NGRAM_ORDERS]);

/* Draws DIRECTORY/loss.png: training and validation loss over the steps, from metrics.csv. Its axis of losses runs from
   a whole number to another and has the losses to compare with, so that runs on one text mostly have the same. */
void picture_loss(const Run *run);

/* Returns heads of a snapshot as one figure, which points into the snapshot. The caller sets its titles and writes the
   labels, which are empty. */
AttentionFigure heads_figure(const Snapshot *snapshot, Range layers, Range heads);

/* Draws DIRECTORY/attention/stepNNNNNN_layerL.png for every layer of every step in attention.csv from step `from` on,
   with the heads side by side. A picture is made from the snapshot of its step and the step's rows in attention.csv;
   both must exist. If the run is not written here (Run.locked), it does nothing. */
void picture_attention(const Run *run, size_t from);
