#include "train/loop.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/interrupt.h"
#include "train/announce.h"
#include "train/pictures.h"
#include "train/sample.h"

double step_gradients(Model *model, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, double *batch_seconds) {
    const size_t B = (size_t)config->train.batch, T = model->shape.T, parts = (size_t)config->train.accumulate;
    const uint64_t seed = (uint64_t)config->train.seed;
    const Batch batch = {tokens, targets, B, T};
    double sum = 0, counted = 0;
    for (size_t part = 0; part < parts && isfinite(sum); part++) {
        const uint64_t number = (uint64_t)step * parts + part;
        const double start = omp_get_wtime();
        corpus_training_batch(corpus, seed, number, B, T, tokens, targets);
        if (batch_seconds) *batch_seconds += omp_get_wtime() - start;
        sum += model_forward_backward(model, &batch, seed, number, 1 / (double)parts, part == 0);
        counted += (double)batch_targets(&batch);
    }
    return sum / counted;
}

void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step) {
    optimizer_step(optimizer, &model->tensors, model->parameters, model->gradients, norm, learning_rate(config, step),
                   step);
    if (config->train.qk_clip > 0) model_qk_clip(model, config->train.qk_clip);
}

/* Of the parameters after state.step updates. */
static bool save(Trainer *t, Error *err) {
    t->state.seconds = omp_get_wtime() - t->start;
    return logs_sync(&t->logs, err) && checkpoint_save(&t->run, &t->model, &t->optimizer, &t->state, err);
}

static void log_heads(const Trainer *t) {
    const size_t H = t->model.shape.attention.H;
    for (size_t i = 0; i < t->model.shape.L * H; i++) {
        const size_t layer = i / H, head = i % H;
        const HeadStatistics *s = &t->heads[i];
        double row[ATTENTION_COLUMNS] = {[ATTENTION_STEP] = (double)t->state.step,
                                         [ATTENTION_LAYER] = (double)layer,
                                         [ATTENTION_HEAD] = (double)head,
                                         [ATTENTION_SCORE_STD] = s->score_std,
                                         [ATTENTION_SCORE_MAX] = s->score_max,
                                         [ATTENTION_ENTROPY] = s->entropy,
                                         [ATTENTION_MAX_WEIGHT] = s->max_weight,
                                         [ATTENTION_SATURATED] = s->saturated,
                                         [ATTENTION_W_Q_NORM] = s->w_q_norm,
                                         [ATTENTION_W_K_NORM] = s->w_k_norm,
                                         [ATTENTION_OVERFLOWS] = s->rounding.overflows,
                                         [ATTENTION_INFINITIES] = s->rounding.infinities,
                                         [ATTENTION_SUBNORMALS] = s->rounding.subnormals};
        memcpy(&row[ATTENTION_GRAD_Q], &t->gradients[i].query, sizeof t->gradients[i].query);
        memcpy(&row[ATTENTION_GRAD_SCORES], &t->gradients[i].scores, sizeof t->gradients[i].scores);
        logs_append(&t->logs, LOG_ATTENTION, row);
    }
}

/* The attention of the parameters as they are: statistics on the fixed batch into attention.csv, and the fixed text's
   snapshot and heatmaps. The snapshot comes first, so that there is one for every step in attention.csv. */
static bool measure_attention(Trainer *t, Error *err) {
    Model *m = &t->model;
    Snapshot *s = &t->snapshot;
    const Batch batch = {t->probe_tokens, t->probe_targets, t->probe_batch, m->shape.T};
    probe_gradients(m, &batch, t->probe_scratch, t->gradients);
    probe_statistics(m, t->probe_batch, m->shape.T, t->heads);
    model_forward(m, &(Batch){t->text, NULL, 1, s->T});
    probe_snapshot(m, s->T, &s->attention);
    s->step = t->state.step;
    if (!snapshot_save(s, t->run.directory, &t->run.config, err)) return false;
    log_heads(t);
    return logs_flush(&t->logs, LOG_ATTENTION, err) && picture_attention(&t->run, t->state.step, err);
}

static bool write_sample(Trainer *t, Error *err) {
    const Vocabulary *vocabulary = &t->run.corpus.vocabulary;
    const int32_t start = sample_start(vocabulary);
    const SampleOptions options = {.tokens = (size_t)t->run.config.log.sample_tokens,
                                   .temperature = 1,
                                   .seed = (uint64_t)t->run.config.train.seed};
    if (options.tokens == 0) return true;
    FILE *out = t->logs.file[LOG_SAMPLES];
    fprintf(out, "==== step %zu, validation loss %.4f ====\n", t->state.step, t->val_loss);
    bool whole = sample_text(&t->model, vocabulary, &start, 1, &options, t->tokens, out);
    t->cut_short = !whole && interrupt_signal();
    fputs("\n\n", out);
    return logs_flush(&t->logs, LOG_SAMPLES, err);
}

/* Ends the run when the `which` loss ("training", "validation") or the gradients' norm is not finite. */
static bool check_finite(const Trainer *t, const char *which, double loss, double norm, Error *err) {
    if (isfinite(loss) && isfinite(norm)) return true;
    const char *parameter = tensors_find_not_finite(&t->model.tensors, t->model.parameters);
    const char *gradient = parameter ? NULL : tensors_find_not_finite(&t->model.tensors, t->model.gradients);
    const size_t i = parameter ? SIZE_MAX : model_find_not_finite(&t->model), H = t->model.shape.attention.H;
    char scores[96] = "";
    if (i != SIZE_MAX)
        snprintf(scores, sizeof scores, " (of the scores, those of layer %zu, head %zu first)", i / H, i % H);
    const char *what = parameter ? "the parameter " : gradient ? "the gradient of " : "an activation";
    const char *name = parameter ? parameter : gradient ? gradient : "";
    return error_set(
        err, STATUS_DIVERGED,
        "diverged at step %zu: the %s loss is %g, and %s%s is not finite%s; try a smaller train.lr or a larger divisor",
        t->state.step, which, isnan(loss) ? fabs(loss) : loss, what, name, scores);
}

/* The validation loss at this step, unless a signal cuts it short. Keeps the best parameters. */
static bool validate(Trainer *t, Error *err) {
    const Evaluation e =
        evaluate(&t->model, &t->run.corpus, batch_size(t), (size_t)t->run.config.eval.batches, t->tokens, t->targets);
    t->cut_short = !e.complete;
    if (t->cut_short) return true;
    t->val_loss = e.loss;
    t->val_accuracy = e.accuracy;
    if (!check_finite(t, "validation", e.loss, 0, err)) return false;
    if (logs_rounded(e.loss) < t->state.best_val_loss) {
        t->state.best_val_loss = logs_rounded(e.loss);
        t->state.best_step = t->state.step;
        if (!checkpoint_save_best(&t->run, &t->model, t->state.step, err)) return false;
    }
    return write_sample(t, err);
}

static bool due(size_t step, int64_t every) { return every > 0 && step % (size_t)every == 0; }

static bool write_metrics(Trainer *t, double lr, double loss, bool validated, double norm, Error *err) {
    const double row[METRICS_COLUMNS] = {
        [METRICS_STEP] = (double)t->state.step,
        [METRICS_TOKENS] = (double)(t->state.step * tokens_per_step(&t->run.config)),
        [METRICS_SECONDS] = omp_get_wtime() - t->start,
        [METRICS_LR] = lr,
        [METRICS_TRAIN_LOSS] = loss,
        [METRICS_VAL_LOSS] = validated ? t->val_loss : NAN,
        [METRICS_GRAD_NORM] = norm,
        [METRICS_VAL_ACCURACY] = validated ? t->val_accuracy : NAN,
    };
    t->state.train_loss = logs_rounded(loss);
    if (validated) t->state.val_loss = logs_rounded(t->val_loss);
    logs_append(&t->logs, LOG_METRICS, row);
    return logs_flush(&t->logs, LOG_METRICS, err);
}

static void show_progress(const Trainer *t, double train_loss) {
    double now = omp_get_wtime(), seconds = now - t->start, each = t->state.step ? seconds / (double)t->state.step : 0;
    size_t steps = (size_t)t->run.config.train.steps;
    progress_update(t->progress, now, t->state.step, steps, train_loss, t->state.val_loss,
                    each > 0 ? (double)tokens_per_step(&t->run.config) / each : 0,
                    each * (double)(steps - t->state.step));
}

/* One pass of the loop: what is measured at a step, then the update to the next (none at the last). */
static bool take_step(Trainer *t, Error *err) {
    const Config *c = &t->run.config;
    const size_t step = t->state.step;
    const bool last = step == (size_t)c->train.steps, validated = due(step, c->eval.every) || last;
    const bool measures = due(step, c->log.attention_every) || last || step == 0;
    attention_set_step(&t->model.shape.attention, c, step);
    if (validated && !validate(t, err)) return false;
    if (t->cut_short) return true;
    if (measures && !measure_attention(t, err)) return false;

    const double lr = learning_rate(c, step),
                 loss = step_gradients(&t->model, &t->run.corpus, c, step, t->tokens, t->targets, NULL),
                 norm = gradient_norm(&t->optimizer, t->model.gradients);
    if (!check_finite(t, "training", loss, norm, err)) return false;
    if ((due(step, c->log.every) || validated) && !write_metrics(t, lr, loss, validated, norm, err)) return false;
    char accuracy[32] = "";
    if (validated && !isnan(t->val_accuracy)) snprintf(accuracy, sizeof accuracy, "   accuracy %.4f", t->val_accuracy);
    if (validated)
        progress_message(t->progress, "step %5zu   train %.4f   validation %.4f%s   gradient norm %.3g", step, loss,
                         t->val_loss, accuracy, norm);
    show_progress(t, loss);
    if (last) return true;
    step_update(&t->model, &t->optimizer, c, norm, step);
    t->state.step = step + 1;
    logs_sizes(&t->logs, t->state.log_size);
    return !due(t->state.step, c->train.steps > (int64_t)t->state.step ? c->log.checkpoint_every : 0) || save(t, err);
}

bool loop_run(Trainer *t, Error *err) {
    const size_t steps = (size_t)t->run.config.train.steps;
    logs_sizes(&t->logs, t->state.log_size);
    for (bool last = false; !last;) {
        last = t->state.step == steps;
        if (!take_step(t, err)) return false;
        t->signal = interrupt_signal();
        if (t->signal && (!last || t->cut_short)) break;
        t->signal = 0;
    }
    progress_clear(t->progress);
    return save(t, err);
}
