/* Text drawn from a model, one character at a time. */
#pragma once

#include "data/vocabulary.h"
#include "model/transformer.h"

typedef struct {
    size_t tokens;      /* characters to draw */
    double temperature; /* divides the logits; 0: the most likely character */
    size_t top_k;       /* draws from only the k most likely characters; 0: from all */
    double top_p;       /* draws from the fewest of these that have this share of their probability; 0: from all */
    uint64_t seed;
} SampleOptions;

/* Writes what follows `prompt` (count >= 1 ids, of which the model reads the last T) to `out` as UTF-8, character by
   character. When the model has read T characters, it continues from the later half of them. Until then keys and
   values are cached, so a character costs one position (Pass.cached). `window` (T) is scratch. Returns whether the
   text is complete: false when a signal was caught or `out` failed. */
bool sample_text(Model *model, const Vocabulary *vocabulary, const int32_t *prompt, size_t count,
                 const SampleOptions *options, int32_t *window, FILE *out);

/* Returns the first character of a text without a prompt: a line end, else an "a" (recall: a key), else the first
   character of the vocabulary. */
int32_t sample_start(const Vocabulary *vocabulary);
