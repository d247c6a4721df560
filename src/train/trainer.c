/* A run from its start to its end: memory for everything it needs, its directory and logs, the loop (loop.c), and how
   it ended. A new run and a resumed one differ only in where the parameters, moments and logs come from.

   Every reason to refuse a config or a text is checked before anything is written. So the memory is made first, and the
   directory last. */
#include "train/trainer.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "ops/matmul.h"
#include "ranks/ranks.h"
#include "run/pictures.h"
#include "train/announce.h"
#include "train/loop.h"

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

/* Makes everything of a run except its directory. The text must be loaded. */
static bool trainer_make(Trainer *t, const TrainOptions *options, Error *err) {
    const Config *c = &t->run.config;
    const ModelShape shape = model_shape(c, t->run.corpus.vocabulary.count);
    uint32_t text[SNAPSHOT_TEXT_MAX];
    size_t length;
    t->progress = options->progress;
    t->state = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    if (!model_make(&t->model, &shape, batch_size(t), options->threads, true, err) ||
        !engine_make(&t->engine, (EngineKind)c->train.engine, (size_t)c->train.shards, &t->model, err) ||
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
    const bool is_free = ranks_index() > 0 || results_check(options->out, options->force, err);
    t->run.config = *config;
    return is_free && config_corpus(&t->run.corpus, config, NULL, err) && trainer_make(t, options, err);
}

/* Whether every rank is ready, and all train the same run by the same kernels. Nothing is written before this. */
static bool ranks_ready(const Trainer *t, bool ready, Error *err) {
    char value[CONFIG_VALUE_MAX];
    if (!ranks_agree(ready, NULL, err)) return false;
    if (ranks_count() == 1) return true;
    bool same = ranks_same("the version", SQRTDK_VERSION, err) &&
                ranks_same("the kernel of products", matmul_kernels(t->model.shape.attention.bf16), err) &&
                (matmul_is_own() || ranks_same("the core of OpenBLAS", matmul_core(), err));
    for (size_t key = 0; same && key < config_key_count(); key++) {
        config_value_text(&t->run.config, key, value, sizeof value);
        same = strcmp(config_key_name(key), "data.corpus") == 0 || ranks_same(config_key_name(key), value, err);
    }
    corpus_fingerprint(&t->run.corpus, value); /* in place of data.corpus, since its path may differ between ranks */
    return same && ranks_same("the hash of the text", value, err);
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

/* Reads the last losses and the best one from the log. */
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

/* Draws the loss curves, and writes to run.json and the page how the run ended, also if loop_run failed (`trained` is
   false). Fills in the first error. */
static bool end_run(Trainer *t, const TrainOptions *options, bool trained, Error *err) {
    Error later; /* a later one than the first, not reported */
    bool ok = trained;
    if (ranks_index() > 0) return ranks_agree(ok, NULL, err);
    progress_clear(t->progress);
    t->state.seconds = omp_get_wtime() - t->start;
    if (!read_losses(t, ok ? err : &later)) ok = false;
    if (!picture_loss(&t->run, ok ? err : &later)) ok = false;
    if (!run_ended(&t->run, &t->state, t->signal, ok ? NULL : err, ok ? err : &later)) ok = false;
    if (options->report && !options->report(&t->run.results.directory, ok ? err : &later)) ok = false;
    return ranks_agree(ok, NULL, err);
}

/* Fills in the outcome, and frees the trainer. */
static void trainer_close(Trainer *t, TrainOutcome *outcome) {
    snprintf(outcome->directory, sizeof outcome->directory, "%s", t->run.directory);
    outcome->state = t->state;
    outcome->signal = t->signal;
    trainer_free(t);
}

static bool create_run(Trainer *t, const TrainOptions *options, Error *err) {
    const bool created = run_create(&t->run, options->out, options->force, err) &&
                         logs_start(&t->logs, &t->run.results.directory, err) &&
                         logs_sizes(&t->logs, t->state.log_size, err) && loop_save(t, err) &&
                         run_begin(&t->run, &t->model, options->command_line, err);
    if (!created) results_abandon(&t->run.results, err);
    return created;
}

static bool start_run(Trainer *t, const Config *config, const TrainOptions *options, Error *err) {
    const bool writes = ranks_index() == 0;
    if (!ranks_ready(t, trainer_make_new(t, config, options, err), err)) return false;
    tensors_initialize(&t->model.tensors, &t->model.shape, (Init)config->model.init, (uint64_t)config->train.seed,
                       t->model.threads, t->model.parameters);
    t->start = omp_get_wtime();
    const bool created = !writes || (run_count_ngrams(&t->run, err) && create_run(t, options, err));
    if (!ranks_agree(created, NULL, err)) return false;
    if (writes) {
        if (*t->run.results.old)
            progress_message(t->progress, "note: what stood in %s is now in %s", t->run.directory, t->run.results.old);
        progress_message(t->progress, "training %s into %s", config->name, t->run.directory);
        announce(t->progress, "", &t->run, &t->engine, &t->optimizer, measure_scores(t), t->text_note.message);
    }
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
        if (strncmp(overrides[i], "train.steps=", 12) != 0 && strncmp(overrides[i], "steps=", 6) != 0)
            return usage_error(err, "a run is resumed with the config it has; only train.steps can be set, not %s",
                               overrides[i]);
    return true;
}

/* Loads the text and the checkpoint from which an opened run continues. */
static bool load_opened(Trainer *t, const TrainOptions *options, Error *err) {
    const size_t steps = (size_t)t->run.config.train.steps;
    if (!run_load_corpus(&t->run, err) || !trainer_make(t, options, err) ||
        !checkpoint_load(&t->run, CHECKPOINT_LAST, &t->model, (Moments){t->optimizer.m, t->optimizer.v}, &t->state,
                         err))
        return false;
    return t->state.step <= steps ||
           usage_error(err, "%s has made %zu steps: train.steps = %zu is less", t->run.directory, t->state.step, steps);
}

/* Checks and opens the logs, then writes config.ini and run.json. No log is cut before these are on disk, so a kill in
   between leaves a run that can be resumed. */
static bool continue_logs(Trainer *t, const TrainOptions *options, Error *err) {
    return logs_resume(&t->logs, &t->run.results.directory, t->state.step, t->state.log_size, err) &&
           run_resumed(&t->run, &t->model, t->state.step, options->command_line, t->progress, err);
}

/* Continues an opened run whose ranks are ready. *had_finished says whether there was nothing left to train. */
static bool resume_opened(Trainer *t, const TrainOptions *options, bool *had_finished, Error *err) {
    const bool writes = ranks_index() == 0;
    t->start = omp_get_wtime() - t->state.seconds;
    *had_finished = t->run.finished && t->state.step == (size_t)t->run.config.train.steps;
    if (*had_finished)
        return ranks_agree(!writes || (run_check_logs(t->run.directory, err) && picture_loss(&t->run, err) &&
                                       picture_attention(&t->run, 0, err) &&
                                       (!options->report || options->report(&t->run.results.directory, err))),
                           NULL, err);
    if (!ranks_agree(!writes || continue_logs(t, options, err), NULL, err)) return false;
    const bool ready = !writes || (logs_cut(&t->logs, t->state.log_size, err) && read_losses(t, err));
    return end_run(t, options, ranks_agree(ready, NULL, err) && loop_run(t, err), err);
}

bool train_resume(const char *directory, const char *const *overrides, size_t count, const TrainOptions *options,
                  TrainOutcome *outcome, Error *err) {
    TrainOptions own = *options;
    Trainer t = {0};
    *outcome = (TrainOutcome){0};
    bool ok = check_overrides(overrides, count, err) &&
              run_open(&t.run, directory, overrides, count, ranks_index() == 0, err);
    if (!own.threads) own.threads = t.run.threads;
    ok = ranks_ready(&t, ok && load_opened(&t, &own, err), err) && resume_opened(&t, &own, &outcome->had_finished, err);
    trainer_close(&t, outcome);
    return ok;
}

bool train_check(const Config *config, const TrainOptions *options, FILE *out, size_t *bytes, Error *err) {
    Trainer t = {0};
    const bool ok = trainer_make_new(&t, config, options, err) && (!out || run_count_ngrams(&t.run, err));
    if (ok) *bytes = training_memory(&t.engine, &t.optimizer);
    if (ok && out) { /* as comments, so that `out`, which begins with a config, is still one */
        fputc('\n', out);
        announce(&(Progress){.stream = out}, "; ", &t.run, &t.engine, &t.optimizer, NAN, t.text_note.message);
    }
    trainer_free(&t);
    return ok;
}
