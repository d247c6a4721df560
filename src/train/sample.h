/* Text drawn from a model, one character at a time. */
#pragma once

#include <stdio.h>

#include "data/vocabulary.h"
#include "model/transformer.h"

typedef struct {
    size_t tokens;      /* characters to draw */
    double temperature; /* divides the logits; 0 takes the likeliest character */
    size_t top_k;       /* draws from the k likeliest only; 0: from all */
    uint64_t seed;
} SampleOptions;

/* Memory for sampling: the window the model sees, and a row of probabilities. */
typedef struct {
    int32_t *window; /* (T) */
    double *weights; /* (V) */
} Sampler;
bool sampler_make(Sampler *sampler, const ModelShape *shape, Error *err);
void sampler_free(Sampler *sampler);

/* Writes what follows `prompt` (count >= 1 ids; the last T are seen) to `out` as UTF-8, character by character. Returns
   false without an error text when a signal was caught or `out` failed. */
bool sample_text(Model *model, const Vocabulary *vocabulary, Sampler *sampler, const int32_t *prompt, size_t count,
                 const SampleOptions *options, FILE *out);

/* What a text starts from when nobody says: a line end, or the first character of a vocabulary without one. */
int32_t sample_start(const Vocabulary *vocabulary);
