#include "base/csv.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

static size_t count_char(const char *text, char wanted) {
    size_t count = 0;
    for (; *text; text++) count += *text == wanted;
    return count;
}

/* The fields of a line, which is cut at its commas; false when there are more or fewer than the table's columns. */
static bool read_row(const CsvTable *table, char *line, double *values) {
    for (size_t column = 0; column < table->columns; column++) {
        char *field = strsep(&line, ","), *end = field;
        if (!field) return false;
        values[column] = *field ? strtod(field, &end) : NAN;
        if (*end) return false;
    }
    return line == NULL;
}

static bool read_rows(CsvTable *table, char *rest, const char *path, Error *err) {
    char *line;
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        if (!read_row(table, line, table->values + table->rows * table->columns))
            return error_set(err, STATUS_USAGE, "%s:%zu is not a row of %zu numbers", path, table->rows + 2,
                             table->columns);
        table->rows++;
    }
    return true;
}

bool csv_read(CsvTable *table, const char *path, size_t limit, Error *err) {
    size_t size;
    *table = (CsvTable){0};
    if (!file_read(path, "the table", SIZE_MAX / 2, STATUS_USAGE, &table->text, &size, err)) return false;
    if (limit < size) table->text[limit] = 0;
    size_t lines = count_char(table->text, '\n');
    char *rest = table->text, *header = strsep(&rest, "\n");
    if (!rest) return error_set(err, STATUS_USAGE, "%s has no line of column names", path);
    table->columns = count_char(header, ',') + 1;
    table->names = calloc(table->columns, sizeof *table->names);
    table->values = calloc((lines + 1) * table->columns, sizeof *table->values);
    if (!table->names || !table->values) return error_set(err, STATUS_FAILED, "no memory for the rows of %s", path);
    for (size_t column = 0; column < table->columns; column++) table->names[column] = strsep(&header, ",");
    return read_rows(table, rest, path, err);
}

void csv_free(CsvTable *table) {
    free(table->names);
    free(table->values);
    free(table->text);
    *table = (CsvTable){0};
}

bool csv_column(const CsvTable *table, const char *path, const char *name, size_t *column, Error *err) {
    for (*column = 0; *column < table->columns; ++*column)
        if (strcmp(table->names[*column], name) == 0) return true;
    return error_set(err, STATUS_USAGE, "%s has no column %s", path, name);
}

void csv_write_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}
