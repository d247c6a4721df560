/* Writes and reads the logs of a run by one table of columns, so that a number has the same meaning when it is written
   and when it is read. The rows of a step are flushed together, so a killed program loses no earlier step. Reading is
   strict, since a resumed run, the pictures and a sweep's tables rely on these numbers. */
#include "run/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/results.h"

const char *const LOG_NAMES[LOG_COUNT] = {"metrics.csv", "attention.csv", "samples.txt"};

#define LOSS_FORMAT "%.7g"
#define COUNT .format = "%.0f", .whole = true
#define SIX_DIGITS .format = "%.6g"

/* `optional`: a NaN is written as an empty field, otherwise as nan. `whole`: only whole numbers are accepted. */
typedef struct {
    const char *name, *format;
    bool optional, whole;
} Column;

#define COLUMN_OF(constant, ...) [constant] = {__VA_ARGS__},
static const Column COLUMNS[LOG_COUNT][LOG_COLUMNS_MAX] = {
    [LOG_METRICS] = {METRICS_TABLE(COLUMN_OF)}, [LOG_ATTENTION] = {ATTENTION_TABLE(COLUMN_OF)}};
static const int COUNTS[LOG_COUNT] = {METRICS_COLUMNS, ATTENTION_COLUMNS, 0};
enum { STEP = METRICS_STEP }; /* in both */
_Static_assert((int)STEP == (int)ATTENTION_STEP, "both logs have the step in the same column");
_Static_assert((int)LOG_FIELDS_MAX >= (int)LOG_COLUMNS_MAX, "a log has a field for each column");

static bool cannot_write(const Logs *l, Log log, Error *err) {
    return runtime_error(err, "cannot write %s/%s: %s", l->directory->path, LOG_NAMES[log], strerror(errno));
}

static bool open_logs(Logs *l, Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++)
        if (!file_update(l->directory, LOG_NAMES[log], &l->file[log], err)) return false;
    return true;
}

bool logs_cut(const Logs *l, const size_t size[LOG_COUNT], Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++)
        if (ftruncate(fileno(l->file[log]), (off_t)size[log]) != 0 ||
            fseeko(l->file[log], (off_t)size[log], SEEK_SET) != 0)
            return cannot_write(l, log, err);
    return true;
}

/* Writes the names of this version's columns as a line, which samples.txt has not. */
static void write_header(Logs *l, Log log) {
    LogFields *fields = &l->fields[log];
    for (int c = 0; c < COUNTS[log]; c++) {
        fprintf(l->file[log], "%s%c", COLUMNS[log][c].name, c + 1 < COUNTS[log] ? ',' : '\n');
        fields->column[fields->count++] = c;
    }
}

bool logs_start(Logs *l, const Directory *directory, Error *err) {
    const size_t nothing[LOG_COUNT] = {0};
    *l = (Logs){.directory = directory};
    if (!open_logs(l, err) || !logs_cut(l, nothing, err)) return false;
    for (Log log = 0; log < LOG_COUNT; log++) {
        write_header(l, log);
        if (!logs_flush(l, log, err)) return false;
    }
    return true;
}

void logs_close(Logs *l) {
    /* logs_flush has flushed every row and checked that. */
    for (int log = 0; log < LOG_COUNT; log++)
        if (l->file[log]) fclose(l->file[log]);
    *l = (Logs){0};
}

void logs_append(const Logs *l, Log log, const double row[]) {
    const LogFields *fields = &l->fields[log];
    FILE *file = l->file[log];
    for (int f = 0; f < fields->count; f++) {
        const int c = fields->column[f];
        if (f) fputc(',', file);
        if (c >= 0 && !(COLUMNS[log][c].optional && isnan(row[c]))) fprintf(file, COLUMNS[log][c].format, row[c]);
    }
    fputc('\n', file);
}

bool logs_flush(const Logs *l, Log log, Error *err) {
    if (!directory_holds(l->directory, err)) { /* the buffer must not be written to the file */
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere >= 0) dup2(nowhere, fileno(l->file[log]));
        if (nowhere >= 0) close(nowhere);
        return false;
    }
    return (fflush(l->file[log]) == 0 && !ferror(l->file[log])) || cannot_write(l, log, err);
}

bool logs_sync(const Logs *l, Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++)
        if (fsync(fileno(l->file[log])) != 0) return cannot_write(l, log, err);
    return directory_sync(l->directory->fd, l->directory->path, err);
}

bool logs_sizes(const Logs *l, size_t size[LOG_COUNT], Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++) {
        const off_t end = ftello(l->file[log]);
        if (end < 0) return cannot_write(l, log, err);
        size[log] = (size_t)end;
    }
    return true;
}

/* --- reading */

int log_field(Log log, int column, const char *text) {
    const char *wanted = COLUMNS[log][column].name, *name = text;
    for (int field = 0;; field++) {
        const size_t length = strcspn(name, ",\n");
        if (length == strlen(wanted) && memcmp(name, wanted, length) == 0) return field;
        if (name[length] != ',') return -1;
        name += length + 1;
    }
}

/* A log as text. */
typedef struct {
    Log log;
    char path[4096], *text; /* (size), and a zero byte */
    size_t size;
    LogFields fields;
    char *rows; /* where the line behind the header begins */
} LogFile;

static bool read_text(LogFile *f, const char *directory, Log log, Error *err) {
    *f = (LogFile){.log = log};
    return path_join(f->path, sizeof f->path, directory, LOG_NAMES[log], err) &&
           file_read(f->path, "the log", SIZE_MAX / 2, STATUS_USAGE, &f->text, &f->size, err);
}

/* Matches the names in the first line with the columns. */
static bool read_header(LogFile *f, Error *err) {
    LogFields *fields = &f->fields;
    char *end = memchr(f->text, '\n', f->size);
    if (!end) return usage_error(err, "%s is damaged: the line of the names of its columns is missing", f->path);
    f->rows = end + 1;
    fields->count = 1;
    for (const char *c = f->text; c < end; c++) fields->count += *c == ',';
    if (fields->count > LOG_FIELDS_MAX)
        return usage_error(err, "%s has %d columns; at most %d are read", f->path, fields->count, LOG_FIELDS_MAX);
    for (int i = 0; i < fields->count; i++) fields->column[i] = -1;
    for (int c = 0; c < COUNTS[f->log]; c++) {
        const int field = log_field(f->log, c, f->text);
        if (field >= 0) fields->column[field] = c;
        else if (!COLUMNS[f->log][c].optional)
            return usage_error(err, "%s is damaged, or of a version that sqrtdk %s cannot read: it has no column %s",
                               f->path, SQRTDK_VERSION, COLUMNS[f->log][c].name);
    }
    return true;
}

static bool is_whole(double number) { return number >= 0 && number < 0x1p53 && number == floor(number); }

/* Parses the line from `line` to `end`, where there is a zero byte, into the table's next row. */
static bool parse_row(const LogFile *f, const char *line, const char *end, LogTable *table, Error *err) {
    const int count = f->fields.count;
    const size_t line_number = table->rows + 2; /* in the file */
    for (int i = 0; i < count; i++, line++) {
        const Column *column = f->fields.column[i] < 0 ? NULL : &COLUMNS[f->log][f->fields.column[i]];
        const bool empty = *line == ',' || line == end;
        char *behind = NULL;
        const double number = empty || !column ? NAN : strtod(line, &behind);
        if (behind) line = behind;
        else line += strcspn(line, ",");
        if (i + 1 < count ? *line != ',' : line != end)
            return usage_error(err, "%s:%zu is not a row of %d numbers", f->path, line_number, count);
        if (!column) continue;
        if (column->whole && !is_whole(number))
            return usage_error(err, "%s:%zu: %s is not a whole number", f->path, line_number, column->name);
        if (empty && !column->optional)
            return usage_error(err, "%s:%zu: %s is empty", f->path, line_number, column->name);
        table->column[f->fields.column[i]][table->rows] = number;
    }
    table->rows++;
    return true;
}

static bool parse_log(LogFile *f, LogTable *table, Error *err) {
    const size_t count = (size_t)COUNTS[f->log];
    size_t lines = 0;
    if (!read_header(f, err)) return false;
    for (const char *c = f->rows; c < f->text + f->size; c++) lines += *c == '\n';
    table->numbers = malloc(size_add(size_mul(size_mul(lines, count), sizeof *table->numbers), 1));
    if (!table->numbers) return runtime_error(err, "no memory for the rows of %s", f->path);
    for (size_t i = 0; i < lines * count; i++) table->numbers[i] = NAN;
    for (size_t c = 0; c < count; c++) table->column[c] = table->numbers + c * lines;
    for (char *line = f->rows, *end; table->rows < lines; line = end + 1) {
        end = memchr(line, '\n', f->size - (size_t)(line - f->text));
        *end = 0;
        if (!parse_row(f, line, end, table, err)) return false;
    }
    return true;
}

bool logs_read(const char *directory, Log log, LogTable *table, Error *err) {
    LogFile f;
    *table = (LogTable){0};
    const bool ok = read_text(&f, directory, log, err) && parse_log(&f, table, err);
    free(f.text);
    return ok;
}

void log_table_free(LogTable *table) {
    free(table->numbers);
    *table = (LogTable){0};
}

/* --- resuming */

/* The step that a row or a sample begins with; SIZE_MAX where there is none, as in a line that was never whole. Of a
   row `field` is the step. */
static size_t step_of(Log log, int field, const char *line) {
    size_t step;
    char behind;
    for (; field > 0; field--) {
        line += strcspn(line, ",\n");
        if (*line != ',') return SIZE_MAX;
        line++;
    }
    const int read = sscanf(line, log == LOG_SAMPLES ? "==== step %zu%c" : "%zu%c", &step, &behind);
    return read == 2 && (behind == ',' || behind == '\n') ? step : SIZE_MAX;
}

/* Whether the first `size` bytes of a log are what the checkpoint of `step` has left there: whole lines, which have the
   rows of all steps before that one and of no others. */
static bool check_rows(LogFile *f, size_t size, size_t step, LogTable *table, Error *err) {
    const int field = f->log == LOG_SAMPLES ? 0 : log_field(f->log, STEP, f->text);
    const bool lines = size <= f->size && (size == 0 || f->text[size - 1] == '\n');
    const bool all = lines && step_of(f->log, field, f->text + size) >= step;
    if (all && f->log != LOG_SAMPLES) {
        f->size = size;
        if (!parse_log(f, table, err)) return false;
    }
    if (all && (table->rows == 0 || table->column[STEP][table->rows - 1] < (double)step)) return true;
    return usage_error(err, "%s is not as the checkpoint left it: %zu bytes with the rows of all steps before %zu",
                       f->path, size, step);
}

static bool check_log(Logs *l, Log log, size_t size, size_t step, Error *err) {
    LogFile f;
    LogTable table = {0};
    const bool ok = read_text(&f, l->directory->path, log, err) && check_rows(&f, size, step, &table, err);
    l->fields[log] = f.fields;
    log_table_free(&table);
    free(f.text);
    return ok;
}

bool logs_resume(Logs *l, const Directory *directory, size_t step, const size_t size[LOG_COUNT], Error *err) {
    *l = (Logs){.directory = directory};
    for (Log log = 0; log < LOG_COUNT; log++)
        if (!check_log(l, log, size[log], step, err)) return false;
    return open_logs(l, err);
}

/* --- what others ask */

double log_last(const LogTable *table, int column) {
    for (size_t row = table->rows; row-- > 0;)
        if (!isnan(table->column[column][row])) return table->column[column][row];
    return NAN;
}

bool logs_read_any(const char *directory, Log log, LogTable *table, Error *err) {
    char path[4096];
    bool exists;
    *table = (LogTable){0};
    if (!path_join(path, sizeof path, directory, LOG_NAMES[log], err) || !path_find(path, &exists, err)) return false;
    return !exists || logs_read(directory, log, table, err);
}

double logs_rounded(double loss) {
    char text[64];
    snprintf(text, sizeof text, LOSS_FORMAT, loss);
    return strtod(text, NULL);
}
