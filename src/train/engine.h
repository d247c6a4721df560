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
    Plain plain;   /* for ENGINE_PLAIN; else empty */
    Shards shards; /* those of a step, and the sum of their gradients */
    size_t slice;  /* the most sequences of a shard that a slice has */
} Engine;

/* Makes an engine for the model's batches and threads. `model` must have been made and must outlive it. Raises the
   errors of shards_make. */
void engine_make(Engine *engine, EngineKind kind, size_t shards, Model *model);

/* model_pass or plain_pass. */
double engine_pass(Engine *engine, const Batch *batch, const Pass *pass);

/* engine_pass over shards.at_once shards, from this rank's shard `first` on. With a backward pass, each adds to its own
   gradients and to its sum of losses, which is not finite if a loss was not, even if the pass ended early. Sets the
   division of `pass`. Returns the losses of all positions. */
double engine_pass_shards(Engine *engine, size_t first, const Batch *batch, Pass pass);
/* shards_end. After the last shard, the sum over all of them is in model->gradients, which may be an array of the
   engine's shards from then on. */
double engine_end_shards(Engine *engine, size_t first);
