/* The passes of training and of the validation loss, by the engine that train.engine names: the fast one
   (model/transformer.h) or the plain one (plain/plain.h). Both work on the parameters, gradients and losses of one
   model, so optimizer and checkpoints do not depend on the engine; sampling and everything that shows attention uses
   the fast one. Then the two halves of a training step, its gradients and its update, as everything that trains calls
   them. Shards, slices and passes are defined in model/transformer.h and ranks/shards.h. By default a shard is half of
   a batch. */
#pragma once

#include "data/corpus.h"
#include "model/transformer.h"
#include "plain/plain.h"
#include "ranks/shards.h"
#include "train/optimizer.h"

typedef struct {
    Model *model; /* belongs to the caller */
    EngineKind kind;
    Plain plain;               /* for ENGINE_PLAIN; else empty */
    Shards shards;             /* the shards of a step, and the sum of their gradients */
    int32_t *tokens, *targets; /* (max_batch, T): for training, evaluation or sampling, whichever is in progress */
} Engine;

/* Makes an engine for the model's batches and threads. `model` must have been made and must outlive it. */
void engine_make(Engine *engine, EngineKind kind, size_t shards, Model *model);

/* Makes a pass by the engine: model_pass or plain_pass. */
double engine_pass(Engine *engine, const Batch *batch, const Pass *pass);

/* Computes the gradients over the step's train.accumulate batches, into model->gradients, which may be an array of the
   engine's shards from then on. Returns the batches' mean loss. */
double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step);
/* Makes update number `step` (from 0) of the parameters from model->gradients, whose norm is `norm`. Then clips
   queries and keys if train.qk_clip is set. */
void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step);

/* Returns whether something that is done every `every` steps is due at `step`. 0: never; EVERY_DOUBLING: at 0 and at
   powers of two. */
bool step_is_due(size_t step, size_t every);
