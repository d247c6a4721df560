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
#include "base/text.h"

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

/* Writes the line of the columns' names; "" for samples.txt, which has none. */
enum { HEADER_MAX = 1024 };
static size_t write_header(Log log, char out[HEADER_MAX]) {
    *out = 0;
    for (int c = 0; c < COUNTS[log]; c++)
        text_append(out, HEADER_MAX, "%s%s", COLUMNS[log][c].name, c + 1 < COUNTS[log] ? "," : "\n");
    return strlen(out);
}

static bool cannot_write(const Logs *l, Log log, Error *err) {
    return runtime_error(err, "cannot write %s/%s: %s", l->directory->path, LOG_NAMES[log], strerror(errno));
}

static bool open_logs(Logs *l, const Directory *directory, Error *err) {
    *l = (Logs){.directory = directory};
    for (Log log = 0; log < LOG_COUNT; log++)
        if (!file_update(directory, LOG_NAMES[log], &l->file[log], err)) return false;
    return true;
}

bool logs_cut(const Logs *l, const size_t size[LOG_COUNT], Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++)
        if (ftruncate(fileno(l->file[log]), (off_t)size[log]) != 0 ||
            fseeko(l->file[log], (off_t)size[log], SEEK_SET) != 0)
            return cannot_write(l, log, err);
    return true;
}

bool logs_start(Logs *l, const Directory *directory, Error *err) {
    const size_t nothing[LOG_COUNT] = {0};
    if (!open_logs(l, directory, err) || !logs_cut(l, nothing, err)) return false;
    for (Log log = 0; log < LOG_COUNT; log++) {
        char header[HEADER_MAX];
        write_header(log, header);
        fputs(header, l->file[log]);
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
    FILE *file = l->file[log];
    for (int c = 0; c < COUNTS[log]; c++) {
        const Column *column = &COLUMNS[log][c];
        if (c) fputc(',', file);
        if (!(column->optional && isnan(row[c]))) fprintf(file, column->format, row[c]);
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

static bool is_whole(double number) { return number >= 0 && number < 0x1p53 && number == floor(number); }

/* Parses the line from `line` to `end`, where there is a zero byte, into the table's next row. */
static bool parse_row(const char *path, Log log, const char *line, const char *end, LogTable *table, Error *err) {
    const size_t line_number = table->rows + 2; /* in the file */
    for (int c = 0; c < COUNTS[log]; c++, line++) {
        const Column *column = &COLUMNS[log][c];
        const bool empty = *line == ',' || line == end;
        char *behind = NULL;
        const double number = empty ? NAN : strtod(line, &behind);
        if (!empty) line = behind;
        if (c + 1 < COUNTS[log] ? *line != ',' : line != end)
            return usage_error(err, "%s:%zu is not a row of %d numbers", path, line_number, COUNTS[log]);
        if (column->whole && !is_whole(number))
            return usage_error(err, "%s:%zu: %s is not a whole number", path, line_number, column->name);
        if (empty && !column->optional) return usage_error(err, "%s:%zu: %s is empty", path, line_number, column->name);
        table->column[c][table->rows] = number;
    }
    table->rows++;
    return true;
}

static bool parse_rows(const char *path, Log log, char *text, size_t size, LogTable *table, Error *err) {
    const size_t count = (size_t)COUNTS[log];
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    table->numbers = calloc(size_add(size_mul(lines, count), 1), sizeof *table->numbers);
    if (!table->numbers) return runtime_error(err, "no memory for the rows of %s", path);
    for (size_t c = 0; c < count; c++) table->column[c] = table->numbers + c * lines;
    for (char *line = text, *end; table->rows < lines; line = end + 1) {
        end = memchr(line, '\n', size - (size_t)(line - text));
        *end = 0;
        if (!parse_row(path, log, line, end, table, err)) return false;
    }
    return true;
}

static bool parse_log(const char *path, Log log, char *text, size_t size, LogTable *table, Error *err) {
    char header[HEADER_MAX];
    const size_t length = write_header(log, header);
    if (size >= length && memcmp(text, header, length) == 0)
        return parse_rows(path, log, text + length, size - length, table, err);
    return usage_error(err, "%s is damaged, or another version of sqrtdk made it: its first line is not %.*s", path,
                       (int)strcspn(header, "\n"), header);
}

static bool read_text(const char *directory, Log log, char path[4096], char **text, size_t *size, Error *err) {
    return path_join(path, 4096, directory, LOG_NAMES[log], err) &&
           file_read(path, "the log", SIZE_MAX / 2, STATUS_USAGE, text, size, err);
}

bool logs_read(const char *directory, Log log, LogTable *table, Error *err) {
    char path[4096], *text;
    size_t size;
    *table = (LogTable){0};
    if (!read_text(directory, log, path, &text, &size, err)) return false;
    const bool ok = parse_log(path, log, text, size, table, err);
    free(text);
    return ok;
}

void log_table_free(LogTable *table) {
    free(table->numbers);
    *table = (LogTable){0};
}

/* The step that a row or a sample begins with; SIZE_MAX where there is none, as in a line that was never whole. */
static size_t step_of(Log log, const char *line) {
    size_t step;
    char comma;
    const int read = sscanf(line, log == LOG_SAMPLES ? "==== step %zu%c" : "%zu%c", &step, &comma);
    return read == 2 && comma == ',' ? step : SIZE_MAX;
}

/* Whether the first `size` bytes of a log are what the checkpoint of `step` has left there: whole lines, which have the
   rows of all steps before that one and of no others. */
static bool check_rows(const char *path, Log log, char *text, size_t length, size_t size, size_t step, LogTable *table,
                       Error *err) {
    const bool lines = size <= length && (size == 0 || text[size - 1] == '\n');
    const bool all = lines && step_of(log, text + size) >= step;
    if (all && !parse_log(path, log, text, size, table, err)) return false;
    const bool no_others = log == LOG_SAMPLES || table->rows == 0 || table->column[0][table->rows - 1] < (double)step;
    if (all && no_others) return true;
    return usage_error(err, "%s is not as the checkpoint left it: %zu bytes with the rows of all steps before %zu",
                       path, size, step);
}

static bool check_log(const char *directory, Log log, size_t size, size_t step, Error *err) {
    char path[4096], *text;
    size_t length;
    LogTable table = {0};
    if (!read_text(directory, log, path, &text, &length, err)) return false;
    const bool ok = check_rows(path, log, text, length, size, step, &table, err);
    log_table_free(&table);
    free(text);
    return ok;
}

bool logs_resume(Logs *l, const Directory *directory, size_t step, const size_t size[LOG_COUNT], Error *err) {
    *l = (Logs){.directory = directory};
    for (Log log = 0; log < LOG_COUNT; log++)
        if (!check_log(directory->path, log, size[log], step, err)) return false;
    return open_logs(l, directory, err);
}

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
