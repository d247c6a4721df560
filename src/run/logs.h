/* A run's logs: metrics.csv, attention.csv and samples.txt. One table says what their columns are; rows are appended
   and read back by it, so that curves, pictures, sweeps and a resumed run see what was written and nothing else. What
   the columns mean is in docs/formats.md. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/directory.h"

typedef enum { LOG_METRICS, LOG_ATTENTION, LOG_SAMPLES, LOG_COUNT } Log;
extern const char *const LOG_NAMES[LOG_COUNT]; /* "metrics.csv" */

/* The columns of metrics.csv and attention.csv: the constant of each, its name in the file, and how its number is
   written and read (logs.c). A validation loss is empty (NaN) between evaluations. Its accuracy is empty at the same
   steps, and always for a text. Rows of attention.csv come by step, layer, head. */
#define METRICS_TABLE(COLUMN)                                                                                          \
    COLUMN(METRICS_STEP, "step", COUNT)                                                                                \
    COLUMN(METRICS_TOKENS, "tokens", COUNT)                                                                            \
    COLUMN(METRICS_SECONDS, "seconds", .format = "%.3f")                                                               \
    COLUMN(METRICS_LR, "lr", .format = "%.8g")                                                                         \
    COLUMN(METRICS_TRAIN_LOSS, "train_loss", .format = LOSS_FORMAT)                                                    \
    COLUMN(METRICS_VAL_LOSS, "val_loss", .format = LOSS_FORMAT, .optional = true)                                      \
    COLUMN(METRICS_GRAD_NORM, "grad_norm", SIX_DIGITS)                                                                 \
    COLUMN(METRICS_VAL_ACCURACY, "val_accuracy", SIX_DIGITS, .optional = true)
#define ATTENTION_TABLE(COLUMN)                                                                                        \
    COLUMN(ATTENTION_STEP, "step", COUNT)                                                                              \
    COLUMN(ATTENTION_LAYER, "layer", COUNT)                                                                            \
    COLUMN(ATTENTION_HEAD, "head", COUNT)                                                                              \
    COLUMN(ATTENTION_SCORE_STD, "score_std", SIX_DIGITS)                                                               \
    COLUMN(ATTENTION_SCORE_MAX, "score_max", SIX_DIGITS)                                                               \
    COLUMN(ATTENTION_ENTROPY, "entropy", SIX_DIGITS)                                                                   \
    COLUMN(ATTENTION_MAX_WEIGHT, "max_weight", SIX_DIGITS)                                                             \
    COLUMN(ATTENTION_SATURATED, "saturated", SIX_DIGITS)                                                               \
    COLUMN(ATTENTION_GRAD_Q_MEAN, "grad_q_mean", SIX_DIGITS)                                                           \
    COLUMN(ATTENTION_GRAD_Q_RMS, "grad_q_rms", SIX_DIGITS)                                                             \
    COLUMN(ATTENTION_GRAD_Q_MEDIAN, "grad_q_median", SIX_DIGITS)                                                       \
    COLUMN(ATTENTION_GRAD_Q_P10, "grad_q_p10", SIX_DIGITS)                                                             \
    COLUMN(ATTENTION_GRAD_Q_P99, "grad_q_p99", SIX_DIGITS)                                                             \
    COLUMN(ATTENTION_GRAD_SCORES_MEAN, "grad_scores_mean", SIX_DIGITS)                                                 \
    COLUMN(ATTENTION_GRAD_SCORES_RMS, "grad_scores_rms", SIX_DIGITS)                                                   \
    COLUMN(ATTENTION_GRAD_SCORES_MEDIAN, "grad_scores_median", SIX_DIGITS)                                             \
    COLUMN(ATTENTION_GRAD_SCORES_P10, "grad_scores_p10", SIX_DIGITS)                                                   \
    COLUMN(ATTENTION_GRAD_SCORES_P99, "grad_scores_p99", SIX_DIGITS)                                                   \
    COLUMN(ATTENTION_W_Q_NORM, "w_q_norm", SIX_DIGITS)                                                                 \
    COLUMN(ATTENTION_W_K_NORM, "w_k_norm", SIX_DIGITS)                                                                 \
    COLUMN(ATTENTION_OVERFLOWS, "overflows", COUNT)                                                                    \
    COLUMN(ATTENTION_INFINITIES, "infinities", COUNT)                                                                  \
    COLUMN(ATTENTION_SUBNORMALS, "subnormals", COUNT)

#define CONSTANT_OF(constant, ...) constant,
enum { METRICS_TABLE(CONSTANT_OF) METRICS_COLUMNS };
enum { ATTENTION_TABLE(CONSTANT_OF) ATTENTION_COLUMNS, LOG_COLUMNS_MAX = ATTENTION_COLUMNS };

/* The logs of a run, open for appending. */
typedef struct {
    const Directory *directory; /* of the run; outlives this */
    FILE *file[LOG_COUNT];
} Logs;

/* Opens the logs of a run, empty but for their headers. Fails where they cannot be written. Close with logs_close, also
   after a failure. */
bool logs_start(Logs *logs, const Directory *directory, Error *err);
/* Opens the logs of a run that is resumed at `step`. The first `size` bytes of each must be this version's header and
   the rows of all steps before `step` and of no others. If they are not, or cannot be read, fails with status
   STATUS_USAGE. Writes nothing: logs_cut has to cut the logs back to `size` bytes before anything is appended, but only
   after run.json says that the run continues. */
bool logs_resume(Logs *logs, const Directory *directory, size_t step, const size_t size[LOG_COUNT], Error *err);
bool logs_cut(const Logs *logs, const size_t size[LOG_COUNT], Error *err);
void logs_close(Logs *logs);

/* Appends a row of metrics.csv or attention.csv, a number for each column. */
void logs_append(const Logs *logs, Log log, const double row[]);
/* Hands the appended rows to the system, so that a full disk is an error at the row that does not fit. */
bool logs_flush(const Logs *logs, Log log, Error *err);
/* Forces the logs, and the names in the run's directory, to disk. This must precede a checkpoint, which says that they
   are there. */
bool logs_sync(const Logs *logs, Error *err);
/* How many bytes the logs have now. */
bool logs_sizes(const Logs *logs, size_t size[LOG_COUNT], Error *err);

/* Rows of a log, by column. */
typedef struct {
    size_t rows;
    double *column[LOG_COLUMNS_MAX]; /* (rows) each; NaN where a field is empty */
    double *numbers;                 /* the memory of the columns */
} LogTable;

/* Reads metrics.csv or attention.csv of a run's directory. A last line without its end is left out: its writer was
   killed or is not done. Errors have status STATUS_USAGE and name file and line. Free with log_table_free, also
   after a failure. */
bool logs_read(const char *directory, Log log, LogTable *table, Error *err);
/* As logs_read, but if the directory has no such file, the table has no rows. */
bool logs_read_any(const char *directory, Log log, LogTable *table, Error *err);
void log_table_free(LogTable *table);
/* The last value of a column that is not empty; NaN when all are. */
double log_last(const LogTable *table, int column);

/* A loss as metrics.csv has it: rounded to the digits that are written. */
double logs_rounded(double loss);
