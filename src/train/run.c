/* The directory of a run, and run.json in it. A process that trains holds a lock on the directory from the moment it
   has made or opened it until run_close, so that two never write the same logs. run.json is not kept in memory: it is
   loaded, changed and saved each time. */
#include "train/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/files.h"
#include "base/text.h"
#include "ops/matmul.h"
#include "train/checkpoint.h"

bool config_corpus(Corpus *corpus, const Config *c, const Vocabulary *vocabulary, Error *err) {
    if (c->data.task == TASK_RECALL) return corpus_recall(corpus, (size_t)c->data.recall_pairs, vocabulary, err);
    return corpus_load(corpus, c->data.corpus, vocabulary, c->data.val_fraction, (size_t)c->model.context, err);
}

bool run_path(const Run *run, char path[4096], const char *name, Error *err) {
    return path_join(path, 4096, run->directory, name, err);
}

static bool write_config(const Run *run, Error *err) {
    char path[4096];
    FileWriter writer;
    if (!run_path(run, path, "config.ini", err) || !file_writer_open(&writer, path, err)) return false;
    config_write(&run->config, writer.stream);
    return file_writer_commit(&writer, err);
}

/* --- run.json */

/* Describes a run in progress and its model. Also when it is resumed, since config.ini may be edited until there is a
   checkpoint. */
static void set_running(Json *d, const Run *run, const Model *model) {
    const ScaleDivisor scale = run->config.attention.scale_divisor;
    char divisor[64];
    scale_text(scale, divisor, sizeof divisor);
    js_set(d, "engine", js_text(run->config.train.engine == ENGINE_PLAIN ? "plain" : "fast"));
    js_set(d, "parameters", js_integer((int64_t)model->tensors.parameters));
    js_set(d, "scale_divisor", js_text(divisor));
    js_set(d, "divisor", js_number(divisor_value(scale, model->shape.attention.D)));
    js_set(d, "multiplier", js_number((double)(real)scale_multiplier(scale, model->shape.attention.D)));
    js_remove(d, "switch_step");
    js_remove(d, "switch_divisor");
    if (run->config.attention.switch_step > 0) {
        scale_text(run->config.attention.switch_divisor, divisor, sizeof divisor);
        js_set(d, "switch_step", js_integer(run->config.attention.switch_step));
        js_set(d, "switch_divisor", js_text(divisor));
    }
    if (!run->corpus.pairs) {
        Json *losses = js_array();
        for (size_t i = 0; i < NGRAM_ORDERS; i++) js_append(losses, js_number(run->ngrams[i]));
        js_set(d, "ngram_losses", losses);
    }
    js_set(d, "result", js_text("running"));
}

/* run.json, which the caller frees; NULL on failure. */
static Json *load_description(const Run *run, Error *err) {
    Json *d;
    if (run_description_load(&d, run->directory, err)) return d;
    js_free(d);
    return NULL;
}

static bool save_description(Json *d, const Run *run, Error *err) {
    const bool ok = run_description_save(d, run->directory, err);
    js_free(d);
    return ok;
}

static bool describe_new(const Run *run, const Model *model, const char *command_line, Error *err) {
    char fingerprint[CORPUS_FINGERPRINT];
    Json *d = run_description(command_line, model->threads);
    corpus_fingerprint(&run->corpus, fingerprint);
    js_set(d, "products", js_text(matmul_kernels(model->shape.attention.bf16)));
    js_set(d, "blas_core", js_text(matmul_core()));
    js_set(d, "blas_build", js_text(matmul_is_openmp_build() ? "OpenMP" : "pthread"));
    js_set(d, "name", js_text(run->config.name));
    js_set(d, "corpus", js_text(fingerprint));
    js_set(d, "vocabulary", js_integer((int64_t)model->shape.V));
    set_running(d, run, model);
    return save_description(d, run, err);
}

/* Says where a resumed run will not repeat the bits of one that never stopped. With our own kernels bits depend on the
   kernels alone, with OpenBLAS's on the number of threads as well. */
static void note_differences(const Json *d, bool bf16, size_t then, size_t threads, Progress *progress) {
    const char *core = js_as_text(js_get(d, "blas_core")), *products = js_as_text(js_get(d, "products"));
    const bool own = products && strcmp(products, "OpenBLAS") != 0;
    const char *now = matmul_kernels(bf16), *kernels = own ? products : core ? core : "?";
    if (strcmp(now, "OpenBLAS") == 0) now = matmul_core();
    if (strcmp(kernels, now) == 0 && (own || then == threads)) return;
    progress_message(progress, "  note      started with %zu thread%s (%s), resumed with %zu (%s):", then,
                     then == 1 ? "" : "s", kernels, threads, now);
    progress_message(progress, "            from here on equal to rounding, not to the bit");
}

static Json *resumed_entry(const Model *model, size_t step, const char *command_line) {
    Json *now = js_object();
    js_set(now, "step", js_integer((int64_t)step));
    js_set(now, "time", time_now());
    js_set(now, "version", js_text(SQRTDK_VERSION));
    js_set(now, "command", js_text(command_line));
    js_set(now, "threads", js_integer((int64_t)model->threads));
    js_set(now, "blas_core", js_text(matmul_core()));
    return now;
}

bool run_resumed(const Run *run, const Model *model, size_t step, const char *command, Progress *progress, Error *err) {
    static const char *const of_the_end[] = {"error",         "steps",     "train_loss", "val_loss",
                                             "best_val_loss", "best_step", "seconds",    "end"};
    if (!write_config(run, err)) return false;
    Json *d = load_description(run, err);
    if (!d) return false;
    js_append(js_list(d, "resumed"), resumed_entry(model, step, command));
    for (size_t i = 0; i < sizeof of_the_end / sizeof *of_the_end; i++) js_remove(d, of_the_end[i]);
    set_running(d, run, model);
    progress_message(progress, "resuming %s in %s at step %zu of %lld", run->config.name, run->directory, step,
                     (long long)run->config.train.steps);
    note_differences(d, model->shape.attention.bf16, run->threads, model->threads, progress);
    return save_description(d, run, err);
}

bool run_ended(const Run *run, const RunState *state, int signal, const Error *failure, Error *err) {
    const char *result = signal ? "interrupted" : "finished";
    if (failure) result = failure->status == STATUS_DIVERGED ? "diverged" : "failed";
    Json *d = load_description(run, err);
    if (!d) return false;
    js_set(d, "result", js_text(result));
    if (failure) js_set(d, "error", js_text(failure->message));
    js_set(d, "steps", js_integer((int64_t)state->step));
    js_set(d, "train_loss", js_number(state->train_loss));
    js_set(d, "val_loss", js_number(state->val_loss));
    js_set(d, "best_val_loss", js_number(state->best_val_loss));
    js_set(d, "best_step", js_integer((int64_t)state->best_step));
    js_set(d, "seconds", js_number(state->seconds));
    js_set(d, "end", time_now());
    return save_description(d, run, err);
}

bool description_check_corpus(const Json *d, const char *directory, const char *path, const Corpus *text, Error *err) {
    char fingerprint[CORPUS_FINGERPRINT];
    const char *then = js_as_text(js_get(d, "corpus"));
    corpus_fingerprint(text, fingerprint);
    if (then && strcmp(then, fingerprint) == 0) return true;
    return usage_error(err, "%s was trained on another text: %s or %s/vocab.json has changed since", directory,
                       *path ? path : "the built-in one", directory);
}

bool run_count_ngrams(Run *run, Error *err) {
    const Corpus *c = &run->corpus;
    if (c->pairs) return true;
    return ngram_losses(c->ids, c->train, c->ids + c->train, c->count - c->train, c->vocabulary.count, run->ngrams,
                        err);
}

bool run_ngram_losses(const char *directory, double losses[NGRAM_ORDERS], bool *known, Error *err) {
    Json *d;
    const bool ok = run_description_load(&d, directory, err);
    *known = ok;
    for (size_t i = 0; *known && i < NGRAM_ORDERS; i++)
        *known = js_as_number(js_at(js_get(d, "ngram_losses"), i), &losses[i]);
    js_free(d);
    return ok;
}

static bool not_as_left(const char *directory, Log log, const char *what, double logged, double described, Error *err) {
    char here[32] = "missing", there[32] = "none";
    if (!isnan(logged)) snprintf(here, sizeof here, "%.7g", logged);
    if (!isnan(described)) snprintf(there, sizeof there, "%.7g", described);
    return usage_error(
        err,
        "%s/%s is not as the run left it: %s is %s, not %s: put the file back, or move the directory away "
        "and train the run again",
        directory, LOG_NAMES[log], what, here, there);
}

/* Whether a log's last number is what run.json has under this name. */
static bool check_last(const Json *d, const char *directory, Log log, const char *name, double logged, Error *err) {
    char what[64];
    double described = NAN;
    js_as_number(js_get(d, name), &described);
    snprintf(what, sizeof what, "its last %s", strcmp(name, "steps") == 0 ? "step" : name);
    return described == logged || (isnan(described) && isnan(logged)) ||
           not_as_left(directory, log, what, logged, described, err);
}

/* The number of rows that have the step of this one. */
static double rows_like(const LogTable *table, size_t row) {
    double count = 0;
    for (size_t i = 0; i < table->rows; i++) count += table->column[0][i] == table->column[0][row];
    return count;
}

/* A run that diverged did so before the row of its last step was written. */
static bool check_ends(const Json *d, const char *directory, const LogTable *metrics, const LogTable *attention,
                       Error *err) {
    const char *result = js_as_text(js_get(d, "result"));
    const bool finished = result && strcmp(result, "finished") == 0;
    if (!finished && !(result && strcmp(result, "diverged") == 0)) return true;
    if (finished && (!check_last(d, directory, LOG_METRICS, "steps", log_last(metrics, METRICS_STEP), err) ||
                     !check_last(d, directory, LOG_ATTENTION, "steps", log_last(attention, ATTENTION_STEP), err)))
        return false;
    const double heads = attention->rows ? rows_like(attention, 0) : 0,
                 last = attention->rows ? rows_like(attention, attention->rows - 1) : 0;
    if (heads != last)
        return not_as_left(directory, LOG_ATTENTION, "the number of rows of its last step", last, heads, err);
    return check_last(d, directory, LOG_METRICS, "train_loss", log_last(metrics, METRICS_TRAIN_LOSS), err) &&
           check_last(d, directory, LOG_METRICS, "val_loss", log_last(metrics, METRICS_VAL_LOSS), err);
}

bool run_check_logs(const char *directory, Error *err) {
    LogTable metrics = {0}, attention = {0};
    Json *d = NULL;
    const bool ok = run_description_load(&d, directory, err) && logs_read_any(directory, LOG_METRICS, &metrics, err) &&
                    logs_read_any(directory, LOG_ATTENTION, &attention, err) &&
                    check_ends(d, directory, &metrics, &attention, err);
    log_table_free(&metrics);
    log_table_free(&attention);
    js_free(d);
    return ok;
}

/* --- the directory */

bool run_new(Run *run, const Config *config, Error *err) {
    *run = (Run){.config = *config};
    return config_corpus(&run->corpus, config, NULL, err);
}

bool run_create(Run *run, const Model *m, const char *out, bool force, const char *command, Error *err) {
    char path[4096];
    if (!results_make(&run->results, out, run->config.log.out, force, err)) return false;
    memcpy(run->directory, run->results.path, sizeof run->directory);
    return describe_new(run, m, command, err) && write_config(run, err) && run_path(run, path, "vocab.json", err) &&
           vocabulary_save(&run->corpus.vocabulary, path, err);
}

/* Keeps other processes out of an opened directory. One without run.json is left unlocked: it is refused as soon as
   that is read. */
static bool lock_directory(Run *run, Error *err) {
    char path[4096];
    if (!run_path(run, path, "run.json", err) || !path_exists(path)) return true;
    memcpy(run->results.path, run->directory, sizeof run->directory);
    run->results.lock = -1;
    return results_enter(&run->results, err);
}

static bool check_no_sweep(const char *path, const Json *d, Error *err) {
    const char *first = js_as_text(js_get(js_at(js_get(d, "runs"), 0), "name"));
    if (!first) return true;
    return usage_error(err, "%s is a sweep, whose runs are below it: name one, such as %s/%s", path, path, first);
}

/* Reads the config, and from run.json the rest of what a Run knows of a run that was trained before. */
static bool open_config(Run *run, const char *const *overrides, size_t count, Error *err) {
    char path[4096];
    int64_t threads;
    Json *d = load_description(run, err);
    if (!d) return false;
    const bool ok = check_no_sweep(run->directory, d, err) && run_path(run, path, "config.ini", err) &&
                    config_load(&run->config, path, overrides, count, err);
    const char *name = js_as_text(js_get(d, "name")), *result = js_as_text(js_get(d, "result"));
    const bool known = js_as_integer(js_get(d, "threads"), &threads) && threads > 0 && threads <= THREADS_MAX;
    run->threads = known ? (size_t)threads : 1;
    run->finished = result && strcmp(result, "finished") == 0;
    if (name) snprintf(run->config.name, sizeof run->config.name, "%s", name);
    text_make_plain(run->config.name);
    js_free(d);
    return ok;
}

bool run_open(Run *run, const char *directory, const char *const *overrides, size_t count, bool exclusive, Error *err) {
    char path[4096];
    *run = (Run){0};
    if (!results_name(run->directory, sizeof run->directory, directory, 1, err)) return false;
    if (exclusive && !lock_directory(run, err)) return false;
    return open_config(run, overrides, count, err) && run_path(run, path, "vocab.json", err) &&
           vocabulary_load(&run->vocabulary, path, err);
}

bool run_load_corpus(Run *run, Error *err) {
    if (!config_corpus(&run->corpus, &run->config, &run->vocabulary, err)) return false;
    Json *d = load_description(run, err);
    if (!d) return false;
    const bool ok = description_check_corpus(d, run->directory, run->config.data.corpus, &run->corpus, err);
    js_free(d);
    return ok;
}

bool run_load_model(Run *run, Model *model, size_t max_batch, size_t threads, Error *err) {
    const ModelShape shape = model_shape(&run->config, run->vocabulary.count);
    RunState state;
    bool found;
    if (!max_batch) max_batch = (size_t)run->config.train.batch;
    if (!model_make(model, &shape, max_batch, threads, false, err) ||
        !checkpoint_load(run, model, NULL, &state, &found, err))
        return false;
    if (!found)
        return usage_error(err, "%s has no checkpoint yet: %s resume %s", run->directory, program_name, run->directory);
    run->step = state.step;
    return true;
}

bool run_evaluate(Run *run, Model *model, Evaluation *evaluation, Error *err) {
    const size_t T = model->shape.T, B = model->max_batch;
    Engine engine;
    int32_t *tokens = calloc(2 * B * T, sizeof *tokens);
    if (!tokens) return runtime_error(err, "no memory for the batches");
    bool ok = engine_make(&engine, (EngineKind)run->config.train.engine, model, err);
    if (ok) *evaluation = evaluate(&engine, &run->corpus, B, 0, tokens, tokens + B * T);
    engine_free(&engine);
    free(tokens);
    return ok;
}

void run_close(Run *run) {
    corpus_free(&run->corpus);
    vocabulary_free(&run->vocabulary);
    results_release(&run->results);
    *run = (Run){0};
}
