#include "train/trainer.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/files.h"
#include "train/announce.h"
#include "train/loop.h"
#include "train/pictures.h"

static void lay_out(Trainer *t) {
    const ModelShape *s = &t->model.shape;
    const size_t B = batch_size(t), probed = model_slice(s, B), heads = size_mul(s->L, s->attention.H);
    t->tokens = arena_take(&t->arena, size_mul(B, s->T), sizeof *t->tokens);
    t->targets = arena_take(&t->arena, size_mul(B, s->T), sizeof *t->targets);
    t->probe_tokens = arena_take(&t->arena, size_mul(probed, s->T), sizeof *t->probe_tokens);
    t->probe_targets = arena_take(&t->arena, size_mul(probed, s->T), sizeof *t->probe_targets);
    t->probe_scratch = arena_take(&t->arena, probe_gradients_scratch(s, probed), sizeof *t->probe_scratch);
    t->heads = arena_take(&t->arena, heads, sizeof *t->heads);
    t->gradients = arena_take(&t->arena, heads, sizeof *t->gradients);
}

/* Everything but the directory, and all that config and text can be refused for, before anything is written. The run's
   text is loaded. */
static bool make(Trainer *t, const TrainOptions *options, Error *err) {
    const Config *c = &t->run.config;
    const ModelShape shape = model_shape(c, t->run.corpus.vocabulary.count);
    uint32_t text[SNAPSHOT_TEXT_MAX];
    size_t length;
    t->progress = options->progress;
    t->state = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    if (!model_make(&t->model, &shape, batch_size(t), options->threads, true, err) ||
        !optimizer_make(&t->optimizer, c, &t->model.tensors, options->threads, err) ||
        !training_memory_fits(training_memory(&t->model, &t->optimizer), err))
        return false;
    lay_out(t);
    if (!arena_allocate(&t->arena, "the batches", err)) return false;
    lay_out(t);
    t->probe_batch = validation_batch(&t->run.corpus, model_slice(&shape, batch_size(t)), shape.T, t->probe_tokens,
                                      t->probe_targets);
    picture_text(c, &t->run.corpus, shape.T, t->text, text, &length, &t->text_note);
    return snapshot_make(&t->snapshot, shape.L, shape.attention.H, text, length, err);
}

/* The same for a new run, whose directory must be free too. */
static bool make_new(Trainer *t, const Config *config, const TrainOptions *options, Error *err) {
    return results_check(options->out, options->force, err) && run_new(&t->run, config, err) && make(t, options, err);
}

static void trainer_free(Trainer *t) {
    logs_close(&t->logs);
    snapshot_free(&t->snapshot);
    arena_free(&t->arena);
    optimizer_free(&t->optimizer);
    model_free(&t->model);
    run_close(&t->run);
}

static void initialize(Trainer *t) {
    tensors_initialize(&t->model.tensors, &t->model.shape, (Init)t->run.config.model.init,
                       (uint64_t)t->run.config.train.seed, t->model.threads, t->model.parameters);
}

/* The directories and logs of what a run writes, in a directory that is there. */
static bool open_files(Trainer *t, bool resumed, Error *err) {
    const char *directory = t->run.directory;
    char path[4096];
    return run_path(&t->run, path, "attention", err) && directory_make(path, false, err) &&
           run_path(&t->run, path, "checkpoint", err) && directory_make(path, false, err) &&
           (resumed ? logs_resume(&t->logs, directory, t->state.log_size, err) : logs_start(&t->logs, directory, err));
}

/* Standard deviation of the first block's scores on the first batch (its first slice), mean over its heads. */
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

/* However the run ended, the loss curves, run.json and the page are brought to their last state. Reports the first
   error. */
static bool finish(Trainer *t, const TrainOptions *options, bool ok, Error *err) {
    Error second;
    progress_clear(t->progress);
    t->state.seconds = omp_get_wtime() - t->start;
    if (!picture_loss(&t->run, ok ? err : &second)) ok = false;
    if (!run_ended(&t->run, &t->state, t->signal, ok ? NULL : err, ok ? err : &second)) ok = false;
    return (!options->report || options->report(t->run.directory, ok ? err : &second)) && ok;
}

static void report(const Trainer *t, TrainOutcome *outcome) {
    snprintf(outcome->directory, sizeof outcome->directory, "%s", t->run.directory);
    outcome->state = t->state;
    outcome->signal = t->signal;
}

bool train_run(const Config *config, const TrainOptions *options, TrainOutcome *outcome, Error *err) {
    Trainer t = {0};
    Error second;
    *outcome = (TrainOutcome){0};
    bool ok = make_new(&t, config, options, err) &&
              run_create(&t.run, &t.model, options->out, options->force, options->command_line, err) &&
              open_files(&t, false, err);
    if (*t.run.made.note) progress_message(t.progress, "%s", t.run.made.note);
    if (ok) {
        initialize(&t);
        progress_message(t.progress, "training %s into %s", config->name, t.run.directory);
        announce(t.progress, "", config, &t.run.corpus, &t.model, &t.optimizer, measure_scores(&t));
        if (*t.text_note.message) progress_message(t.progress, "  note      %s", t.text_note.message);
        t.start = omp_get_wtime();
        ok = finish(&t, options, loop_run(&t, err), err);
    } else if (*t.run.directory) {
        run_ended(&t.run, &t.state, 0, err, &second);
    }
    report(&t, outcome);
    trainer_free(&t);
    return ok;
}

/* Nothing but the number of steps may be another than it was. */
static bool check_overrides(const char *const *overrides, size_t count, Error *err) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(overrides[i], "train.steps=", strlen("train.steps=")) != 0)
            return rejected(err, "a run is resumed with the config it has; only train.steps can be set, not %s",
                            overrides[i]);
    return true;
}

static bool read_last_losses(Trainer *t, Error *err) {
    LogTable metrics;
    bool ok = logs_read(t->run.directory, LOG_METRICS, &metrics, err);
    if (ok) {
        t->state.train_loss = log_last(&metrics, METRICS_TRAIN_LOSS);
        t->state.val_loss = log_last(&metrics, METRICS_VAL_LOSS);
    }
    log_table_free(&metrics);
    return ok;
}

/* Brings everything to where the checkpoint was made. *finished: there is nothing left to do. */
static bool restore(Trainer *t, const TrainOptions *options, bool *finished, Error *err) {
    const size_t steps = (size_t)t->run.config.train.steps;
    RunState *s = &t->state;
    bool found;
    initialize(t);
    if (!checkpoint_load(&t->run, &t->model, &t->optimizer, s, &found, err)) return false;
    if (s->step > steps)
        return rejected(err, "%s has made %zu steps: train.steps = %zu is less", t->run.directory, s->step, steps);
    t->start = omp_get_wtime() - s->seconds;
    *finished = t->run.finished && s->step == steps;
    if (*finished) return true;
    return open_files(t, found, err) && read_last_losses(t, err) &&
           run_resumed(&t->run, &t->model, s->step, options->command_line, t->progress, err);
}

bool train_resume(const char *directory, const char *const *overrides, size_t count, const TrainOptions *options,
                  TrainOutcome *outcome, Error *err) {
    TrainOptions own = *options;
    Trainer t = {0};
    *outcome = (TrainOutcome){0};
    bool ok = check_overrides(overrides, count, err) && run_open(&t.run, directory, overrides, count, true, err);
    if (!own.threads) own.threads = t.run.threads;
    ok = ok && run_load_corpus(&t.run, err) && make(&t, &own, err) && restore(&t, &own, &outcome->had_finished, err);
    if (ok && outcome->had_finished) ok = picture_all(&t.run, err) && (!own.report || own.report(t.run.directory, err));
    else if (ok) ok = finish(&t, &own, loop_run(&t, err), err);
    report(&t, outcome);
    trainer_free(&t);
    return ok;
}

bool train_check(const Config *config, const TrainOptions *options, FILE *out, size_t *bytes, Error *err) {
    Trainer t = {0};
    bool ok = make_new(&t, config, options, err);
    if (ok) *bytes = training_memory(&t.model, &t.optimizer);
    if (ok && out) { /* as comments, so that what stands before it is still a config */
        fputc('\n', out);
        announce(&(Progress){.stream = out}, "; ", config, &t.run.corpus, &t.model, &t.optimizer, NAN);
    }
    trainer_free(&t);
    return ok;
}
