#include "train/trainer.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/results.h"
#include "ops/matmul.h"
#include "train/announce.h"
#include "train/description.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/pictures.h"

/* calloc of a product of sizes that is checked. */
static void *make_array(size_t count, size_t size) {
    return size_mul(count, size) == SIZE_MAX ? NULL : calloc(count, size);
}

static bool make_batches(Trainer *t, Error *err) {
    const ModelShape *s = &t->model.shape;
    const size_t B = batch_size(t), probed = model_slice(s, B), heads = size_mul(s->L, s->attention.H);
    t->tokens = make_array(size_mul(B, s->T), sizeof *t->tokens);
    t->targets = make_array(size_mul(B, s->T), sizeof *t->targets);
    t->probe_tokens = make_array(size_mul(probed, s->T), sizeof *t->probe_tokens);
    t->probe_targets = make_array(size_mul(probed, s->T), sizeof *t->probe_targets);
    t->probe_scratch = make_array(probe_gradients_scratch(s, probed), sizeof *t->probe_scratch);
    t->heads = make_array(heads, sizeof *t->heads);
    t->gradients = make_array(heads, sizeof *t->gradients);
    if (!t->tokens || !t->targets || !t->probe_tokens || !t->probe_targets || !t->probe_scratch || !t->heads ||
        !t->gradients)
        return error_set(err, STATUS_FAILED, "no memory for the batches");
    t->probe_batch = validation_batch(&t->run.corpus, probed, s->T, t->probe_tokens, t->probe_targets);
    return true;
}

/* Everything but the directory, and all that config and text can be refused for, before anything is written. The run's
   text is loaded. *bytes: what it takes. */
static bool make(Trainer *t, const TrainOptions *options, size_t *bytes, Error *err) {
    const Config *c = &t->run.config;
    const ModelShape shape = model_shape(c, t->run.corpus.vocabulary.count);
    uint32_t text[SNAPSHOT_TEXT_MAX];
    size_t length;
    t->progress = options->progress;
    t->best_val_loss = INFINITY;
    t->last_train_loss = t->last_val_loss = NAN;
    return training_memory(c, &shape, options->threads, bytes, err) &&
           model_make(&t->model, &shape, batch_size(t), options->threads, true, err) &&
           optimizer_make(&t->optimizer, c, t->model.tensors.flat, options->threads, err) &&
           sampler_make(&t->sampler, &shape, err) && make_batches(t, err) &&
           picture_text(c, &t->run.corpus, shape.T, t->text, text, &length, &t->text_is_cut, err) &&
           snapshot_make(&t->snapshot, shape.L, shape.attention.H, text, length, err);
}

/* The same for a new run, which needs a place as well. */
static bool make_new(Trainer *t, const Config *config, const TrainOptions *options, size_t *bytes, Error *err) {
    const char *out = options->out;
    return results_check(out ? out : config->log.out, out != NULL, options->force, err) &&
           run_new(&t->run, config, err) && make(t, options, bytes, err);
}

static void trainer_free(Trainer *t) {
    logs_close(&t->logs);
    free(t->tokens);
    free(t->targets);
    free(t->probe_tokens);
    free(t->probe_targets);
    free(t->probe_scratch);
    free(t->heads);
    free(t->gradients);
    snapshot_free(&t->snapshot);
    sampler_free(&t->sampler);
    optimizer_free(&t->optimizer);
    model_free(&t->model);
    run_close(&t->run);
}

static void initialise(Trainer *t) {
    tensors_initialise(&t->model.tensors, &t->model.shape, (Init)t->run.config.model.init,
                       (uint64_t)t->run.config.train.seed, t->model.threads, t->model.parameters);
}

/* The directories of what a run writes. */
static bool make_directories(const Run *run, Error *err) {
    char path[4096];
    return run_path(run, path, "attention", err) && directory_make(path, false, err) &&
           run_path(run, path, "checkpoint", err) && directory_make(path, false, err);
}

static bool open_directory(Trainer *t, const TrainOptions *options, Error *err) {
    const char *out = options->out;
    return run_create(&t->run, out ? out : t->run.config.log.out, out != NULL, options->force,
                      description_make(&t->run, &t->model, options->command_line), err) &&
           make_directories(&t->run, err) && logs_start(&t->logs, t->run.directory, err);
}

/* The spread of the first block's scores on the first batch (its first slice), mean over its heads. */
static double measure_scores(Trainer *t) {
    const ModelShape *s = &t->model.shape;
    const size_t B = model_slice(s, batch_size(t));
    double sum = 0;
    corpus_training_batch(&t->run.corpus, (uint64_t)t->run.config.train.seed, 0, B, s->T, t->tokens, t->targets);
    model_forward(&t->model, &(Batch){t->tokens, NULL, B, s->T});
    probe_statistics(&t->model, B, s->T, t->heads);
    for (size_t h = 0; h < s->attention.H; h++) sum += t->heads[h].score_std;
    return sum / (double)s->attention.H;
}

static void note_set_aside(const Trainer *t) {
    char old[RESULTS_PATH];
    if (!*t->run.made.replaced && results_set_aside(t->run.directory, old))
        progress_message(t->progress, "  note      %s is there, set aside by a --force that was stopped", old);
}

static bool announce(Trainer *t, Error *err) {
    const Config *c = &t->run.config;
    char *text;
    if (!announcement(c, &t->run.corpus, &t->model, &t->optimizer, measure_scores(t), &text, err)) return false;
    progress_message(t->progress, "training %s into %s\n%s", c->name, t->run.directory, text);
    free(text);
    if (t->text_is_cut)
        progress_message(t->progress, "  note      pictures show the first %zu characters of log.attention_text",
                         t->snapshot.T);
    note_set_aside(t);
    return true;
}

/* run.json says how the run ended, `failure` being NULL when it did not fail: with the last losses of metrics.csv. */
static bool conclude(const Trainer *t, const Error *failure, Error *err) {
    const RunEnd end = {.failure = failure,
                        .signal = t->signal,
                        .steps = t->step,
                        .seconds = t->start > 0 ? omp_get_wtime() - t->start : 0,
                        .best_val_loss = t->best_val_loss,
                        .best_step = t->best_step};
    return description_conclude(&t->run, &end, err);
}

/* The loss curves and run.json are brought to their last state however the run ended. */
static bool finish(Trainer *t, bool ok, Error *err) {
    Error second, *where = ok ? err : &second; /* the first error is the one to report */
    progress_clear(t->progress);
    bool drawn = picture_loss(&t->run, where);
    bool concluded = conclude(t, ok && drawn ? NULL : err, drawn ? where : &second);
    return ok && drawn && concluded;
}

static void report(const Trainer *t, TrainOutcome *outcome) {
    snprintf(outcome->directory, sizeof outcome->directory, "%s", t->run.directory);
    outcome->signal = t->signal;
}

bool train_run(const Config *config, const TrainOptions *options, TrainOutcome *outcome, Error *err) {
    Trainer t = {0};
    *outcome = (TrainOutcome){0};
    size_t bytes;
    bool ok = make_new(&t, config, options, &bytes, err) && open_directory(&t, options, err);
    Error ignored;
    if (ok) {
        initialise(&t);
        ok = announce(&t, err);
        t.start = omp_get_wtime();
        ok = finish(&t, ok && loop_run(&t, err), err);
    } else if (*t.run.directory) {
        conclude(&t, err, &ignored);
    }
    if (!ok) results_withdraw(&t.run.made, err); /* nothing, once there is a checkpoint */
    report(&t, outcome);
    trainer_free(&t);
    return ok;
}

/* Nothing but the number of steps may be another than it was. */
static bool check_overrides(const char *const *overrides, size_t count, Error *err) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(overrides[i], "train.steps=", strlen("train.steps=")) != 0)
            return error_set(err, STATUS_USAGE,
                             "a run is resumed with the config it has; only train.steps can be set, not %s",
                             overrides[i]);
    return true;
}

/* The last validation loss of the logs, for the progress line; NaN: none. */
static bool last_validation(const Trainer *t, double *loss, Error *err) {
    LogTable metrics;
    bool ok = logs_read(t->run.directory, LOG_METRICS, 0, SIZE_MAX, &metrics, err);
    *loss = ok ? log_last(&metrics, METRICS_VAL_LOSS) : NAN;
    log_table_free(&metrics);
    return ok;
}

/* Brings everything to where the checkpoint was made. *finished: there is nothing left to do. */
static bool restore(Trainer *t, const TrainOptions *options, bool *finished, Error *err) {
    const Checkpoint checkpoint = trainer_checkpoint(t);
    const Config *c = &t->run.config;
    RunState state;
    bool found;
    initialise(t);
    if (!checkpoint_load(&checkpoint, &state, &found, err)) return false;
    if (state.step > (size_t)c->train.steps)
        return error_set(err, STATUS_USAGE, "%s has made %zu steps already: train.steps = %lld is less",
                         t->run.directory, state.step, (long long)c->train.steps);
    t->step = state.step;
    t->best_val_loss = state.best_val_loss;
    t->best_step = state.best_step;
    t->start = omp_get_wtime() - state.seconds;
    *finished = t->run.finished && state.step == (size_t)c->train.steps;
    if (*finished) return true;
    bool ok = (found ? logs_resume(&t->logs, t->run.directory, state.log_size, err)
                     : logs_start(&t->logs, t->run.directory, err)) &&
              last_validation(t, &t->last_val_loss, err) && make_directories(&t->run, err) &&
              run_write_config(&t->run, err) &&
              description_resume(&t->run, &t->model, state.step, options->command_line, t->progress, err);
    if (ok) note_set_aside(t);
    return ok;
}

bool train_resume(const char *directory, const char *const *overrides, size_t count, const TrainOptions *options,
                  TrainOutcome *outcome, Error *err) {
    TrainOptions own = *options;
    Trainer t = {.run.lock = -1};
    size_t bytes;
    *outcome = (TrainOutcome){0};
    bool ok = check_overrides(overrides, count, err) && run_open(&t.run, directory, overrides, count, true, err);
    if (!own.threads) own.threads = t.run.threads;
    ok = ok && run_load_corpus(&t.run, err) && make(&t, &own, &bytes, err) &&
         restore(&t, &own, &outcome->had_finished, err);
    if (ok) ok = outcome->had_finished ? picture_all(&t.run, err) : finish(&t, loop_run(&t, err), err);
    report(&t, outcome);
    trainer_free(&t);
    return ok;
}

bool train_check(const Config *config, const TrainOptions *options, size_t *bytes, Error *err) {
    Trainer t = {0};
    bool ok = make_new(&t, config, options, bytes, err);
    trainer_free(&t);
    return ok;
}

/* As comments, so that the whole output is a config again. */
static bool write_announcement(const Trainer *t, FILE *out, Error *err) {
    char *text;
    if (!announcement(&t->run.config, &t->run.corpus, &t->model, &t->optimizer, NAN, &text, err)) return false;
    fputs("\n; ", out);
    for (const char *c = text; *c; c++) {
        fputc(*c, out);
        if (*c == '\n') fputs("; ", out);
    }
    fputc('\n', out);
    free(text);
    return true;
}

bool train_announce(const Config *config, const TrainOptions *options, FILE *out, Error *err) {
    Trainer t = {0};
    size_t bytes;
    bool ok = run_new(&t.run, config, err) && make(&t, options, &bytes, err) && write_announcement(&t, out, err);
    trainer_free(&t);
    return ok;
}

bool train_dry_run(const Config *config, const TrainOptions *options, FILE *out, Error *err) {
    Trainer t = {0};
    size_t bytes;
    bool ok = make_new(&t, config, options, &bytes, err);
    if (ok) config_write(config, out);
    ok = ok && write_announcement(&t, out, err);
    trainer_free(&t);
    return ok;
}
