/* A run's logs: metrics.csv, attention.csv and samples.txt. One table lists their columns. Rows are appended and read
   back by this table, so curves, pictures, sweeps and a resumed run see exactly what was written. docs/formats.md
   defines the columns. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/directory.h"

typedef enum { LOG_METRICS, LOG_ATTENTION, LOG_SAMPLES, LOG_COUNT } Log;
extern const char *const LOG_NAMES[LOG_COUNT]; /* "metrics.csv" */

/* The columns of metrics.csv and attention.csv: the constant of each, its name in the file, and how its number is
   written and read (logs.c). A validation loss is empty (NaN) between evaluations. Its accuracy is empty at the same
   steps, and always for a text. Rows of attention.csv come by step, layer, head.

   Fields are matched with columns by the names in a file's first line, so that logs of other versions can be read and
   continued. A column that a file lacks is NaN in all its rows, if it is optional, and else an error. A field of
   another name is not read. Therefore a column that is added must be optional. */
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

/* The column of each field of a log's lines; -1: this version has no such column. */
enum { LOG_FIELDS_MAX = 64 };
typedef struct {
    int count, column[LOG_FIELDS_MAX];
} LogFields;

/* The logs of a run, open for appending. */
typedef struct {
    const Directory *directory; /* of the run; outlives this. NULL: streams of the caller */
    FILE *file[LOG_COUNT];
    LogFields fields[LOG_COUNT];
} Logs;

/* Opens the logs of a run, empty but for their headers. When they are released, as by an error, rows that were not
   flushed are lost. Without a directory (NULL), returns NULL; the functions that write logs accept NULL and do
   nothing. */
Logs *logs_start(const Directory *directory);
/* Starts logs on streams of the caller, which are closed when the logs are released. */
Logs *logs_start_on(FILE *const file[LOG_COUNT]);
/* Opens the logs of a run that is resumed at `step`. The first `size` bytes of each must be a header and the rows of
   all steps before `step` and of no others. Writes nothing: logs_cut has to cut the logs back to `size` bytes before
   anything is appended, but only after run.json says that the run continues. */
Logs *logs_resume(const Directory *directory, size_t step, const size_t size[LOG_COUNT]);
void logs_cut(const Logs *logs, const size_t size[LOG_COUNT]);

/* Appends a row of metrics.csv or attention.csv, from a number for each column, with the fields of the file. A field
   that is no column stays empty. */
void logs_append(const Logs *logs, Log log, const double row[]);
/* Passes the appended rows to the system, so that a full disk is an error at the row that does not fit. */
void logs_flush(const Logs *logs, Log log);
/* Forces the logs, and the names in the run's directory, to disk. This must precede a checkpoint, because the
   checkpoint names their sizes. */
void logs_sync(const Logs *logs);
/* Returns the sizes of the logs in bytes. */
void logs_sizes(const Logs *logs, size_t size[LOG_COUNT]);

/* Rows of a log, by column. */
typedef struct {
    size_t rows;
    double *column[LOG_COLUMNS_MAX]; /* (rows) each; NaN where a field is empty */
    double *numbers;                 /* the memory of the columns */
} LogTable;

/* Reads metrics.csv or attention.csv of a run's directory, apart from a last line without its end: its writer was
   killed or is not done. Errors name file and line. */
LogTable logs_read(const char *directory, Log log);
/* Reads a log that is a text. */
LogTable logs_read_text(Log log, const char *text, size_t size);
/* As logs_read, but if the directory has no such file, the table has no rows. */
LogTable logs_read_any(const char *directory, Log log);
/* Returns the number, from 0, of the field of the log's lines that is this column with this text; -1: none. */
int log_field(Log log, int column, const char *text);
/* Returns the last value of a column that is not empty; NaN if all are. */
double log_last(const LogTable *table, int column);
/* Returns the lowest validation loss in metrics.csv, NaN if there is none, and the step at which it was first
   reached. */
double log_best(const LogTable *metrics, double *step);

/* Rounds a loss to the digits that metrics.csv has. */
double logs_rounded(double loss);
