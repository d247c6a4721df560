/* A text as token ids, cut into a training part and, behind it, a validation part. */
#pragma once

#include "data/vocabulary.h"

typedef struct {
    Vocabulary vocabulary;
    int32_t *ids; /* (count) */
    size_t count;
    size_t train; /* ids[0 .. train-1] are for training, the rest for validation */
} Corpus;

/* Reads `path` (empty: the built-in corpus): UTF-8 text, a byte order mark at its head left out. `vocabulary` NULL: it
   is built from the text; otherwise it is copied, and the text must keep to it. `val_fraction` of the characters, the
   last ones, are for validation; either part must hold `window` + 1 characters. Errors have status STATUS_USAGE. The
   caller frees with corpus_free. */
bool corpus_load(Corpus *corpus, const char *path, const Vocabulary *vocabulary, double val_fraction, size_t window,
                 Error *err);
void corpus_free(Corpus *corpus);

/* What another text, or the same text under other ids, does not have but by chance: FNV-1a, 64 bits, over the
   characters of the vocabulary and the ids of the text, as hexadecimal digits. */
enum { CORPUS_FINGERPRINT = 17 };
void corpus_fingerprint(const Corpus *corpus, char out[CORPUS_FINGERPRINT]);

/* B windows of T tokens from the training part and the tokens one further on, both (B, T). Their places are drawn from
   (seed, step): the same for every run that shares them. */
void corpus_training_batch(const Corpus *corpus, uint64_t seed, uint64_t micro_step, size_t B, size_t T,
                           int32_t *tokens, int32_t *targets);

/* The validation part in windows of T that do not overlap; the last one may be shorter. */
size_t corpus_windows(const Corpus *corpus, size_t T);
/* Window i; returns its length, at most T. */
size_t corpus_window(const Corpus *corpus, size_t i, size_t T, int32_t *tokens, int32_t *targets);
