#include "train/logs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/results.h"
#include "base/text.h"

const char *const LOG_NAMES[LOG_COUNT] = {"metrics.csv", "attention.csv", "samples.txt"};

#define LOSS_FORMAT "%.7g"
#define WHOLE .format = "%.0f", .whole = true
#define FIGURE .format = "%.6g"

/* A field that is `optional` is left empty for a NaN, which is otherwise written as one; `whole` are numbers that
 * count. Files of earlier versions do not have the last columns, which are `added`. */
typedef struct {
    const char *name, *format;
    bool optional, whole, added;
} Column;

/* A norm's distribution over the rows of scores. */
#define DISTRIBUTION(name)                                                                                             \
    {name "_mean", FIGURE}, {name "_rms", FIGURE}, {name "_median", FIGURE}, {name "_p10", FIGURE}, {                  \
        name "_p99", FIGURE                                                                                            \
    }
static const Column COLUMNS[LOG_COUNT][LOG_COLUMNS_MAX] = {
    [LOG_METRICS] = {{"step", WHOLE},
                     {"tokens", WHOLE},
                     {"seconds", .format = "%.3f"},
                     {"lr", .format = "%.8g"},
                     {"train_loss", .format = LOSS_FORMAT},
                     {"val_loss", .format = LOSS_FORMAT, .optional = true},
                     {"grad_norm", FIGURE},
                     {"val_accuracy", FIGURE, .optional = true, .added = true}},
    [LOG_ATTENTION] = {{"step", WHOLE},
                       {"layer", WHOLE},
                       {"head", WHOLE},
                       {"score_std", FIGURE},
                       {"score_max", FIGURE},
                       {"entropy", FIGURE},
                       {"max_weight", FIGURE},
                       {"saturated", FIGURE},
                       DISTRIBUTION("grad_q"),
                       DISTRIBUTION("grad_scores"),
                       {"w_q_norm", FIGURE},
                       {"w_k_norm", FIGURE},
                       {"overflows", WHOLE, .added = true},
                       {"infinities", WHOLE, .added = true},
                       {"subnormals", WHOLE, .added = true}},
};
static const int COUNTS[LOG_COUNT] = {METRICS_COLUMNS, ATTENTION_COLUMNS, 0};

/* The line of column names, with its end; "" for samples.txt. */
enum { HEADER_MAX = 1024 };
static size_t write_header(Log log, int columns, char out[HEADER_MAX]) {
    *out = 0;
    for (int c = 0; c < columns; c++)
        text_append(out, HEADER_MAX, "%s%s", COLUMNS[log][c].name, c + 1 < columns ? "," : "\n");
    return strlen(out);
}

static bool fail_to_write(const Logs *l, Log log, Error *err) {
    return failed(err, "cannot write %s/%s: %s", l->directory, LOG_NAMES[log], strerror(errno));
}

static bool open_log(Logs *l, Log log, const char *mode, Error *err) {
    char path[4096];
    if (!path_join(path, sizeof path, l->directory, LOG_NAMES[log], err)) return false;
    l->file[log] = fopen(path, mode);
    return l->file[log] || fail_to_write(l, log, err);
}

bool logs_start(Logs *l, const char *directory, Error *err) {
    *l = (Logs){.directory = directory};
    for (Log log = 0; log < LOG_COUNT; log++) {
        char header[HEADER_MAX];
        if (!open_log(l, log, "wb", err)) return false;
        l->columns[log] = COUNTS[log];
        write_header(log, l->columns[log], header);
        fputs(header, l->file[log]);
        if (!logs_flush(l, log, err)) return false;
    }
    return true;
}

void logs_close(Logs *l) {
    /* Every row was flushed and checked when it was written. */
    for (int log = 0; log < LOG_COUNT; log++)
        if (l->file[log]) fclose(l->file[log]);
    *l = (Logs){0};
}

void logs_append(const Logs *l, Log log, const double row[]) {
    FILE *file = l->file[log];
    for (int c = 0; c < l->columns[log]; c++) {
        const Column *column = &COLUMNS[log][c];
        if (c) fputc(',', file);
        if (!(column->optional && isnan(row[c]))) fprintf(file, column->format, row[c]);
    }
    fputc('\n', file);
}

bool logs_flush(const Logs *l, Log log, Error *err) {
    return (fflush(l->file[log]) == 0 && !ferror(l->file[log])) || fail_to_write(l, log, err);
}

bool logs_sync(const Logs *l, Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++)
        if (fsync(fileno(l->file[log])) != 0) return fail_to_write(l, log, err);
    return true;
}

void logs_sizes(const Logs *l, size_t size[LOG_COUNT]) {
    for (int log = 0; log < LOG_COUNT; log++) size[log] = (size_t)ftello(l->file[log]);
}

static bool is_whole(double number) { return number >= 0 && number < 0x1p53 && number == floor(number); }

/* Parses a line, which has a zero byte at `end`, into the table's next row. */
static bool take_row(const char *path, Log log, const char *line, const char *end, LogTable *table, Error *err) {
    const size_t line_number = table->rows + 2; /* in the file */
    for (int c = table->columns; c < COUNTS[log]; c++) table->column[c][table->rows] = NAN;
    for (int c = 0; c < table->columns; c++, line++) {
        const Column *column = &COLUMNS[log][c];
        const bool empty = *line == ',' || line == end;
        char *behind = NULL;
        const double number = empty ? NAN : strtod(line, &behind);
        if (!empty) line = behind;
        if (c + 1 < table->columns ? *line != ',' : line != end)
            return rejected(err, "%s:%zu is not a row of %d numbers", path, line_number, table->columns);
        if (column->whole && !is_whole(number))
            return rejected(err, "%s:%zu: %s is not a whole number", path, line_number, column->name);
        if (empty && !column->optional) return rejected(err, "%s:%zu: %s is empty", path, line_number, column->name);
        table->column[c][table->rows] = number;
    }
    table->rows++;
    return true;
}

static bool take_rows(const char *path, Log log, char *text, size_t size, LogTable *table, Error *err) {
    const size_t count = (size_t)COUNTS[log];
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    table->numbers = calloc(size_add(size_mul(lines, count), 1), sizeof *table->numbers);
    if (!table->numbers) return failed(err, "no memory for the rows of %s", path);
    for (size_t c = 0; c < count; c++) table->column[c] = table->numbers + c * lines;
    for (char *line = text, *end; table->rows < lines; line = end + 1) {
        end = memchr(line, '\n', size - (size_t)(line - text));
        *end = 0;
        if (!take_row(path, log, line, end, table, err)) return false;
    }
    return true;
}

/* The rows in the first `limit` bytes of a log, which must be whole lines (SIZE_MAX: all whole lines it has). */
static bool read_part(const char *directory, Log log, size_t limit, LogTable *table, Error *err) {
    char path[4096], header[HEADER_MAX], *text = NULL;
    size_t size;
    bool ok = true;
    *table = (LogTable){.columns = COUNTS[log]};
    if (!path_join(path, sizeof path, directory, LOG_NAMES[log], err) ||
        !file_read(path, "the log", SIZE_MAX / 2, STATUS_USAGE, &text, &size, err))
        return false;
    if (limit != SIZE_MAX && (size < limit || (limit > 0 && text[limit - 1] != '\n')))
        ok = rejected(err, "%s is not as the checkpoint left it: %zu bytes of whole lines", path, limit);
    else if (limit < size) size = limit;
    size_t skipped;
    bool known;
    do {
        skipped = write_header(log, table->columns, header);
        known = size >= skipped && memcmp(text, header, skipped) == 0;
    } while (!known && table->columns && COLUMNS[log][table->columns - 1].added && table->columns--);
    if (ok && !known) {
        write_header(log, COUNTS[log], header);
        ok = rejected(err, "%s does not begin with the line that version %s writes there: %.*s", path, SQRTDK_VERSION,
                      (int)strcspn(header, "\n"), header);
    }
    ok = ok && take_rows(path, log, text + skipped, size - skipped, table, err);
    free(text);
    return ok;
}

bool logs_read(const char *directory, Log log, LogTable *table, Error *err) {
    return read_part(directory, log, SIZE_MAX, table, err);
}

void log_table_free(LogTable *table) {
    free(table->numbers);
    *table = (LogTable){0};
}

bool logs_resume(Logs *l, const char *directory, const size_t size[LOG_COUNT], Error *err) {
    bool ok = true;
    *l = (Logs){.directory = directory};
    for (Log log = 0; ok && log < LOG_COUNT; log++) {
        LogTable table;
        ok = read_part(directory, log, size[log], &table, err);
        l->columns[log] = table.columns;
        log_table_free(&table);
    }
    for (Log log = 0; ok && log < LOG_COUNT; log++)
        ok = open_log(l, log, "r+b", err) && ((ftruncate(fileno(l->file[log]), (off_t)size[log]) == 0 &&
                                               fseeko(l->file[log], (off_t)size[log], SEEK_SET) == 0) ||
                                              fail_to_write(l, log, err));
    return ok;
}

double log_last(const LogTable *table, int column) {
    for (size_t row = table->rows; row-- > 0;)
        if (!isnan(table->column[column][row])) return table->column[column][row];
    return NAN;
}

bool logs_read_any(const char *directory, Log log, LogTable *table, Error *err) {
    char path[4096];
    bool there;
    *table = (LogTable){0};
    return path_join(path, sizeof path, directory, LOG_NAMES[log], err) && path_find(path, &there, err) &&
           (!there || logs_read(directory, log, table, err));
}

double logs_rounded(double loss) {
    char text[64];
    snprintf(text, sizeof text, LOSS_FORMAT, loss);
    return strtod(text, NULL);
}
