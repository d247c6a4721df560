/* The validation loss, over the same windows every time. */
#pragma once

#include "run/run.h"
#include "train/engine.h"

typedef struct {
    double loss;     /* mean over `targets`, in nats */
    double accuracy; /* the part of the targets whose logit is the largest; NaN for a text */
    size_t targets;  /* the number of targets that counted */
    bool complete;   /* no signal cut it short */
} Evaluation;

/* Evaluates `batches` batches of windows of the validation split, at even distances. If `batches` is 0 or too large,
   evaluates all windows. They do not overlap, so every character but the first is predicted once. */
Evaluation evaluate(Engine *engine, const Corpus *corpus, size_t batches);

/* Evaluates a run's model over the whole validation split of the run's text, which is loaded. */
Evaluation evaluate_run(Run *run, Model *model);

/* Makes the fixed batch on which attention is measured: up to `batch` full windows of the validation split, at even
   distances. Returns their number. */
size_t validation_batch(const Corpus *corpus, size_t batch, size_t T, int32_t *tokens /* (batch,T) */,
                        int32_t *targets /* (batch,T) */);
