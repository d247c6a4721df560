/* Writes and reads the logs of a run by one table of columns, so that a number is read as it was written. The rows of
   a step are flushed together, so a killed program loses no earlier step. Reading is strict, since a resumed run, the
   pictures and a sweep's tables rely on these numbers. */
#include "run/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
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
enum { STEP = METRICS_STEP }; /* the column of both logs */
_Static_assert((int)STEP == (int)ATTENTION_STEP, "both logs have the step in the same column");
_Static_assert((int)LOG_FIELDS_MAX >= (int)LOG_COLUMNS_MAX, "a log has a field for each column");

static _Noreturn void cannot_write(const Logs *l, Log log) {
    const char *directory = l->directory ? l->directory->path : "memory";
    runtime_error("cannot write %s/%s: %s", directory, LOG_NAMES[log], strerror(errno));
}

/* Closes the files. logs_flush has checked what reached them; rows that it could not write are lost. */
static void close_logs(void *block) {
    const Logs *l = block;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (Log log = 0; log < LOG_COUNT; log++) {
        if (!l->file[log]) continue;
        if (nowhere >= 0) dup2(nowhere, fileno(l->file[log]));
        fclose(l->file[log]);
    }
    if (nowhere >= 0) close(nowhere);
}

static Logs *make_logs(const Directory *directory) {
    Logs *l = memory_make_with_undo(sizeof *l, close_logs, "the logs");
    l->directory = directory;
    return l;
}

static void open_logs(Logs *l) {
    for (Log log = 0; log < LOG_COUNT; log++) l->file[log] = file_update(l->directory, LOG_NAMES[log]);
}

void logs_cut(const Logs *l, const size_t size[LOG_COUNT]) {
    if (!l) return;
    for (Log log = 0; log < LOG_COUNT; log++) {
        if (l->directory && ftruncate(fileno(l->file[log]), (off_t)size[log]) != 0) cannot_write(l, log);
        if (fseeko(l->file[log], (off_t)size[log], SEEK_SET) != 0) cannot_write(l, log);
    }
}

/* Writes the names of this version's columns as a line. samples.txt has no such line. */
static void write_header(Logs *l, Log log) {
    LogFields *fields = &l->fields[log];
    for (int c = 0; c < COUNTS[log]; c++) {
        fprintf(l->file[log], "%s%c", COLUMNS[log][c].name, c + 1 < COUNTS[log] ? ',' : '\n');
        fields->column[fields->count++] = c;
    }
}

static void write_headers(Logs *l) {
    for (Log log = 0; log < LOG_COUNT; log++) {
        write_header(l, log);
        logs_flush(l, log);
    }
}

Logs *logs_start(const Directory *directory) {
    const size_t nothing[LOG_COUNT] = {0};
    if (!directory) return NULL;
    Logs *l = make_logs(directory);
    open_logs(l);
    logs_cut(l, nothing);
    write_headers(l);
    return l;
}

Logs *logs_start_on(FILE *const file[LOG_COUNT]) {
    Logs *l = make_logs(NULL);
    memcpy(l->file, file, sizeof l->file);
    write_headers(l);
    return l;
}

void logs_append(const Logs *l, Log log, const double row[]) {
    if (!l) return;
    const LogFields *fields = &l->fields[log];
    FILE *file = l->file[log];
    for (int f = 0; f < fields->count; f++) {
        const int c = fields->column[f];
        if (f) fputc(',', file);
        if (c >= 0 && !(COLUMNS[log][c].optional && isnan(row[c]))) fprintf(file, COLUMNS[log][c].format, row[c]);
    }
    fputc('\n', file);
}

void logs_flush(const Logs *l, Log log) {
    if (!l) return;
    if (l->directory) directory_check(l->directory);
    if (fflush(l->file[log]) != 0 || ferror(l->file[log])) cannot_write(l, log);
}

void logs_sync(const Logs *l) {
    if (!l) return;
    for (Log log = 0; log < LOG_COUNT; log++)
        if (fsync(fileno(l->file[log])) != 0) cannot_write(l, log);
    directory_sync(l->directory->fd, l->directory->path);
}

void logs_sizes(const Logs *l, size_t size[LOG_COUNT]) {
    if (!l) return;
    for (Log log = 0; log < LOG_COUNT; log++) {
        const off_t end = ftello(l->file[log]);
        if (end < 0) cannot_write(l, log);
        size[log] = (size_t)end;
    }
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

/* The text of a log. */
typedef struct {
    Log log;
    char path[PATH_CAPACITY], *text; /* (size), and a zero byte */
    size_t size;
    LogFields fields;
    char *rows; /* where the line behind the header begins */
} LogFile;

static void read_text(LogFile *f, const char *directory, Log log) {
    *f = (LogFile){.log = log};
    path_join(f->path, directory, LOG_NAMES[log]);
    f->text = file_read(f->path, "the log", SIZE_MAX / 2, &f->size);
}

/* Matches the names in the first line with the columns. */
static void read_header(LogFile *f) {
    LogFields *fields = &f->fields;
    char *end = memchr(f->text, '\n', f->size);
    if (!end) usage_error("%s is damaged: the line of the names of its columns is missing", f->path);
    if (memchr(f->text, '\r', f->size)) usage_error("%s is damaged: it has a carriage return", f->path);
    f->rows = end + 1;
    fields->count = 1;
    for (const char *c = f->text; c < end; c++) fields->count += *c == ',';
    if (fields->count > LOG_FIELDS_MAX)
        usage_error("%s has %d columns; at most %d are read", f->path, fields->count, LOG_FIELDS_MAX);
    for (int i = 0; i < fields->count; i++) fields->column[i] = -1;
    for (int c = 0; c < COUNTS[f->log]; c++) {
        const int field = log_field(f->log, c, f->text);
        if (field >= 0) fields->column[field] = c;
        else if (!COLUMNS[f->log][c].optional)
            usage_error("%s is damaged, or of a version that sqrtdk %s cannot read: it has no column %s", f->path,
                        SQRTDK_VERSION, COLUMNS[f->log][c].name);
    }
}

static bool is_whole(double number) { return number >= 0 && number < 0x1p53 && number == floor(number); }

/* Parses the line from `line` to `end`, where there is a zero byte, into the table's next row. */
static void parse_row(const LogFile *f, const char *line, const char *end, LogTable *table) {
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
            usage_error("%s:%zu is not a row of %d numbers", f->path, line_number, count);
        if (!column) continue;
        if (column->whole && !is_whole(number))
            usage_error("%s:%zu: %s is not a whole number", f->path, line_number, column->name);
        if (empty && !column->optional) usage_error("%s:%zu: %s is empty", f->path, line_number, column->name);
        table->column[f->fields.column[i]][table->rows] = number;
    }
    table->rows++;
}

static LogTable parse_log(LogFile *f) {
    const size_t count = (size_t)COUNTS[f->log];
    char words[PATH_CAPACITY + 32];
    LogTable table = {0};
    size_t lines = 0;
    read_header(f);
    for (const char *c = f->rows; c < f->text + f->size; c++) lines += *c == '\n';
    snprintf(words, sizeof words, "the rows of %s", f->path);
    table.numbers = memory_make(size_mul(lines, count), sizeof *table.numbers, words);
    for (size_t i = 0; i < lines * count; i++) table.numbers[i] = NAN;
    for (size_t c = 0; c < count; c++) table.column[c] = table.numbers + c * lines;
    for (char *line = f->rows, *end; table.rows < lines; line = end + 1) {
        end = memchr(line, '\n', f->size - (size_t)(line - f->text));
        *end = 0;
        parse_row(f, line, end, &table);
    }
    return table;
}

LogTable logs_read(const char *directory, Log log) {
    LogFile f;
    read_text(&f, directory, log);
    const LogTable table = parse_log(&f);
    memory_free(f.text);
    return table;
}

LogTable logs_read_text(Log log, const char *text, size_t size) {
    LogFile f = {.log = log, .text = memory_copy_text(text, size), .size = size};
    path_join(f.path, "memory", LOG_NAMES[log]);
    const LogTable table = parse_log(&f);
    memory_free(f.text);
    return table;
}

LogTable logs_read_any(const char *directory, Log log) {
    char path[PATH_CAPACITY];
    path_join(path, directory, LOG_NAMES[log]);
    return path_exists(path) ? logs_read(directory, log) : (LogTable){0};
}

/* --- resuming */

/* Returns the step that a row or a sample begins with; SIZE_MAX if there is none, as in a line that was never whole. Of
   a row `field` is the step. */
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

/* Returns whether the first `size` bytes of a log are as they were at the checkpoint of `step`: whole lines, with the
   rows of all steps before that one and of no others. Matches their columns. */
static bool rows_end_before(LogFile *f, size_t size, size_t step) {
    const int field = f->log == LOG_SAMPLES ? 0 : log_field(f->log, STEP, f->text);
    const bool lines = size <= f->size && (size == 0 || f->text[size - 1] == '\n');
    if (!lines || step_of(f->log, field, f->text + size) < step) return false;
    if (f->log == LOG_SAMPLES) return true;
    f->size = size;
    const LogTable table = parse_log(f);
    const bool before = !(log_last(&table, STEP) >= (double)step); /* NaN: no row */
    memory_free(table.numbers);
    return before;
}

static void check_log(Logs *l, Log log, size_t size, size_t step) {
    LogFile f;
    read_text(&f, l->directory->path, log);
    if (!rows_end_before(&f, size, step))
        usage_error("%s is not as the checkpoint left it: %zu bytes with the rows of all steps before %zu", f.path,
                    size, step);
    l->fields[log] = f.fields;
    memory_free(f.text);
}

Logs *logs_resume(const Directory *directory, size_t step, const size_t size[LOG_COUNT]) {
    if (!directory) return NULL;
    Logs *l = make_logs(directory);
    for (Log log = 0; log < LOG_COUNT; log++) check_log(l, log, size[log], step);
    open_logs(l);
    return l;
}

/* --- figures of a log */

double log_last(const LogTable *table, int column) {
    const double *values = table->column[column]; /* NULL: an older log without this column */
    for (size_t row = values ? table->rows : 0; row-- > 0;)
        if (!isnan(values[row])) return values[row];
    return NAN;
}

double log_best(const LogTable *metrics, double *step) {
    const double *losses = metrics->column[METRICS_VAL_LOSS];
    double best = NAN;
    *step = NAN;
    for (size_t row = 0; row < metrics->rows; row++) {
        if (isnan(losses[row]) || losses[row] >= best) continue;
        best = losses[row];
        *step = metrics->column[METRICS_STEP][row];
    }
    return best;
}

double logs_rounded(double loss) {
    char text[64];
    snprintf(text, sizeof text, LOSS_FORMAT, loss);
    return strtod(text, NULL);
}
