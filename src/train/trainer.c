/* A run from its start to its end: memory for everything it needs, its directory and logs, the loop (loop.c), and how
   it ended. A new run and a resumed one differ only in where the parameters, moments and logs come from.

   Whatever a config or a text can be refused for is refused before anything is written. So everything is made first,
   and the directory last. */
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
    const size_t B = batch_size(t), measured = model_slice(s, B), heads = size_mul(s->L, s->attention.H);
    t->tokens = arena_take(&t->arena, size_mul(B, s->T), sizeof *t->tokens);
    t->targets = arena_take(&t->arena, size_mul(B, s->T), sizeof *t->targets);
    t->measured_tokens = arena_take(&t->arena, size_mul(measured, s->T), sizeof *t->measured_tokens);
    t->measured_targets = arena_take(&t->arena, size_mul(measured, s->T), sizeof *t->measured_targets);
    t->measure_scratch = arena_take(&t->arena, measure_gradients_scratch(s, measured), sizeof *t->measure_scratch);
    t->heads = arena_take(&t->arena, heads, sizeof *t->heads);
    t->gradients = arena_take(&t->arena, heads, sizeof *t->gradients);
}

/* Makes everything of a run but its directory; its text is loaded. */
static bool trainer_make(Trainer *t, const TrainOptions *options, Error *err) {
    const Config *c = &t->run.config;
    const ModelShape shape = model_shape(c, t->run.corpus.vocabulary.count);
    uint32_t text[SNAPSHOT_TEXT_MAX];
    size_t length;
    t->progress = options->progress;
    t->state = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    if (!model_make(&t->model, &shape, batch_size(t), options->threads, true, err) ||
        !engine_make(&t->engine, (EngineKind)c->train.engine, &t->model, err) ||
        !optimizer_make(&t->optimizer, c, &t->model.tensors, options->threads, err) ||
        !training_memory_fits(training_memory(&t->engine, &t->optimizer), err))
        return false;
    lay_out(t);
    if (!arena_allocate(&t->arena, "the batches", err)) return false;
    lay_out(t);
    t->measured_batch = validation_batch(&t->run.corpus, model_slice(&shape, batch_size(t)), shape.T,
                                         t->measured_tokens, t->measured_targets);
    picture_text(c, &t->run.corpus, shape.T, t->text, text, &length, &t->text_note);
    return snapshot_make(&t->snapshot, shape.L, shape.attention.H, text, length, err);
}

/* trainer_make for a new run, whose text is not loaded yet and whose directory must be free. */
static bool trainer_make_new(Trainer *t, const Config *config, const TrainOptions *options, Error *err) {
    return results_check(options->out, options->force, err) && run_new(&t->run, config, err) &&
           trainer_make(t, options, err);
}

static void trainer_free(Trainer *t) {
    logs_close(&t->logs);
    snapshot_free(&t->snapshot);
    arena_free(&t->arena);
    optimizer_free(&t->optimizer);
    engine_free(&t->engine);
    model_free(&t->model);
    run_close(&t->run);
}

static void initialize_parameters(Trainer *t) {
    tensors_initialize(&t->model.tensors, &t->model.shape, (Init)t->run.config.model.init,
                       (uint64_t)t->run.config.train.seed, t->model.threads, t->model.parameters);
}

static bool make_subdirectories(const Trainer *t, Error *err) {
    char path[4096];
    return run_path(&t->run, path, "attention", err) && directory_make(path, false, err) &&
           run_path(&t->run, path, "checkpoint", err) && directory_make(path, false, err);
}

/* The standard deviation of the first block's scores on the first slice of the first batch, as a mean over heads. */
static double measure_scores(Trainer *t) {
    const ModelShape *s = &t->model.shape;
    const size_t B = model_slice(s, batch_size(t));
    double sum = 0;
    corpus_training_batch(&t->run.corpus, (uint64_t)t->run.config.train.seed, 0, B, s->T, t->tokens, t->targets);
    model_forward(&t->model, &(Batch){t->tokens, NULL, B, s->T});
    measure_heads(&t->model, B, s->T, t->heads);
    for (size_t h = 0; h < s->attention.H; h++) sum += t->heads[h].score_std;
    return sum / (double)s->attention.H;
}

/* The last losses and the best one, as the log has them. */
static bool read_losses(Trainer *t, Error *err) {
    RunState *s = &t->state;
    LogTable metrics;
    s->best_val_loss = INFINITY;
    s->best_step = 0;
    const bool ok = logs_read(t->run.directory, LOG_METRICS, &metrics, err);
    s->train_loss = log_last(&metrics, METRICS_TRAIN_LOSS);
    s->val_loss = log_last(&metrics, METRICS_VAL_LOSS);
    for (size_t row = 0; row < metrics.rows; row++)
        if (metrics.column[METRICS_VAL_LOSS][row] < s->best_val_loss) {
            s->best_val_loss = metrics.column[METRICS_VAL_LOSS][row];
            s->best_step = (size_t)metrics.column[METRICS_STEP][row];
        }
    log_table_free(&metrics);
    return ok;
}

/* Draws the loss curves, and writes run.json and the page as the run ended, whether or not it `trained` to its end.
   Fills in the first error. */
static bool end_run(Trainer *t, const TrainOptions *options, bool trained, Error *err) {
    Error later; /* is not reported: it came after the first */
    bool ok = trained;
    progress_clear(t->progress);
    t->state.seconds = omp_get_wtime() - t->start;
    if (!read_losses(t, ok ? err : &later)) ok = false;
    if (!picture_loss(&t->run, ok ? err : &later)) ok = false;
    if (!run_ended(&t->run, &t->state, t->signal, ok ? NULL : err, ok ? err : &later)) ok = false;
    if (options->report && !options->report(t->run.directory, ok ? err : &later)) ok = false;
    return ok;
}

/* Fills in the outcome, and frees the trainer. */
static void trainer_close(Trainer *t, TrainOutcome *outcome) {
    snprintf(outcome->directory, sizeof outcome->directory, "%s", t->run.directory);
    outcome->state = t->state;
    outcome->signal = t->signal;
    trainer_free(t);
}

static bool start_run(Trainer *t, const Config *config, const TrainOptions *options, Error *err) {
    if (!trainer_make_new(t, config, options, err) || !run_count_ngrams(&t->run, err)) return false;
    const bool created = run_create(&t->run, &t->model, options->out, options->force, options->command_line, err) &&
                         make_subdirectories(t, err) && logs_start(&t->logs, t->run.directory, err);
    if (!created) {
        results_abandon(&t->run.results, err);
        return false;
    }
    if (*t->run.results.note) progress_message(t->progress, "%s", t->run.results.note);
    initialize_parameters(t);
    progress_message(t->progress, "training %s into %s", config->name, t->run.directory);
    announce(t->progress, "", &t->run, &t->engine, &t->optimizer, measure_scores(t));
    if (*t->text_note.message) progress_message(t->progress, "  note      %s", t->text_note.message);
    t->start = omp_get_wtime();
    return end_run(t, options, loop_run(t, err), err);
}

bool train_run(const Config *config, const TrainOptions *options, TrainOutcome *outcome, Error *err) {
    Trainer t = {0};
    *outcome = (TrainOutcome){0};
    const bool ok = start_run(&t, config, options, err);
    trainer_close(&t, outcome);
    return ok;
}

static bool check_overrides(const char *const *overrides, size_t count, Error *err) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(overrides[i], "train.steps=", strlen("train.steps=")) != 0)
            return usage_error(err, "a run is resumed with the config it has; only train.steps can be set, not %s",
                               overrides[i]);
    return true;
}

/* Continues an opened run. *had_finished: there was nothing left to train. */
static bool resume_opened(Trainer *t, const TrainOptions *options, bool *had_finished, Error *err) {
    const size_t steps = (size_t)t->run.config.train.steps;
    bool found;
    if (!run_load_corpus(&t->run, err) || !trainer_make(t, options, err)) return false;
    initialize_parameters(t); /* what a run starts from that was stopped before its first checkpoint */
    if (!checkpoint_load(&t->run, &t->model, &t->optimizer, &t->state, &found, err)) return false;
    if (t->state.step > steps)
        return usage_error(err, "%s has made %zu steps: train.steps = %zu is less", t->run.directory, t->state.step,
                           steps);
    t->start = omp_get_wtime() - t->state.seconds;
    *had_finished = t->run.finished && t->state.step == steps;
    if (*t->run.results.note) progress_message(t->progress, "%s", t->run.results.note);
    if (*had_finished)
        return run_check_logs(t->run.directory, err) && picture_all(&t->run, err) &&
               (!options->report || options->report(t->run.directory, err));
    /* What is intended is on disk before anything is cut, so that a kill in between leaves a run to resume. */
    if ((found && !logs_resume(&t->logs, t->run.directory, t->state.step, t->state.log_size, err)) ||
        !make_subdirectories(t, err) || !run_count_ngrams(&t->run, err) ||
        !run_resumed(&t->run, &t->model, t->state.step, options->command_line, t->progress, err))
        return false;
    const bool ready =
        (found ? logs_cut(&t->logs, t->state.log_size, err) : logs_start(&t->logs, t->run.directory, err)) &&
        read_losses(t, err);
    return end_run(t, options, ready && loop_run(t, err), err);
}

bool train_resume(const char *directory, const char *const *overrides, size_t count, const TrainOptions *options,
                  TrainOutcome *outcome, Error *err) {
    TrainOptions own = *options;
    Trainer t = {0};
    *outcome = (TrainOutcome){0};
    bool ok = check_overrides(overrides, count, err) && run_open(&t.run, directory, overrides, count, true, err);
    if (!own.threads) own.threads = t.run.threads;
    if (ok) ok = resume_opened(&t, &own, &outcome->had_finished, err);
    trainer_close(&t, outcome);
    return ok;
}

bool train_check(const Config *config, const TrainOptions *options, FILE *out, size_t *bytes, Error *err) {
    Trainer t = {0};
    const bool ok = trainer_make_new(&t, config, options, err) && (!out || run_count_ngrams(&t.run, err));
    if (ok) *bytes = training_memory(&t.engine, &t.optimizer);
    if (ok && out) { /* as comments, so that what stands before it is still a config */
        fputc('\n', out);
        announce(&(Progress){.stream = out}, "; ", &t.run, &t.engine, &t.optimizer, NAN);
    }
    trainer_free(&t);
    return ok;
}
