/* What a run writes as it goes: config.ini, vocab.json, run.json, and the logs, a row at a time. Formats in
   docs/formats.md. */
#ifndef SQRTDK_TRAIN_RESULTS_H
#define SQRTDK_TRAIN_RESULTS_H

#include <stdio.h>

#include "base/json.h"
#include "data/vocabulary.h"
#include "train/record.h"

typedef struct {
    const char *directory; /* of the run; the record's, which outlives this */
    FILE *metrics, *attention, *samples;
    Json *description; /* run.json */
} Results;

typedef struct {
    size_t step, tokens;
    double seconds, lr, train_loss, val_loss, grad_norm; /* val_loss NaN: not measured at this step */
} MetricsRow;

/* Into a directory that was just made. Takes the description over, also on failure. */
bool results_open(Results *results, const char *directory, const Config *config, const Vocabulary *vocabulary,
                  Json *description, Error *err);

/* Each row is flushed before the next step starts: a full disk ends the run there and not at its end. */
bool results_metrics(Results *results, const MetricsRow *row, Error *err);
bool results_attention(Results *results, const RunRecord *record, const Look *look, Error *err);
bool results_flush_samples(Results *results, Error *err);

/* run.json's last words: how the run ended. `failure` is NULL when it did not fail. */
bool results_conclude(Results *results, const RunRecord *record, const Error *failure, Error *err);
void results_close(Results *results);

/* "directory/name" */
bool results_path(const Results *results, char path[4096], const char *name, Error *err);

#endif
