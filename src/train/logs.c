#include "train/logs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/csv.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/results.h"

const char *const LOG_NAMES[LOG_COUNT] = {"metrics.csv", "attention.csv", "samples.txt"};

#define LOSS_FORMAT "%.7g"
#define WHOLE "%.0f", .whole = true
#define FIGURE "%.6g"

/* A field that is `optional` is left empty for a NaN, which is otherwise written as one; `whole` are numbers that
 * count. */
typedef struct {
    const char *name, *format;
    bool optional, whole;
} Column;

#define SPREAD(name)                                                                                                   \
    {name "_mean", FIGURE}, {name "_rms", FIGURE}, {name "_median", FIGURE}, {name "_p10", FIGURE}, {                  \
        name "_p99", FIGURE                                                                                            \
    }
static const Column COLUMNS[LOG_COUNT][LOG_COLUMNS_MAX] = {
    [LOG_METRICS] = {{"step", WHOLE},
                     {"tokens", WHOLE},
                     {"seconds", "%.3f"},
                     {"lr", "%.8g"},
                     {"train_loss", LOSS_FORMAT},
                     {"val_loss", LOSS_FORMAT, .optional = true},
                     {"grad_norm", FIGURE}},
    [LOG_ATTENTION] = {{"step", WHOLE},
                       {"layer", WHOLE},
                       {"head", WHOLE},
                       {"score_std", FIGURE},
                       {"score_max", FIGURE},
                       {"entropy", FIGURE},
                       {"max_weight", FIGURE},
                       {"saturated", FIGURE},
                       SPREAD("grad_q"),
                       SPREAD("grad_scores"),
                       {"w_q_norm", FIGURE},
                       {"w_k_norm", FIGURE}},
};
static const int COUNTS[LOG_COUNT] = {METRICS_COLUMNS, ATTENTION_COLUMNS, 0};

/* The line of column names, with its end; "" for samples.txt. */
static void write_header(Log log, char out[1024]) {
    size_t used = 0;
    *out = 0;
    for (int c = 0; c < COUNTS[log]; c++)
        used +=
            (size_t)snprintf(out + used, 1024 - used, "%s%s", COLUMNS[log][c].name, c + 1 < COUNTS[log] ? "," : "\n");
}

static bool fail_to_write(const Logs *l, Log log, Error *err) {
    return error_set(err, STATUS_FAILED, "cannot write %s/%s: %s", l->directory, LOG_NAMES[log], strerror(errno));
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
        char header[1024];
        if (!open_log(l, log, "wb", err)) return false;
        write_header(log, header);
        fputs(header, l->file[log]);
        if (!logs_flush(l, log, err)) return false;
    }
    return true;
}

/* Opens a log and checks that it is one and holds whole lines up to `size`. */
static bool open_old(Logs *l, Log log, size_t size, Error *err) {
    char header[1024], *c = header, last = '\n';
    if (!open_log(l, log, "r+b", err)) return false;
    FILE *file = l->file[log];
    write_header(log, header);
    while (*c && getc(file) == *c) c++;
    if (*c)
        return error_set(err, STATUS_USAGE, "%s/%s does not begin with the line that version %s writes there: %.*s",
                         l->directory, LOG_NAMES[log], SQRTDK_VERSION, (int)strcspn(header, "\n"), header);
    if (size < strlen(header) || fseeko(file, 0, SEEK_END) != 0 || ftello(file) < (off_t)size ||
        (size > 0 && (fseeko(file, (off_t)size - 1, SEEK_SET) != 0 || fread(&last, 1, 1, file) != 1)) || last != '\n')
        return error_set(err, STATUS_USAGE, "%s/%s is not as the checkpoint left it: %zu bytes of whole lines",
                         l->directory, LOG_NAMES[log], size);
    return true;
}

static bool read_table(const char *directory, Log log, size_t limit, LogTable *table, Error *err);

bool logs_resume(Logs *l, const char *directory, const size_t size[LOG_COUNT], Error *err) {
    bool ok = true;
    *l = (Logs){.directory = directory};
    for (Log log = 0; ok && log < LOG_COUNT; log++) {
        LogTable table = {0};
        ok = open_old(l, log, size[log], err) &&
             (COUNTS[log] == 0 || read_table(directory, log, size[log], &table, err));
        log_table_free(&table);
    }
    for (Log log = 0; ok && log < LOG_COUNT; log++)
        ok = (ftruncate(fileno(l->file[log]), (off_t)size[log]) == 0 &&
              fseeko(l->file[log], (off_t)size[log], SEEK_SET) == 0) ||
             fail_to_write(l, log, err);
    return ok;
}

void logs_close(Logs *l) {
    /* Every row was flushed and checked when it was written. */
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

/* The columns of this log out of those a file has. */
static bool take_columns(const CsvTable *csv, const char *path, Log log, LogTable *table, Error *err) {
    const size_t count = (size_t)COUNTS[log];
    table->numbers = calloc(size_mul(csv->rows, count) + 1, sizeof *table->numbers);
    if (!table->numbers) return error_set(err, STATUS_FAILED, "no memory for the rows of %s", path);
    table->rows = csv->rows;
    for (size_t c = 0; c < count; c++) {
        size_t place;
        if (!csv_column(csv, path, COLUMNS[log][c].name, &place, err)) return false;
        table->column[c] = table->numbers + c * csv->rows;
        for (size_t row = 0; row < csv->rows; row++) {
            const double number = table->column[c][row] = csv_at(csv, row, place);
            if (COLUMNS[log][c].whole && !is_whole(number))
                return error_set(err, STATUS_USAGE, "%s:%zu: its %s is not a whole number", path, row + 2,
                                 COLUMNS[log][c].name);
        }
    }
    return true;
}

static bool read_table(const char *directory, Log log, size_t limit, LogTable *table, Error *err) {
    char path[4096];
    CsvTable csv = {0};
    *table = (LogTable){0};
    bool ok = path_join(path, sizeof path, directory, LOG_NAMES[log], err) && csv_read(&csv, path, limit, err) &&
              take_columns(&csv, path, log, table, err);
    csv_free(&csv);
    return ok;
}

bool logs_read(const char *directory, Log log, LogTable *table, Error *err) {
    return read_table(directory, log, SIZE_MAX, table, err);
}

void log_table_free(LogTable *table) {
    free(table->numbers);
    *table = (LogTable){0};
}

double log_last(const LogTable *table, int column) {
    for (size_t row = table->rows; row-- > 0;)
        if (!isnan(table->column[column][row])) return table->column[column][row];
    return NAN;
}

bool logs_find(const char *directory, Log log, bool *there, Error *err) {
    char path[4096];
    return path_join(path, sizeof path, directory, LOG_NAMES[log], err) && path_find(path, there, err);
}

bool logs_parse_row(Log log, char *line, double row[]) {
    for (int c = 0; c < COUNTS[log]; c++) {
        char *field = strsep(&line, ","), *end = field;
        if (!field) return false;
        const bool empty = *field == 0;
        row[c] = empty ? NAN : strtod(field, &end);
        if (*end || (empty && !COLUMNS[log][c].optional) || (COLUMNS[log][c].whole && !is_whole(row[c]))) return false;
    }
    return line == NULL;
}

double logs_rounded(double loss) {
    char text[64];
    snprintf(text, sizeof text, LOSS_FORMAT, loss);
    return strtod(text, NULL);
}
