#include "train/logs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/results.h"

const char *const LOG_NAMES[LOG_COUNT] = {"metrics.csv", "attention.csv", "samples.txt"};

#define LOSS_FORMAT "%.7g"
#define WHOLE .format = "%.0f", .whole = true
#define FIGURE .format = "%.6g"

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
                     {"seconds", .format = "%.3f"},
                     {"lr", .format = "%.8g"},
                     {"train_loss", .format = LOSS_FORMAT},
                     {"val_loss", .format = LOSS_FORMAT, .optional = true},
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

bool logs_resume(Logs *l, const char *directory, const size_t size[LOG_COUNT], Error *err) {
    bool ok = true;
    *l = (Logs){.directory = directory};
    for (Log log = 0; ok && log < LOG_COUNT; log++) {
        LogTable table = {0};
        ok = open_old(l, log, size[log], err) &&
             (COUNTS[log] == 0 || logs_read(directory, log, 0, size[log], &table, err));
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

enum { FIELDS_MAX = 256, HEADER_MAX = 65536 }; /* columns, and bytes of their names, that a later version may have */

/* How a file's rows are read. */
typedef struct {
    Log log;
    char path[4096];
    size_t from, header;    /* bytes: where the first row to read begins; where the first of all does */
    size_t fields;          /* of a row */
    int column[FIELDS_MAX]; /* that a field is; COUNTS[log]: none of this version's */
} Reader;

static int column_named(Log log, const char *name) {
    int c = 0;
    while (c < COUNTS[log] && strcmp(COLUMNS[log][c].name, name) != 0) c++;
    return c;
}

static bool take_names(Reader *r, char *line, Error *err) {
    bool found[LOG_COLUMNS_MAX + 1] = {false};
    for (char *name; (name = strsep(&line, ",")) != NULL; r->fields++) {
        if (r->fields == FIELDS_MAX)
            return error_set(err, STATUS_USAGE, "%s has more than %d columns", r->path, (int)FIELDS_MAX);
        r->column[r->fields] = column_named(r->log, name);
        found[r->column[r->fields]] = true;
    }
    for (int c = 0; c < COUNTS[r->log]; c++)
        if (!found[c]) return error_set(err, STATUS_USAGE, "%s has no column %s", r->path, COLUMNS[r->log][c].name);
    return true;
}

static bool read_header(Reader *r, size_t limit, Error *err) {
    char *text = NULL;
    size_t size;
    if (!file_read_part(r->path, "the log", 0, limit < HEADER_MAX ? limit : HEADER_MAX, STATUS_USAGE, &text, &size,
                        err))
        return false;
    char *end = memchr(text, '\n', size);
    bool ok = end || error_set(err, STATUS_USAGE, "%s has no line of column names", r->path);
    if (ok) {
        *end = 0;
        r->header = (size_t)(end - text) + 1;
        ok = take_names(r, text, err);
    }
    free(text);
    return ok;
}

static bool refuse_row(const Reader *r, size_t row, const char *name, const char *what, Error *err) {
    char from[64] = "";
    if (r->from > r->header) snprintf(from, sizeof from, ", counted from byte %zu on", r->from);
    return error_set(err, STATUS_USAGE, "%s:%zu%s%s%s %s", r->path, r->from > r->header ? row + 1 : row + 2, from,
                     *name ? ": its " : "", name, what);
}

/* A line, which ends with a zero byte at `end`, into the table's next row. */
static bool take_row(const Reader *r, const char *line, const char *end, LogTable *table, Error *err) {
    for (size_t field = 0; field < r->fields; field++, line++) {
        const bool empty = *line == ',' || line == end, last = field + 1 == r->fields;
        const int c = r->column[field];
        char *behind = NULL;
        const double number = empty ? NAN : strtod(line, &behind);
        if (!empty) line = behind;
        if (last ? line != end : *line != ',') {
            char what[64];
            snprintf(what, sizeof what, "is not a row of %zu numbers", r->fields);
            return refuse_row(r, table->rows, "", what, err);
        }
        if (c == COUNTS[r->log]) continue;
        const Column *column = &COLUMNS[r->log][c];
        if (column->whole && !is_whole(number))
            return refuse_row(r, table->rows, column->name, "is not a whole number", err);
        if (empty && !column->optional) return refuse_row(r, table->rows, column->name, "is empty", err);
        table->column[c][table->rows] = number;
    }
    table->rows++;
    return true;
}

static size_t count_lines(const char *text, size_t size) {
    size_t count = 0;
    for (const char *end = text + size; text < end && (text = memchr(text, '\n', (size_t)(end - text))); text++)
        count++;
    return count;
}

static bool take_rows(const Reader *r, char *text, size_t size, LogTable *table, Error *err) {
    const size_t lines = count_lines(text, size), count = (size_t)COUNTS[r->log];
    table->end = r->from;
    table->numbers = calloc(size_add(size_mul(lines, count), 1), sizeof *table->numbers);
    if (!table->numbers) return error_set(err, STATUS_FAILED, "no memory for the rows of %s", r->path);
    for (size_t c = 0; c < count; c++) table->column[c] = table->numbers + c * lines;
    for (char *line = text, *end; table->rows < lines; line = end + 1) {
        end = memchr(line, '\n', size - (size_t)(line - text));
        *end = 0;
        if (!take_row(r, line, end, table, err)) return false;
        table->end += (size_t)(end - line) + 1;
    }
    return true;
}

/* With the byte before the first row, which must end a line: else *begins is false, and the table empty. */
static bool read_rows(const Reader *r, size_t limit, LogTable *table, bool *begins, Error *err) {
    char *text = NULL;
    size_t size;
    const size_t before = r->from - 1;
    if (!file_read_part(r->path, "the log", before, limit - before, STATUS_USAGE, &text, &size, err)) return false;
    *begins = size > 0 && *text == '\n';
    bool ok = !*begins || take_rows(r, text + 1, size - 1, table, err);
    free(text);
    return ok;
}

bool logs_read(const char *directory, Log log, size_t from, size_t limit, LogTable *table, Error *err) {
    Reader r = {.log = log};
    bool begins;
    *table = (LogTable){0};
    if (!path_join(r.path, sizeof r.path, directory, LOG_NAMES[log], err) || !read_header(&r, limit, err)) return false;
    r.from = from > r.header && from <= limit ? from : r.header;
    if (!read_rows(&r, limit, table, &begins, err)) return false;
    if (begins) return true;
    r.from = r.header; /* the log was cut back since */
    return read_rows(&r, limit, table, &begins, err) &&
           (begins || error_set(err, STATUS_USAGE, "%s changed while it was read", r.path));
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

double logs_rounded(double loss) {
    char text[64];
    snprintf(text, sizeof text, LOSS_FORMAT, loss);
    return strtod(text, NULL);
}
