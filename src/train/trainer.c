#include "train/trainer.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "data/corpus.h"
#include "train/evaluate.h"
#include "train/interrupt.h"
#include "train/optimizer.h"
#include "train/pictures.h"
#include "train/plan.h"
#include "train/results.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/sample.h"

/* Everything one run holds. Arrays are made before the first step; the loop allocates nothing but for pictures. */
typedef struct {
    const Config *config;
    const TrainOptions *options;
    RunRecord *record;
    Corpus corpus;
    Model model;
    Optimizer optimizer;
    Sampler sampler;
    int32_t *tokens, *targets; /* (batch, T): of training, or of the evaluation in progress */
    int32_t *look_tokens;      /* (look_batch, T): the fixed validation batch */
    size_t look_batch;
    int32_t text[PICTURE_TEXT_MAX]; /* ids of the fixed text */
    Results results;
    bool cut_short; /* a signal came during the last validation */
    double start, last_train_loss, last_val_loss;
} Trainer;

static size_t batch_size(const Trainer *t) { return (size_t)t->config->train.batch; }

/* The fixed text of the pictures: log.attention_text, or the beginning of the validation split. */
static bool prepare_text(Trainer *t, Error *err) {
    const char *text = t->config->log.attention_text;
    size_t T = t->model.shape.T, longest = T < PICTURE_TEXT_MAX ? T : PICTURE_TEXT_MAX;
    if (*text) {
        if (!vocabulary_encode(&t->corpus.vocabulary, "log.attention_text", text, strlen(text), t->text, longest,
                               &t->record->text_length, err))
            return false;
    } else {
        t->record->text_length = longest;
        memcpy(t->text, t->corpus.ids + t->corpus.train, longest * sizeof *t->text);
    }
    for (size_t i = 0; i < t->record->text_length; i++)
        t->record->text[i] = t->corpus.vocabulary.characters[t->text[i]];
    return true;
}

static bool prepare_batches(Trainer *t, Error *err) {
    size_t B = batch_size(t), T = t->model.shape.T;
    t->tokens = calloc(B * T, sizeof *t->tokens);
    t->targets = calloc(B * T, sizeof *t->targets);
    t->look_tokens = calloc(B * T, sizeof *t->look_tokens);
    if (!t->tokens || !t->targets || !t->look_tokens) return error_set(err, STATUS_FAILED, "no memory for the batches");
    t->look_batch = validation_batch(&t->corpus, B, T, t->look_tokens, t->targets);
    return true;
}

/* Everything that can be refused, before anything is written. */
static bool prepare(Trainer *t, Error *err) {
    const Config *c = t->config;
    Plan plan;
    const char *wanted = t->options->out ? t->options->out : c->log.out;
    if (!run_directory_check(wanted, t->options->out != NULL, t->options->force, err) ||
        !corpus_load(&t->corpus, c->data.corpus, NULL, c->data.val_fraction, (size_t)c->model.context, err) ||
        !plan_make(&plan, c, t->corpus.vocabulary.count, t->options->threads, err) ||
        !model_make(&t->model, &plan.shape, batch_size(t), t->options->threads, true, err) ||
        !optimizer_make(&t->optimizer, c, t->model.tensors.flat, t->options->threads, err) ||
        !sampler_make(&t->sampler, &plan.shape, err) || !record_make(t->record, c, &plan.shape, err) ||
        !prepare_batches(t, err))
        return false;
    return prepare_text(t, err);
}

static Json *describe(const Trainer *t) {
    const ModelShape *s = &t->model.shape;
    char divisor[64];
    scale_text(t->config->attention.scale_divisor, divisor, sizeof divisor);
    Json *run = run_description(t->options->command_line, t->options->threads);
    js_set(run, "parameters", js_integer((int64_t)t->model.tensors.parameters));
    js_set(run, "vocabulary", js_integer((int64_t)s->V));
    js_set(run, "scale_divisor", js_text(divisor));
    js_set(run, "divisor", js_number(scale_value(t->config->attention.scale_divisor, s->D)));
    js_set(run, "multiplier", js_number((double)s->multiplier));
    return run;
}

static bool open_directory(Trainer *t, Error *err) {
    const char *out = t->options->out;
    RunRecord *r = t->record;
    return run_directory_make(r->directory, sizeof r->directory, out ? out : t->config->log.out, out != NULL,
                              t->options->force, err) &&
           results_open(&t->results, r->directory, t->config, &t->corpus.vocabulary, describe(t), err);
}

/* The spread of the first block's scores on the first batch, mean over its heads. */
static double measure_scores(Trainer *t) {
    size_t B = batch_size(t), T = t->model.shape.T, H = t->model.shape.H;
    double sum = 0;
    corpus_training_batch(&t->corpus, (uint64_t)t->config->train.seed, 0, B, T, t->tokens, t->targets);
    model_forward(&t->model, &(Batch){t->tokens, NULL, B, T});
    probe_statistics(&t->model, B, T, t->record->first.heads);
    for (size_t h = 0; h < H; h++) sum += t->record->first.heads[h].score_std;
    return sum / (double)H;
}

static bool announce(Trainer *t, Error *err) {
    Plan plan;
    char *text;
    if (!plan_make(&plan, t->config, t->corpus.vocabulary.count, t->options->threads, err) ||
        !plan_announce(&plan, t->config, &t->corpus, t->options->threads, measure_scores(t), &text, err))
        return false;
    progress_message(t->options->progress, "training %s into %s\n%s", t->config->name, t->record->directory, text);
    free(text);
    return true;
}

static bool save(const Trainer *t, const char *name, Error *err) {
    char path[4096];
    return results_path(&t->results, path, name, err) &&
           safetensors_save(path, &t->model.tensors, t->model.parameters, err);
}

/* Statistics on the fixed batch, weights on the fixed text, pictures of both. */
static bool look_at_attention(Trainer *t, size_t step, Error *err) {
    Model *m = &t->model;
    RunRecord *r = t->record;
    Look *look = record_next_look(r);
    look->step = step;
    model_forward(m, &(Batch){t->look_tokens, NULL, t->look_batch, m->shape.T});
    probe_statistics(m, t->look_batch, m->shape.T, look->heads);
    model_forward(m, &(Batch){t->text, NULL, 1, r->text_length});
    for (size_t layer = 0; layer < r->L; layer++)
        for (size_t head = 0; head < r->H; head++)
            probe_weights(m, layer, head, r->text_length, look_weights(r, look, layer, head));
    bool ok = results_attention(&t->results, r, look, err) && picture_attention(r, t->config, look, err);
    record_looked(r);
    return ok;
}

static bool write_sample(Trainer *t, size_t step, Error *err) {
    const int32_t start = sample_start(&t->corpus.vocabulary);
    const SampleOptions options = {
        .tokens = (size_t)t->config->log.sample_tokens, .temperature = 1, .seed = (uint64_t)t->config->train.seed};
    if (options.tokens == 0) return true;
    FILE *out = t->results.samples;
    fprintf(out, "==== step %zu, validation loss %.4f ====\n", step, t->last_val_loss);
    sample_text(&t->model, &t->corpus.vocabulary, &t->sampler, &start, 1, &options, out);
    fputs("\n\n", out);
    return results_flush_samples(&t->results, err);
}

/* The first tensor with a NaN or an infinity in it, or NULL. */
static const char *find_not_finite(const TensorTable *table, const real *flat) {
    for (size_t i = 0; i < table->count; i++)
        for (size_t j = 0; j < table->items[i].count; j++)
            if (!isfinite((double)flat[table->items[i].offset + j])) return table->items[i].name;
    return NULL;
}

/* Ends the run when `loss` ("training", "validation") or, with gradients, their norm is no number any more. */
static bool check_finite(const Trainer *t, size_t step, const char *which, double loss, const double *norm,
                         Error *err) {
    if (isfinite(loss) && (!norm || isfinite(*norm))) return true;
    const char *weight = find_not_finite(&t->model.tensors, t->model.parameters);
    const char *gradient = norm ? find_not_finite(&t->model.tensors, t->model.gradients) : NULL;
    const char *what = weight     ? "the parameter "
                       : gradient ? "the gradient of "
                                  : "no parameter or gradient, but a number on the way,";
    const char *name = weight ? weight : gradient ? gradient : "";
    return error_set(
        err, STATUS_DIVERGED,
        "diverged at step %zu: the %s loss is %g, and %s%s is not finite; try a smaller train.lr or a larger divisor",
        step, which, isnan(loss) ? fabs(loss) : loss, what, name);
}

/* The validation loss at `step`, unless a signal cuts it short. Keeps the best parameters. */
static bool validate(Trainer *t, size_t step, Error *err) {
    bool complete;
    double loss = evaluate(&t->model, &t->corpus, batch_size(t), (size_t)t->config->eval.batches, t->tokens, t->targets,
                           &complete);
    t->cut_short = !complete;
    if (t->cut_short) return true;
    t->last_val_loss = loss;
    if (!check_finite(t, step, "validation", loss, NULL, err)) return false;
    bool best = loss < t->record->best_val_loss;
    record_val_loss(t->record, step, loss);
    return (!best || save(t, "checkpoint/best.safetensors", err)) && write_sample(t, step, err);
}

/* Loss and gradients of step `step`, over all of its micro-batches. */
static double compute_gradients(Trainer *t, size_t step) {
    const Config *c = t->config;
    size_t B = batch_size(t), T = t->model.shape.T, micro_steps = (size_t)c->train.accumulate;
    double sum = 0;
    for (size_t micro = 0; micro < micro_steps; micro++) {
        uint64_t number = (uint64_t)step * micro_steps + micro;
        corpus_training_batch(&t->corpus, (uint64_t)c->train.seed, number, B, T, t->tokens, t->targets);
        sum += model_forward_backward(&t->model, &(Batch){t->tokens, t->targets, B, T}, (uint64_t)c->train.seed, number,
                                      1 / (double)micro_steps, micro == 0);
    }
    return sum / ((double)B * (double)T * (double)micro_steps);
}

static bool due(size_t step, int64_t every) { return every > 0 && step % (size_t)every == 0; }

static bool write_metrics(Trainer *t, size_t step, double lr, double loss, bool validated, double norm, Error *err) {
    size_t tokens = step * (size_t)(t->config->train.accumulate * t->config->train.batch) * t->model.shape.T;
    record_train_loss(t->record, step, loss);
    return results_metrics(
        &t->results,
        &(MetricsRow){step, tokens, omp_get_wtime() - t->start, lr, loss, validated ? t->last_val_loss : NAN, norm},
        err);
}

static void show_progress(const Trainer *t, size_t step) {
    double now = omp_get_wtime(), seconds = now - t->start, each = step ? seconds / (double)step : 0;
    size_t steps = (size_t)t->config->train.steps;
    double tokens = (double)t->config->train.batch * (double)t->config->train.accumulate * (double)t->model.shape.T;
    progress_update(t->options->progress, now, step, steps, t->last_train_loss, t->last_val_loss,
                    each > 0 ? tokens / each : 0, each * (double)(steps - step));
}

/* One pass of the loop: what is measured at `step`, then the update to step + 1 (none at the last). */
static bool take_step(Trainer *t, size_t step, Error *err) {
    const Config *c = t->config;
    bool last = step == (size_t)c->train.steps, validated = due(step, c->eval.every) || last || step == 0;
    bool looks = due(step, c->log.attention_every) || last || step == 0;
    if (validated && !validate(t, step, err)) return false;
    if (t->cut_short) return true;
    if (looks && !look_at_attention(t, step, err)) return false;

    double lr = learning_rate(c, step), loss = compute_gradients(t, step);
    double norm = gradient_norm(&t->optimizer, t->model.gradients);
    if (!check_finite(t, step, "training", loss, &norm, err)) return false;
    t->last_train_loss = loss;
    if ((due(step, c->log.every) || validated) && !write_metrics(t, step, lr, loss, validated, norm, err)) return false;
    if (validated)
        progress_message(t->options->progress, "step %5zu   train %.4f   validation %.4f   gradient norm %.3g", step,
                         loss, t->last_val_loss, norm);
    show_progress(t, step);
    if (last) return true;
    optimizer_step(&t->optimizer, &t->model.tensors, t->model.parameters, t->model.gradients, norm, lr, step);
    t->record->steps_done = step + 1;
    return !due(step + 1, c->train.steps > (int64_t)step + 1 ? c->log.checkpoint_every : 0) ||
           save(t, "checkpoint/model.safetensors", err);
}

static bool loop(Trainer *t, Error *err) {
    size_t steps = (size_t)t->config->train.steps;
    for (size_t step = 0; step <= steps; step++) {
        if (!take_step(t, step, err)) return false;
        t->record->signal = interrupt_signal();
        if (t->record->signal && (step < steps || t->cut_short)) break;
        t->record->signal = 0;
    }
    progress_clear(t->options->progress);
    return save(t, "checkpoint/model.safetensors", err);
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
    free(t->tokens);
    free(t->targets);
    free(t->look_tokens);
    sampler_free(&t->sampler);
    optimizer_free(&t->optimizer);
    model_free(&t->model);
    corpus_free(&t->corpus);
}

bool train_run(const Config *config, const TrainOptions *options, RunRecord *record, Error *err) {
    *record = (RunRecord){0};
    Trainer t = {.config = config, .options = options, .record = record, .last_train_loss = NAN, .last_val_loss = NAN};
    bool ok = prepare(&t, err) && open_directory(&t, err);
    if (ok) {
        tensors_initialise(&t.model.tensors, &t.model.shape, (Init)config->model.init, (uint64_t)config->train.seed,
                           t.model.parameters);
        ok = announce(&t, err);
        t.start = omp_get_wtime();
        ok = finish(&t, ok && loop(&t, err), err);
    }
    trainer_free(&t);
    return ok;
}

bool train_check(const Config *config, const TrainOptions *options, Error *err) {
    RunRecord record = {0};
    Trainer t = {.config = config, .options = options, .record = &record};
    bool ok = prepare(&t, err);
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

bool train_dry_run(const Config *config, const TrainOptions *options, FILE *out, Error *err) {
    Corpus corpus;
    Plan plan;
    char *text = NULL;
    if (!train_check(config, options, err) ||
        !corpus_load(&corpus, config->data.corpus, NULL, config->data.val_fraction, (size_t)config->model.context, err))
        return false;
    bool ok = plan_make(&plan, config, corpus.vocabulary.count, options->threads, err) &&
              plan_announce(&plan, config, &corpus, options->threads, NAN, &text, err);
    if (ok) {
        config_write(config, out);
        write_commented(text, out);
    }
    free(text);
    corpus_free(&corpus);
    return ok;
}
