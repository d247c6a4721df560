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
    Plain plain;     /* for ENGINE_PLAIN; else empty */
    Shards shards;   /* the parts into which a step's passes are split; shards_end adds up their gradients */
    real *gradients; /* the model's own array: model->gradients may be one of the shards' */
} Engine;

/* Makes an engine for the model's batches and threads. `model` must have been made and must outlive it. Fails without
   memory, and as shards_make does. Free with engine_free, also after a failure. */
bool engine_make(Engine *engine, EngineKind kind, size_t shards, Model *model, Error *err);
void engine_free(Engine *engine);

/* model_pass by the engine. The plain one has no dropout and keeps no keys and values: it ignores `training` and must
   not get `cached`. */
double engine_pass(Engine *engine, const Batch *batch, const Pass *pass);
