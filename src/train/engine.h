/* The passes of training and of the validation loss, by the engine that train.engine names: the fast one
   (model/transformer.h) or the plain one (plain/plain.h). Both work on the parameters, gradients and losses of one
   model, so optimizer and checkpoints do not depend on the engine; sampling and everything that shows attention uses
   the fast one. */
#pragma once

#include "model/transformer.h"
#include "plain/plain.h"

typedef struct {
    Model *model; /* the caller's */
    EngineKind kind;
    Plain plain; /* of ENGINE_PLAIN */
} Engine;

/* For batches and threads as the model has them; `model` must have been made and must outlive it. Fails when memory is
   missing. Free with engine_free, also after a failure. */
bool engine_make(Engine *engine, EngineKind kind, Model *model, Error *err);
void engine_free(Engine *engine);

/* A forward pass without dropout, over a batch with targets: fills model->losses and model->right, and returns the sum
   of the losses (model_forward). */
double engine_forward(Engine *engine, const Batch *batch);
/* A forward pass with dropout drawn for (seed, micro_step); returns the sum of the losses (model_training_forward). The
   plain engine has no dropout and ignores the two. */
double engine_training_forward(Engine *engine, const Batch *batch, uint64_t seed, uint64_t micro_step);
/* A forward pass with dropout, and a backward pass that adds to model->gradients or, with `zero_gradients`, sets them;
   returns the sum of the losses (model_forward_backward). */
double engine_forward_backward(Engine *engine, const Batch *batch, uint64_t seed, uint64_t micro_step,
                               double batch_weight, bool zero_gradients);
