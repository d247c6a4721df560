/* What a config asks for before anything is made: sizes, memory, arithmetic, machine; and how it is announced. */
#ifndef SQRTDK_TRAIN_PLAN_H
#define SQRTDK_TRAIN_PLAN_H

#include "base/json.h"
#include "data/corpus.h"
#include "model/transformer.h"

typedef struct {
    ModelShape shape;
    size_t parameters;                                      /* numbers */
    size_t weight_bytes, optimizer_bytes, activation_bytes; /* weights with gradients; moments; activations */
    double flops_per_step;
} Plan;

/* Loads the text a config names, with that vocabulary or, where it is NULL, with the text's own. Fails as corpus_load
   does; the caller frees with corpus_free, also after a failure. */
bool plan_corpus(Corpus *corpus, const Config *config, const Vocabulary *vocabulary, Error *err);

/* Fails when a size does not fit, or the machine has less memory than is needed. */
bool plan_make(Plan *plan, const Config *config, size_t vocabulary, size_t threads, Error *err);

/* The announcement: corpus, model, divisor and multiplier, training, memory, machine; a block of lines without the
   last line end. `measured_std` NaN leaves the line about the scores' measured spread out. The caller frees. */
bool plan_announce(const Plan *plan, const Config *config, const Corpus *corpus, size_t threads, double measured_std,
                   char **text, Error *err);

/* Whether a text, of `path`, is the one the run of `directory` was trained on; its fingerprint is in run.json. */
bool run_description_check_corpus(const Json *run, const char *directory, const char *path, const Corpus *corpus,
                                  Error *err);
/* What multiplies matrices here, for run.json. */
void run_description_products(Json *run);

/* 1234567 -> "1,234,567" */
void format_count(size_t n, char *out, size_t capacity);
/* Bytes as "830 kB", "12.3 MB" or "1.87 GB" (decimal units). */
void format_bytes(size_t bytes, char *out, size_t capacity);

#endif
