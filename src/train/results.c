#include "train/results.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "train/run_directory.h"

bool results_path(const Results *r, char path[4096], const char *name, Error *err) {
    return path_join(path, 4096, r->directory, name, err);
}

static bool open_log(const Results *r, const char *name, const char *header, FILE **file, Error *err) {
    char path[4096];
    if (!results_path(r, path, name, err)) return false;
    *file = fopen(path, "wb");
    if (!*file) return error_set(err, STATUS_FAILED, "cannot write %s: %s", path, strerror(errno));
    fputs(header, *file);
    return true;
}

static bool flush_log(const Results *r, FILE *file, const char *name, Error *err) {
    if (fflush(file) == 0 && !ferror(file)) return true;
    return error_set(err, STATUS_FAILED, "cannot write %s/%s: %s", r->directory, name, strerror(errno));
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
    return results_path(r, path, name, err) && directory_make(path, true, err);
}

bool results_open(Results *r, const char *directory, const Config *config, const Vocabulary *vocabulary,
                  Json *description, Error *err) {
    char path[4096];
    *r = (Results){.directory = directory, .description = description};
    js_set(description, "result", js_text("running"));
    return run_description_save(description, directory, err) && write_config(r, config, err) &&
           results_path(r, path, "vocab.json", err) && vocabulary_save(vocabulary, path, err) &&
           make_subdirectory(r, "attention", err) && make_subdirectory(r, "checkpoint", err) &&
           open_log(r, "metrics.csv", "step,tokens,seconds,lr,train_loss,val_loss,grad_norm\n", &r->metrics, err) &&
           open_log(r, "attention.csv", "step,layer,head,score_std,score_max,entropy,max_weight\n", &r->attention,
                    err) &&
           open_log(r, "samples.txt", "", &r->samples, err);
}

bool results_metrics(Results *r, const MetricsRow *row, Error *err) {
    fprintf(r->metrics, "%zu,%zu,%.3f,%.8g,%.7g,", row->step, row->tokens, row->seconds, row->lr, row->train_loss);
    if (!isnan(row->val_loss)) fprintf(r->metrics, "%.7g", row->val_loss);
    fprintf(r->metrics, ",%.6g\n", row->grad_norm);
    return flush_log(r, r->metrics, "metrics.csv", err);
}

bool results_attention(Results *r, const RunRecord *record, const Look *look, Error *err) {
    for (size_t i = 0; i < record->L * record->H; i++) {
        const HeadStatistics *s = &look->heads[i];
        fprintf(r->attention, "%zu,%zu,%zu,%.6g,%.6g,%.6g,%.6g\n", look->step, i / record->H, i % record->H,
                s->score_std, s->score_max, s->entropy, s->max_weight);
    }
    return flush_log(r, r->attention, "attention.csv", err);
}

bool results_flush_samples(Results *r, Error *err) { return flush_log(r, r->samples, "samples.txt", err); }

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
    if (r->metrics) fclose(r->metrics);
    if (r->attention) fclose(r->attention);
    if (r->samples) fclose(r->samples);
    js_free(r->description);
    *r = (Results){0};
}
