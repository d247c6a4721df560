#include "train/results.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/results.h"

static const char *const HEADERS[LOG_COUNT] = {
    "step,tokens,seconds,lr,train_loss,val_loss,grad_norm\n",
    "step,layer,head,score_std,score_max,entropy,max_weight,saturated,"
    "grad_q_mean,grad_q_rms,grad_q_median,grad_q_p10,grad_q_p99,"
    "grad_scores_mean,grad_scores_rms,grad_scores_median,grad_scores_p10,grad_scores_p99,w_q_norm,w_k_norm\n",
    "",
};

bool results_path(const Results *r, char path[4096], const char *name, Error *err) {
    return path_join(path, 4096, r->directory, name, err);
}

static bool open_log(Results *r, Log log, const char *mode, Error *err) {
    char path[4096];
    if (!results_path(r, path, LOG_NAMES[log], err)) return false;
    r->logs[log] = fopen(path, mode);
    return r->logs[log] || error_set(err, STATUS_FAILED, "cannot write %s: %s", path, strerror(errno));
}

static bool flush_log(const Results *r, Log log, Error *err) {
    if (fflush(r->logs[log]) == 0 && !ferror(r->logs[log])) return true;
    return error_set(err, STATUS_FAILED, "cannot write %s/%s: %s", r->directory, LOG_NAMES[log], strerror(errno));
}

/* Empty but for its header. */
static bool start_log(Results *r, Log log, Error *err) {
    if (!open_log(r, log, "wb", err)) return false;
    fputs(HEADERS[log], r->logs[log]);
    return flush_log(r, log, err);
}

void results_log_sizes(const Results *r, size_t log_size[LOG_COUNT]) {
    for (int log = 0; log < LOG_COUNT; log++) log_size[log] = (size_t)ftello(r->logs[log]);
}

bool results_sync(const Results *r, Error *err) {
    for (Log log = 0; log < LOG_COUNT; log++)
        if (fsync(fileno(r->logs[log])) != 0)
            return error_set(err, STATUS_FAILED, "cannot write %s/%s: %s", r->directory, LOG_NAMES[log],
                             strerror(errno));
    return true;
}

static bool write_config(const Results *r, const Config *config, Error *err) {
    char path[4096];
    FileWriter writer;
    if (!results_path(r, path, "config.ini", err) || !file_writer_open(&writer, path, err)) return false;
    config_write(config, writer.stream);
    return file_writer_commit(&writer, err);
}

static bool make_subdirectory(const Results *r, const char *name, Error *err) {
    char path[4096];
    return results_path(r, path, name, err) && directory_make(path, false, err);
}

bool results_open(Results *r, const char *directory, const Config *config, const Vocabulary *vocabulary,
                  Json *description, Error *err) {
    char path[4096];
    *r = (Results){.directory = directory, .lock = -1, .description = description};
    js_set(description, "result", js_text("running"));
    bool ok = run_description_save(description, directory, err) && write_config(r, config, err) &&
              results_path(r, path, "vocab.json", err) && vocabulary_save(vocabulary, path, err) &&
              make_subdirectory(r, "attention", err) && make_subdirectory(r, "checkpoint", err);
    for (Log log = 0; ok && log < LOG_COUNT; log++) ok = start_log(r, log, err);
    return ok;
}

bool results_enter(Results *r, const char *directory, Error *err) {
    *r = (Results){.directory = directory, .lock = -1};
    return run_description_load(&r->description, directory, err) && directory_lock(directory, &r->lock, err);
}

/* Opens a log and checks that it is one and holds whole lines up to `size`. */
static bool open_old_log(Results *r, Log log, size_t size, Error *err) {
    const char *header = HEADERS[log], *name = LOG_NAMES[log], *c = header;
    char last = '\n';
    if (!open_log(r, log, "r+b", err)) return false;
    FILE *file = r->logs[log];
    while (*c && getc(file) == *c) c++;
    if (*c)
        return error_set(err, STATUS_USAGE, "%s/%s does not begin with the line that version %s writes there: %.*s",
                         r->directory, name, SQRTDK_VERSION, (int)strcspn(header, "\n"), header);
    if (size < strlen(header) || fseeko(file, 0, SEEK_END) != 0 || ftello(file) < (off_t)size ||
        (size > 0 && (fseeko(file, (off_t)size - 1, SEEK_SET) != 0 || fread(&last, 1, 1, file) != 1)) || last != '\n')
        return error_set(err, STATUS_USAGE, "%s/%s is not as the checkpoint left it: %zu bytes of whole lines",
                         r->directory, name, size);
    return true;
}

static bool cut_log(Results *r, Log log, size_t size, Error *err) {
    FILE *file = r->logs[log];
    if (ftruncate(fileno(file), (off_t)size) == 0 && fseeko(file, (off_t)size, SEEK_SET) == 0) return true;
    return error_set(err, STATUS_FAILED, "cannot write %s/%s: %s", r->directory, LOG_NAMES[log], strerror(errno));
}

static bool read_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == 0;
}

bool metrics_row_read(char *line, MetricsRow *row) {
    enum { STEP, TRAIN_LOSS = 4, VAL_LOSS = 5, FIELDS = 7 };
    char *fields[FIELDS] = {0}, *end;
    size_t count = 0;
    while (line && count < FIELDS) fields[count++] = strsep(&line, ",");
    if (line || count < FIELDS || !isdigit((unsigned char)*fields[STEP])) return false;
    row->step = strtoull(fields[STEP], &end, 10);
    row->val_loss = NAN;
    return *end == 0 && read_number(fields[TRAIN_LOSS], &row->train_loss) &&
           (!*fields[VAL_LOSS] || read_number(fields[VAL_LOSS], &row->val_loss));
}

/* The curves in metrics.csv, up to its first `size` bytes. */
static bool read_curves(const Results *r, size_t size, RunRecord *record, Error *err) {
    char path[4096], *text = NULL;
    size_t all;
    bool ok = results_path(r, path, LOG_NAMES[LOG_METRICS], err) &&
              file_read(path, "the log", SIZE_MAX / 2, STATUS_USAGE, &text, &all, err);
    if (ok && all > size) text[size] = 0;
    char *rest = ok ? text : NULL, *line;
    strsep(&rest, "\n"); /* the header is looked at elsewhere */
    for (size_t number = 2; ok && (line = strsep(&rest, "\n")) != NULL && *line; number++) {
        MetricsRow row = {0};
        ok = metrics_row_read(line, &row) ||
             error_set(err, STATUS_USAGE, "%s:%zu is not a row that this program writes", path, number);
        if (ok) record_train_loss(record, row.step, row.train_loss);
        if (ok && !isnan(row.val_loss)) record_val_loss(record, row.step, row.val_loss);
    }
    free(text);
    return ok;
}

bool results_go_on(Results *r, const Config *config, const size_t log_size[LOG_COUNT], RunRecord *record, Error *err) {
    bool fresh = log_size[LOG_METRICS] == 0, ok = fresh || read_curves(r, log_size[LOG_METRICS], record, err);
    for (Log log = 0; ok && log < LOG_COUNT; log++) ok = fresh || open_old_log(r, log, log_size[log], err);
    for (Log log = 0; ok && log < LOG_COUNT; log++)
        ok = fresh ? start_log(r, log, err) : cut_log(r, log, log_size[log], err);
    js_remove(r->description, "error");
    js_remove(r->description, "end");
    js_set(r->description, "result", js_text("running"));
    return ok && make_subdirectory(r, "attention", err) && make_subdirectory(r, "checkpoint", err) &&
           write_config(r, config, err) && run_description_save(r->description, r->directory, err);
}

#define LOSS_FORMAT "%.7g"

/* A loss as a row has it. */
static double rounded(double loss) {
    char text[64];
    snprintf(text, sizeof text, LOSS_FORMAT, loss);
    return strtod(text, NULL);
}

bool results_metrics(Results *r, const MetricsRow *row, RunRecord *record, Error *err) {
    FILE *file = r->logs[LOG_METRICS];
    fprintf(file, "%zu,%zu,%.3f,%.8g," LOSS_FORMAT ",", row->step, row->tokens, row->seconds, row->lr, row->train_loss);
    if (!isnan(row->val_loss)) fprintf(file, LOSS_FORMAT, row->val_loss);
    fprintf(file, ",%.6g\n", row->grad_norm);
    record_train_loss(record, row->step, rounded(row->train_loss));
    if (!isnan(row->val_loss)) record_val_loss(record, row->step, rounded(row->val_loss));
    return flush_log(r, LOG_METRICS, err);
}

static void write_norms(FILE *log, const NormStatistics *s) {
    fprintf(log, ",%.6g,%.6g,%.6g,%.6g,%.6g", s->mean, s->rms, s->median, s->p10, s->p99);
}

bool results_attention(Results *r, const RunRecord *record, const Look *look, Error *err) {
    for (size_t i = 0; i < record->L * record->H; i++) {
        const HeadStatistics *s = &look->heads[i];
        FILE *log = r->logs[LOG_ATTENTION];
        fprintf(log, "%zu,%zu,%zu,%.6g,%.6g,%.6g,%.6g,%.6g", look->step, i / record->H, i % record->H, s->score_std,
                s->score_max, s->entropy, s->max_weight, s->saturated);
        write_norms(log, &look->gradients[i].query);
        write_norms(log, &look->gradients[i].scores);
        fprintf(log, ",%.6g,%.6g\n", s->w_q_norm, s->w_k_norm);
    }
    return flush_log(r, LOG_ATTENTION, err);
}

bool results_flush_samples(Results *r, Error *err) { return flush_log(r, LOG_SAMPLES, err); }

static double last_of(const double *values, size_t count) { return count ? values[count - 1] : NAN; }

bool results_conclude(Results *r, const RunRecord *record, const Error *failure, Error *err) {
    const char *result = failure          ? failure->status == STATUS_DIVERGED ? "diverged" : "failed"
                         : record->signal ? "interrupted"
                                          : "finished";
    Json *d = r->description;
    js_set(d, "result", js_text(result));
    if (failure) js_set(d, "error", js_text(failure->message));
    js_set(d, "steps", js_integer((int64_t)record->steps_done));
    js_set(d, "train_loss", js_number(last_of(record->train_loss, record->train_count)));
    js_set(d, "val_loss", js_number(last_of(record->val_loss, record->val_count)));
    js_set(d, "best_val_loss", js_number(record->best_val_loss));
    js_set(d, "best_step", js_integer((int64_t)record->best_step));
    js_set(d, "seconds", js_number(record->seconds));
    js_set(d, "end", time_now());
    return run_description_save(d, r->directory, err);
}

void results_close(Results *r) {
    /* Every row was flushed and checked when it was written. */
    for (int log = 0; log < LOG_COUNT; log++)
        if (r->logs[log]) fclose(r->logs[log]);
    if (r->directory && r->lock >= 0) close(r->lock);
    js_free(r->description);
    *r = (Results){0};
}
