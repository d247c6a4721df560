/* A training step without what surrounds it: for the loop, for bench, and for the comparison with PyTorch. */
#pragma once

#include "data/corpus.h"
#include "train/engine.h"
#include "train/optimizer.h"

/* The time of the parts of step_gradients that are no pass over the model. */
typedef struct {
    double batch, shards; /* drawing the batches; adding up the gradients of the shards */
} StepSeconds;

/* Computes the gradients over the step's train.accumulate batches, into model->gradients. Returns their mean loss. Adds
   to *seconds, unless that is NULL. */
double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step,
                      int32_t *tokens /* (batch,T) */, int32_t *targets /* (batch,T) */, StepSeconds *seconds);
/* Makes update number `step`, from 0, of the parameters, by these gradients and their norm; then QK-clip. */
void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step);

/* Returns whether what comes every `every` steps comes at `step`. 0: never; EVERY_DOUBLING: at 0 and at powers of two.
 */
bool step_is_due(size_t step, size_t every);
