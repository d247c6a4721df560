/* A run's pictures, made from its record. */
#ifndef SQRTDK_TRAIN_PICTURES_H
#define SQRTDK_TRAIN_PICTURES_H

#include "data/corpus.h"
#include "train/record.h"

/* The fixed text of a run's pictures, in ids and in code points, at most T characters of it: log.attention_text, or the
   beginning of the validation split. *cut: log.attention_text has more. */
bool picture_text(const Config *config, const Corpus *corpus, size_t T, int32_t ids[PICTURE_TEXT_MAX],
                  uint32_t text[PICTURE_TEXT_MAX], size_t *length, bool *cut, Error *err);

/* DIRECTORY/loss.png: training and validation loss over the steps. */
bool picture_loss(const RunRecord *record, const Config *config, Error *err);

/* DIRECTORY/attention/stepNNNNNN_layerL.png for every layer of a look: its heads side by side. */
bool picture_attention(const RunRecord *record, const Config *config, const Look *look, Error *err);

/* What a head does, for a panel's label: "head 0: entropy 0.93, score std 1.01". */
void picture_head_label(const RunRecord *record, const Look *look, size_t layer, size_t head, char *out,
                        size_t capacity);

#endif
