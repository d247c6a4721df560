/* The validation loss, over the same windows every time. */
#pragma once

#include "data/corpus.h"
#include "train/engine.h"

typedef struct {
    double loss;     /* mean over `targets`, in nats */
    double accuracy; /* the part of the targets whose logit is the largest; NaN for a text */
    size_t targets;  /* how many counted */
    bool complete;   /* no signal cut it short */
} Evaluation;

/* `batches` 0: the whole validation split in windows that do not overlap, so that every character but the first is
   predicted once; otherwise batches * batch windows of it, at even distances. `tokens` and `targets` are scratch. */
Evaluation evaluate(Engine *engine, const Corpus *corpus, size_t batch, size_t batches, int32_t *tokens /* (batch,T) */,
                    int32_t *targets /* (batch,T) */);

/* Up to `batch` full windows of the validation split, at even distances: the fixed batch attention is measured on.
   Returns how many. */
size_t validation_batch(const Corpus *corpus, size_t batch, size_t T, int32_t *tokens /* (batch,T) */,
                        int32_t *targets /* (batch,T) */);
