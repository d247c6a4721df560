/* What a run writes as it goes: config.ini, vocab.json, run.json, and the logs, a row at a time. Formats in
   docs/formats.md. */
#ifndef SQRTDK_TRAIN_RESULTS_H
#define SQRTDK_TRAIN_RESULTS_H

#include <stdio.h>

#include "base/json.h"
#include "data/vocabulary.h"
#include "train/checkpoint.h"
#include "train/record.h"

typedef struct {
    const char *directory; /* of the run; outlives this */
    int lock;              /* held on the directory of a run that goes on; -1: none */
    FILE *logs[LOG_COUNT]; /* open for appending */
    Json *description;     /* run.json */
} Results;

typedef struct {
    size_t step, tokens;
    double seconds, lr, train_loss, val_loss, grad_norm; /* val_loss NaN: not measured at this step */
} MetricsRow;

/* Step and losses of a line of metrics.csv, which is cut into its fields; false when it is no such row. */
bool metrics_row_read(char *line, MetricsRow *row);

/* Into a directory that was just made, and is locked (results_make). Takes the description over, also on failure. */
bool results_open(Results *results, const char *directory, const Config *config, const Vocabulary *vocabulary,
                  Json *description, Error *err);

/* The directory of a run that goes on, in two halves: results_enter keeps other processes out and reads run.json;
   results_go_on, once all else is known to be good, cuts the logs back to log_size (all zero: starts them again), takes
   the curves of metrics.csv into the record, and writes config.ini and run.json. Errors have status STATUS_USAGE when
   what is there does not fit. results_close after either. */
bool results_enter(Results *results, const char *directory, Error *err);
bool results_go_on(Results *results, const Config *config, const size_t log_size[LOG_COUNT], RunRecord *record,
                   Error *err);
/* How long the logs are now. */
void results_log_sizes(const Results *results, size_t log_size[LOG_COUNT]);
/* Everything in the logs is on disk, before a checkpoint says that it is there. */
bool results_sync(const Results *results, Error *err);

/* Each row is flushed before the next step starts: a full disk ends the run there and not at its end. The record's
   curves get the losses as the row has them, rounded, so that a run that goes on draws them alike. */
bool results_metrics(Results *results, const MetricsRow *row, RunRecord *record, Error *err);
bool results_attention(Results *results, const RunRecord *record, const Look *look, Error *err);
bool results_flush_samples(Results *results, Error *err);

/* run.json's last words: how the run ended. `failure` is NULL when it did not fail. */
bool results_conclude(Results *results, const RunRecord *record, const Error *failure, Error *err);
void results_close(Results *results);

/* "directory/name" */
bool results_path(const Results *results, char path[4096], const char *name, Error *err);

#endif
