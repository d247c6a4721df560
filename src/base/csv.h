/* Tables as comma-separated values: those of numbers, read back from a run's log (metrics.csv, attention.csv), where
   columns are found by name, since later versions may add some; and fields of text for those that are written. */
#ifndef SQRTDK_BASE_CSV_H
#define SQRTDK_BASE_CSV_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

typedef struct {
    size_t rows, columns;
    char **names;   /* (columns) */
    double *values; /* (rows, columns); NaN where a field is empty */
    char *text;     /* that the names stand in */
} CsvTable;

/* The first `limit` bytes of a file (SIZE_MAX: all of it). A last line without its end is left out: whoever wrote it
   was killed while writing. Errors have status STATUS_USAGE and name the line. Free with csv_free, also after a
   failure. */
bool csv_read(CsvTable *table, const char *path, size_t limit, Error *err);
void csv_free(CsvTable *table);

/* The column of that name; an error of status STATUS_USAGE that names `path` when there is none. */
bool csv_column(const CsvTable *table, const char *path, const char *name, size_t *column, Error *err);

/* A field in double quotes (RFC 4180). */
void csv_write_quoted(FILE *out, const char *text);

static inline double csv_at(const CsvTable *table, size_t row, size_t column) {
    return table->values[row * table->columns + column];
}

#endif
