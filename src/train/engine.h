/* The passes of training and of the validation loss, by the engine that train.engine names: the fast one
   (model/transformer.h) or the plain one (plain/plain.h). Both work on the parameters, gradients and losses of one
   model, so optimizer and checkpoints do not depend on the engine; sampling and everything that shows attention uses
   the fast one. */
#pragma once

#include "model/transformer.h"
#include "plain/plain.h"
#include "ranks/shards.h"

typedef struct {
    Model *model; /* the caller's */
    EngineKind kind;
    Plain plain;     /* of ENGINE_PLAIN */
    Shards shards;   /* by which the passes of a step are made; shards_end adds up the gradients */
    real *gradients; /* the model's own array, while model->gradients is one of the shards' */
} Engine;

/* For batches and threads as the model has them; `model` must have been made and must outlive it. Fails when memory is
   missing, and as shards_make does. Free with engine_free, also after a failure. */
bool engine_make(Engine *engine, EngineKind kind, size_t shards, Model *model, Error *err);
void engine_free(Engine *engine);

/* model_pass by the engine. The plain one has no dropout and keeps no keys and values: it ignores `training` and must
   not get `cached`. */
double engine_pass(Engine *engine, const Batch *batch, const Pass *pass);
