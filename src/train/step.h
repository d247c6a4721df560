/* One step of training without what surrounds it: what the loop does, and what the benchmark times. */
#ifndef SQRTDK_TRAIN_STEP_H
#define SQRTDK_TRAIN_STEP_H

#include "data/corpus.h"
#include "model/transformer.h"

/* Gradients of the model over the step's train.accumulate batches, into model->gradients; returns their mean loss. With
   `batch_seconds`, adds to it how long the making of batches took. tokens, targets: (batch, context). */
double step_gradients(Model *model, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, double *batch_seconds);

#endif
