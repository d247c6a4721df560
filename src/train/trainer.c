#include "train/trainer.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/range.h"
#include "base/results.h"
#include "ops/matmul.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/pictures.h"
#include "train/plan.h"

static bool prepare_batches(Trainer *t, Error *err) {
    size_t B = batch_size(t), T = t->model.shape.T;
    t->tokens = calloc(B * T, sizeof *t->tokens);
    t->targets = calloc(B * T, sizeof *t->targets);
    size_t look = model_slice(&t->model.shape, B);
    t->look_tokens = calloc(look * T, sizeof *t->look_tokens);
    t->look_targets = calloc(look * T, sizeof *t->look_targets);
    t->look_room = calloc(probe_gradients_scratch(&t->model.shape, look), sizeof *t->look_room);
    if (!t->tokens || !t->targets || !t->look_tokens || !t->look_targets || !t->look_room)
        return error_set(err, STATUS_FAILED, "no memory for the batches");
    t->look_batch = validation_batch(&t->corpus, look, T, t->look_tokens, t->look_targets);
    return true;
}

/* Everything that config and text can be refused for, before anything is written. `vocabulary` NULL: the text's. */
static bool prepare(Trainer *t, const Vocabulary *vocabulary, Error *err) {
    const Config *c = t->config;
    Plan plan;
    if (!plan_corpus(&t->corpus, c, vocabulary, err) ||
        !plan_make(&plan, c, t->corpus.vocabulary.count, t->options->threads, err) ||
        !model_make(&t->model, &plan.shape, batch_size(t), t->options->threads, true, err) ||
        !optimizer_make(&t->optimizer, c, t->model.tensors.flat, t->options->threads, err) ||
        !sampler_make(&t->sampler, &plan.shape, err) || !record_make(t->record, c, &plan.shape, err) ||
        !prepare_batches(t, err))
        return false;
    return picture_text(c, &t->corpus, plan.shape.T, t->text, t->record->text, &t->record->text_length, &t->text_is_cut,
                        err);
}

/* The same for a new run, which needs a place as well. */
static bool prepare_new(Trainer *t, Error *err) {
    const char *out = t->options->out;
    return results_check(out ? out : t->config->log.out, out != NULL, t->options->force, err) && prepare(t, NULL, err);
}

static void initialise(Trainer *t) {
    tensors_initialise(&t->model.tensors, &t->model.shape, (Init)t->config->model.init, (uint64_t)t->config->train.seed,
                       t->model.threads, t->model.parameters);
}

static Json *describe(const Trainer *t) {
    const ModelShape *s = &t->model.shape;
    char divisor[64];
    scale_text(t->config->attention.scale_divisor, divisor, sizeof divisor);
    Json *run = run_description(t->options->command_line, t->options->threads);
    run_description_products(run);
    js_set(run, "name", js_text(t->config->name));
    js_set(run, "parameters", js_integer((int64_t)t->model.tensors.parameters));
    char fingerprint[CORPUS_FINGERPRINT];
    corpus_fingerprint(&t->corpus, fingerprint);
    js_set(run, "corpus", js_text(fingerprint));
    js_set(run, "vocabulary", js_integer((int64_t)s->V));
    js_set(run, "scale_divisor", js_text(divisor));
    js_set(run, "divisor", js_number(divisor_value(t->config->attention.scale_divisor, s->attention.D)));
    js_set(run, "multiplier", js_number((double)s->attention.multiplier));
    return run;
}

static bool open_directory(Trainer *t, Error *err) {
    const char *out = t->options->out;
    RunRecord *r = t->record;
    if (!results_make(&t->place, out ? out : t->config->log.out, out != NULL, t->options->force, err)) return false;
    memcpy(r->directory, t->place.path, sizeof t->place.path);
    return results_open(&t->results, r->directory, t->config, &t->corpus.vocabulary, describe(t), err);
}

/* The spread of the first block's scores on the first batch (its first slice), mean over its heads. */
static double measure_scores(Trainer *t) {
    size_t B = model_slice(&t->model.shape, batch_size(t)), T = t->model.shape.T, H = t->model.shape.attention.H;
    double sum = 0;
    corpus_training_batch(&t->corpus, (uint64_t)t->config->train.seed, 0, B, T, t->tokens, t->targets);
    model_forward(&t->model, &(Batch){t->tokens, NULL, B, T});
    probe_statistics(&t->model, B, T, t->record->first.heads);
    for (size_t h = 0; h < H; h++) sum += t->record->first.heads[h].score_std;
    return sum / (double)H;
}

static void note_set_aside(const Trainer *t) {
    char old[RESULTS_PATH];
    if (!*t->place.replaced && results_set_aside(t->record->directory, old))
        progress_message(t->options->progress, "  note      %s is there, set aside by a --force that was killed", old);
}

static bool announce(Trainer *t, Error *err) {
    Plan plan;
    char *text;
    if (!plan_make(&plan, t->config, t->corpus.vocabulary.count, t->options->threads, err) ||
        !plan_announce(&plan, t->config, &t->corpus, t->options->threads, measure_scores(t), &text, err))
        return false;
    progress_message(t->options->progress, "training %s into %s\n%s", t->config->name, t->record->directory, text);
    free(text);
    if (t->text_is_cut)
        progress_message(t->options->progress,
                         "  note      pictures show the first %zu characters of log.attention_text",
                         t->record->text_length);
    note_set_aside(t);
    return true;
}

/* The loss curves and run.json are brought to their last state however the run ended. */
static bool finish(Trainer *t, bool ok, Error *err) {
    Error second, *where = ok ? err : &second; /* the first error is the one to tell */
    t->record->seconds = omp_get_wtime() - t->start;
    progress_clear(t->options->progress);
    bool drawn = picture_loss(t->record, t->config, where);
    bool concluded = results_conclude(&t->results, t->record, ok && drawn ? NULL : err, drawn ? where : &second);
    return ok && drawn && concluded;
}

static void trainer_free(Trainer *t) {
    results_close(&t->results);
    results_release(&t->place);
    free(t->tokens);
    free(t->targets);
    free(t->look_tokens);
    free(t->look_targets);
    free(t->look_room);
    sampler_free(&t->sampler);
    optimizer_free(&t->optimizer);
    model_free(&t->model);
    corpus_free(&t->corpus);
}

bool train_run(const Config *config, const TrainOptions *options, RunRecord *record, Error *err) {
    *record = (RunRecord){0};
    Trainer t = {.config = config, .options = options, .record = record, .last_train_loss = NAN, .last_val_loss = NAN};
    bool ok = prepare_new(&t, err) && open_directory(&t, err);
    Error ignored;
    if (ok) {
        initialise(&t);
        ok = announce(&t, err);
        t.start = omp_get_wtime();
        ok = finish(&t, ok && loop_run(&t, 0, err), err);
    } else if (t.results.description) {
        results_conclude(&t.results, record, err, &ignored);
    }
    if (!ok) results_withdraw(&t.place, err); /* nothing, once there is a checkpoint */
    trainer_free(&t);
    return ok;
}

/* The config of a run that goes on. Nothing but the number of steps may be another. */
static bool load_config(Config *config, const Results *results, const char *const *overrides, size_t count,
                        Error *err) {
    char path[4096];
    const char *name = js_as_text(js_get(results->description, "name"));
    for (size_t i = 0; i < count; i++)
        if (strncmp(overrides[i], "train.steps=", strlen("train.steps=")) != 0)
            return error_set(err, STATUS_USAGE,
                             "a run goes on with the config it has; only train.steps can be set, not %s", overrides[i]);
    if (!results_path(results, path, "config.ini", err) || !config_load(config, path, overrides, count, err))
        return false;
    if (name) snprintf(config->name, sizeof config->name, "%s", name); /* the file's own is config */
    return true;
}

static bool load_vocabulary(Vocabulary *vocabulary, const Results *results, Error *err) {
    char path[4096];
    return results_path(results, path, "vocab.json", err) && vocabulary_load(vocabulary, path, err);
}

/* The threads it had, unless others are asked for. */
static size_t threads_of(const Results *results, size_t asked) {
    int64_t threads;
    bool known =
        js_as_integer(js_get(results->description, "threads"), &threads) && threads > 0 && threads <= THREADS_MAX;
    return asked ? asked : known ? (size_t)threads : 1;
}

/* run.json gets a line about going on; bits repeat only where threads and kernels are what they were. */
static void describe_going_on(Trainer *t, size_t step) {
    Json *run = t->results.description, *now = js_object();
    const char *core = js_as_text(js_get(run, "blas_core"));
    size_t threads = threads_of(&t->results, 0);
    js_set(now, "step", js_integer((int64_t)step));
    js_set(now, "time", time_now());
    js_set(now, "version", js_text(SQRTDK_VERSION));
    js_set(now, "command", js_text(t->options->command_line));
    js_set(now, "threads", js_integer((int64_t)t->options->threads));
    js_set(now, "blas_core", js_text(matmul_core()));
    js_append(js_list(run, "resumed"), now);
    progress_message(t->options->progress, "resuming %s in %s at step %zu of %lld", t->config->name,
                     t->record->directory, step, (long long)t->config->train.steps);
    note_set_aside(t);
    const char *products = js_as_text(js_get(run, "products"));
    bool own = products && strcmp(products, "sqrtdk") == 0;
    if (own && matmul_is_own()) return; /* the same bits with any number of threads */
    if (own || matmul_is_own() || threads != t->options->threads || !core || strcmp(core, matmul_core()) != 0)
        progress_message(t->options->progress,
                         "  note      begun with %zu thread%s (%s), going on with %zu (%s): from here on\n"
                         "            equal to rounding, not to the bit",
                         threads, threads == 1 ? "" : "s",
                         own    ? "own products"
                         : core ? core
                                : "?",
                         t->options->threads, matmul_is_own() ? "own products" : matmul_core());
}

/* Brings everything to where the checkpoint was made. *finished: there is nothing left to do. */
static bool restore(Trainer *t, RunState *state, bool *finished, Error *err) {
    const Checkpoint checkpoint = trainer_checkpoint(t);
    RunRecord *r = t->record;
    const char *result = js_as_text(js_get(t->results.description, "result"));
    bool found;
    initialise(t);
    loop_look(t, 0, &r->first); /* gone from memory, but the first parameters can be drawn again */
    if (!checkpoint_load(&checkpoint, state, &found, err)) return false;
    if (state->step > (size_t)t->config->train.steps)
        return error_set(err, STATUS_USAGE, "%s has made %zu steps already: train.steps = %lld is less", r->directory,
                         state->step, (long long)t->config->train.steps);
    *finished = state->step == (size_t)t->config->train.steps && result && strcmp(result, "finished") == 0;
    if (*finished) return true;
    if (state->step > 0) record_looked(r);
    r->best_val_loss = state->best_val_loss;
    r->best_step = state->best_step;
    describe_going_on(t, state->step);
    return results_go_on(&t->results, t->config, state->log_size, r, err);
}

static bool set_directory(RunRecord *record, const char *directory, Error *err) {
    int length = snprintf(record->directory, sizeof record->directory, "%s", directory);
    return (length > 0 && (size_t)length < sizeof record->directory) ||
           error_set(err, STATUS_USAGE, "the path of the run directory is %s", length ? "too long" : "empty");
}

bool train_resume(const char *directory, const char *const *overrides, size_t count, const TrainOptions *options,
                  RunRecord *record, bool *finished, Error *err) {
    TrainOptions own = *options;
    Vocabulary vocabulary = {0};
    RunState state;
    *record = (RunRecord){0};
    *finished = false;
    Config *config = calloc(1, sizeof *config);
    Trainer t = {.config = config, .options = &own, .record = record, .last_train_loss = NAN, .last_val_loss = NAN};
    bool ok = (config || error_set(err, STATUS_FAILED, "no memory for a config")) &&
              results_enter(&t.results, directory, err) && load_config(config, &t.results, overrides, count, err) &&
              load_vocabulary(&vocabulary, &t.results, err);
    if (ok) {
        own.threads = threads_of(&t.results, options->threads);
        ok = prepare(&t, &vocabulary, err) && set_directory(record, directory, err) &&
             run_description_check_corpus(t.results.description, directory, config->data.corpus, &t.corpus, err) &&
             restore(&t, &state, finished, err);
    }
    if (ok && !*finished) {
        t.start = omp_get_wtime() - state.seconds;
        if (record->val_count) t.last_val_loss = record->val_loss[record->val_count - 1];
        ok = finish(&t, loop_run(&t, state.step, err), err);
    }
    vocabulary_free(&vocabulary);
    trainer_free(&t);
    free(config);
    return ok;
}

bool train_check(const Config *config, const TrainOptions *options, Error *err) {
    RunRecord record = {0};
    Trainer t = {.config = config, .options = options, .record = &record};
    bool ok = prepare_new(&t, err);
    trainer_free(&t);
    record_free(&record);
    return ok;
}

/* Comments, so that the whole output is a config again. */
static void write_commented(const char *text, FILE *out) {
    fputs("\n; ", out);
    for (; *text; text++) {
        fputc(*text, out);
        if (*text == '\n') fputs("; ", out);
    }
    fputc('\n', out);
}

bool train_announce(const Config *config, const TrainOptions *options, FILE *out, Error *err) {
    Corpus corpus;
    Plan plan;
    char *text = NULL;
    if (!plan_corpus(&corpus, config, NULL, err)) return false;
    bool ok = plan_make(&plan, config, corpus.vocabulary.count, options->threads, err) &&
              plan_announce(&plan, config, &corpus, options->threads, NAN, &text, err);
    if (ok) write_commented(text, out);
    free(text);
    corpus_free(&corpus);
    return ok;
}

bool train_dry_run(const Config *config, const TrainOptions *options, FILE *out, Error *err) {
    if (!train_check(config, options, err)) return false;
    config_write(config, out);
    return train_announce(config, options, out, err);
}
