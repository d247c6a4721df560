/* The source of batches: a text as token ids, its training part first and then its validation part; or generated
   records of the recall task (data/recall.h). Targets of -1 do not count in the loss. */
#pragma once

#include "data/vocabulary.h"

typedef struct {
    Vocabulary vocabulary;
    int32_t *ids; /* (count) */
    size_t count;
    size_t train; /* ids[0 .. train-1] are for training, the rest for validation */
    size_t pairs; /* pairs in a record of recall, which has no ids; 0: the corpus is a text */
} Corpus;

/* Reads `path` (empty: the built-in corpus): UTF-8 text, without a byte order mark at its start. If `vocabulary` is
   NULL, it is built from the text; else it must have every character of the text. `val_fraction` of the characters, the
   last ones, are for validation; each part must hold `window` + 1 characters. */
Corpus corpus_load(const char *path, const Vocabulary *vocabulary, double val_fraction, size_t window);
/* Makes a corpus of a text in memory as corpus_load does; `what` names the text in errors. */
Corpus corpus_from_text(const char *text, size_t size, const char *what, const Vocabulary *vocabulary,
                        double val_fraction, size_t window);
/* The built-in corpus, UTF-8. */
extern const char sqrtdk_corpus[];
/* Makes the corpus of the recall task with `pairs` pairs, from 1 to 26; `vocabulary` as for corpus_load. */
Corpus corpus_recall(size_t pairs, const Vocabulary *vocabulary);

/* Writes a hash of the vocabulary's characters and the ids of the text (for recall: the number of pairs), as
   hexadecimal digits. Different texts and vocabularies have different hashes. */
void corpus_fingerprint(const Corpus *corpus, char out[HASH_DIGITS]);

/* Draws B windows of T tokens from the training part by (seed, micro_step), so that runs with the same seed have the
   same batches. The targets are the tokens one position later. For recall, makes B new records. */
void corpus_training_batch(const Corpus *corpus, uint64_t seed, uint64_t micro_step, size_t B, size_t T,
                           int32_t *tokens /* (B,T) */, int32_t *targets /* (B,T) */);

/* Returns the number of windows of T in the validation part. They do not overlap, and the last one may be shorter. For
   recall, these are records with 16384 characters in all, the same ones for every seed. */
size_t corpus_windows(const Corpus *corpus, size_t T);
size_t corpus_whole_windows(const Corpus *corpus, size_t T); /* without a last window that is shorter */
/* Copies window i of the validation part and returns its length, at most T. */
size_t corpus_window(const Corpus *corpus, size_t i, size_t T, int32_t *tokens /* (T) */, int32_t *targets /* (T) */);
