#include "train/description.h"

#include <math.h>
#include <string.h>

#include "base/results.h"
#include "ops/matmul.h"
#include "train/logs.h"

/* What the config makes of the model: it may be edited until there is a checkpoint. */
static void set_model(Json *d, const Run *run, const Model *model) {
    const ScaleDivisor scale = run->config.attention.scale_divisor;
    char divisor[64];
    scale_text(scale, divisor, sizeof divisor);
    js_set(d, "parameters", js_integer((int64_t)model->tensors.parameters));
    js_set(d, "scale_divisor", js_text(divisor));
    js_set(d, "divisor", js_number(divisor_value(scale, model->shape.attention.D)));
    js_set(d, "multiplier", js_number((double)model->shape.attention.multiplier));
}

Json *description_make(const Run *run, const Model *model, const char *command_line) {
    char fingerprint[CORPUS_FINGERPRINT];
    corpus_fingerprint(&run->corpus, fingerprint);
    Json *d = run_description(command_line, model->threads);
    js_set(d, "products", js_text(matmul_is_own() ? "sqrtdk" : "OpenBLAS"));
    js_set(d, "blas_core", js_text(matmul_core()));
    js_set(d, "blas_build", js_text(matmul_is_openmp_build() ? "OpenMP" : "pthread"));
    js_set(d, "name", js_text(run->config.name));
    js_set(d, "corpus", js_text(fingerprint));
    js_set(d, "vocabulary", js_integer((int64_t)model->shape.V));
    set_model(d, run, model);
    js_set(d, "result", js_text("running"));
    return d;
}

/* Bits repeat only where threads and kernels are what they were. */
static void note_differences(const Json *d, size_t then, size_t threads, Progress *progress) {
    const char *core = js_as_text(js_get(d, "blas_core")), *products = js_as_text(js_get(d, "products"));
    const bool own = products && strcmp(products, "sqrtdk") == 0;
    if (own && matmul_is_own()) return; /* the same bits with any number of threads */
    if (!own && !matmul_is_own() && then == threads && core && strcmp(core, matmul_core()) == 0) return;
    progress_message(progress,
                     "  note      started with %zu thread%s (%s), resumed with %zu (%s):\n"
                     "            from here on equal to rounding, not to the bit",
                     then, then == 1 ? "" : "s",
                     own    ? "own products"
                     : core ? core
                            : "?",
                     threads, matmul_is_own() ? "own products" : matmul_core());
}

/* What description_conclude said of the run's former end. */
static void forget_end(Json *d) {
    static const char *const keys[] = {"error",         "steps",     "train_loss", "val_loss",
                                       "best_val_loss", "best_step", "seconds",    "end"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) js_remove(d, keys[i]);
}

bool description_resume(const Run *run, const Model *model, size_t step, const char *command_line, Progress *progress,
                        Error *err) {
    Json *d;
    bool ok = run_load_description(run, &d, err);
    if (ok) {
        Json *now = js_object();
        js_set(now, "step", js_integer((int64_t)step));
        js_set(now, "time", time_now());
        js_set(now, "version", js_text(SQRTDK_VERSION));
        js_set(now, "command", js_text(command_line));
        js_set(now, "threads", js_integer((int64_t)model->threads));
        js_set(now, "blas_core", js_text(matmul_core()));
        js_append(js_list(d, "resumed"), now);
        forget_end(d);
        set_model(d, run, model);
        js_set(d, "result", js_text("running"));
        progress_message(progress, "resuming %s in %s at step %zu of %lld", run->config.name, run->directory, step,
                         (long long)run->config.train.steps);
        note_differences(d, run->threads, model->threads, progress);
        ok = run_save_description(run, d, err);
    }
    js_free(d);
    return ok;
}

/* The last losses in the logs; NaN where there are none. */
static bool last_losses(const Run *run, double *train_loss, double *val_loss, Error *err) {
    LogTable metrics = {0};
    *train_loss = *val_loss = NAN;
    bool there;
    if (!logs_find(run->directory, LOG_METRICS, &there, err)) return false;
    if (!there) return true; /* it failed before they were made */
    bool ok = logs_read(run->directory, LOG_METRICS, 0, SIZE_MAX, &metrics, err);
    if (ok) {
        *train_loss = log_last(&metrics, METRICS_TRAIN_LOSS);
        *val_loss = log_last(&metrics, METRICS_VAL_LOSS);
    }
    log_table_free(&metrics);
    return ok;
}

static void set_end(Json *d, const RunEnd *end, double train_loss, double val_loss) {
    const Error *failure = end->failure;
    js_set(d, "result",
           js_text(failure       ? failure->status == STATUS_DIVERGED ? "diverged" : "failed"
                   : end->signal ? "interrupted"
                                 : "finished"));
    if (failure) js_set(d, "error", js_text(failure->message));
    js_set(d, "steps", js_integer((int64_t)end->steps));
    js_set(d, "train_loss", js_number(train_loss));
    js_set(d, "val_loss", js_number(val_loss));
    js_set(d, "best_val_loss", js_number(end->best_val_loss));
    js_set(d, "best_step", js_integer((int64_t)end->best_step));
    js_set(d, "seconds", js_number(end->seconds));
    js_set(d, "end", time_now());
}

bool description_conclude(const Run *run, const RunEnd *end, Error *err) {
    double train_loss, val_loss;
    Json *d = NULL;
    Error second;
    const bool read = last_losses(run, &train_loss, &val_loss, err);
    Error *where = read ? err : &second; /* the first error is the one to report */
    bool ok = run_load_description(run, &d, where);
    if (ok) {
        set_end(d, end, train_loss, val_loss);
        ok = run_save_description(run, d, where);
    }
    js_free(d);
    return read && ok;
}

bool description_check_corpus(const Json *description, const char *directory, const char *path, const Corpus *corpus,
                              Error *err) {
    char fingerprint[CORPUS_FINGERPRINT];
    const char *then = js_as_text(js_get(description, "corpus"));
    corpus_fingerprint(corpus, fingerprint);
    if (then && strcmp(then, fingerprint) == 0) return true;
    return error_set(err, STATUS_USAGE, "%s was trained on another text: %s or %s/vocab.json has changed since",
                     directory, *path ? path : "the built-in one", directory);
}
