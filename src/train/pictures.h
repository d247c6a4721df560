/* A run's pictures, made from its record. */
#ifndef SQRTDK_TRAIN_PICTURES_H
#define SQRTDK_TRAIN_PICTURES_H

#include "train/record.h"

/* DIRECTORY/loss.png: training and validation loss over the steps. */
bool picture_loss(const RunRecord *record, const Config *config, Error *err);

/* DIRECTORY/attention/stepNNNNNN_layerL.png for every layer of a look: its heads side by side. */
bool picture_attention(const RunRecord *record, const Config *config, const Look *look, Error *err);

/* What a head does, for a panel's label: "head 0: entropy 0.93, score std 1.01". */
void picture_head_label(const RunRecord *record, const Look *look, size_t layer, size_t head, char *out,
                        size_t capacity);

#endif
