#include "train/loop.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/interrupt.h"
#include "train/evaluate.h"
#include "train/pictures.h"
#include "train/safetensors.h"
#include "train/step.h"

/* Of the parameters after record->steps_done updates. */
static bool save(Trainer *t, Error *err) {
    const Checkpoint checkpoint = trainer_checkpoint(t);
    const RunRecord *r = t->record;
    RunState state = {.step = r->steps_done,
                      .seconds = omp_get_wtime() - t->start,
                      .best_val_loss = r->best_val_loss,
                      .best_step = r->best_step};
    memcpy(state.log_size, t->log_size, sizeof state.log_size);
    Error left;
    if (!results_sync(&t->results, err) || !checkpoint_save(&checkpoint, &state, err)) return false;
    if (!results_keep(&t->place, &left)) progress_message(t->options->progress, "  note      %s", left.message);
    return true;
}

static bool save_best(const Trainer *t, size_t step, Error *err) {
    char path[4096];
    const TensorSet set = tensor_set(&t->model.tensors, t->model.parameters);
    return results_path(&t->results, path, "checkpoint/best.safetensors", err) &&
           safetensors_save(path, &set, step, err);
}

void loop_look(Trainer *t, size_t step, Look *look) {
    Model *m = &t->model;
    const RunRecord *r = t->record;
    look->step = step;
    const Batch batch = {t->look_tokens, t->look_targets, t->look_batch, m->shape.T};
    probe_gradients(m, &batch, t->look_room, look->gradients);
    probe_statistics(m, t->look_batch, m->shape.T, look->heads);
    model_forward(m, &(Batch){t->text, NULL, 1, r->text_length});
    for (size_t layer = 0; layer < r->L; layer++)
        for (size_t head = 0; head < r->H; head++)
            probe_weights(m, layer, head, r->text_length, look_weights(r, look, layer, head));
}

static bool look_at_attention(Trainer *t, size_t step, Error *err) {
    RunRecord *r = t->record;
    Look *look = record_next_look(r);
    loop_look(t, step, look);
    bool ok = results_attention(&t->results, r, look, err) && picture_attention(r, t->config, look, err);
    record_looked(r);
    return ok;
}

static bool write_sample(Trainer *t, size_t step, Error *err) {
    const int32_t start = sample_start(&t->corpus.vocabulary);
    const SampleOptions options = {
        .tokens = (size_t)t->config->log.sample_tokens, .temperature = 1, .seed = (uint64_t)t->config->train.seed};
    if (options.tokens == 0) return true;
    FILE *out = t->results.logs[LOG_SAMPLES];
    fprintf(out, "==== step %zu, validation loss %.4f ====\n", step, t->last_val_loss);
    bool whole = sample_text(&t->model, &t->corpus.vocabulary, &t->sampler, &start, 1, &options, out);
    t->cut_short = !whole && interrupt_signal();
    fputs("\n\n", out);
    return results_flush_samples(&t->results, err);
}

/* Ends the run when `loss` ("training", "validation") or, with gradients, their norm is no number any more. */
static bool check_finite(const Trainer *t, size_t step, const char *which, double loss, const double *norm,
                         Error *err) {
    if (isfinite(loss) && (!norm || isfinite(*norm))) return true;
    const char *weight = tensors_find_not_finite(&t->model.tensors, t->model.parameters);
    const char *gradient = norm ? tensors_find_not_finite(&t->model.tensors, t->model.gradients) : NULL;
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
    return (!record_best(t->record, step, loss) || save_best(t, step, err)) && write_sample(t, step, err);
}

static bool due(size_t step, int64_t every) { return every > 0 && step % (size_t)every == 0; }

static bool write_metrics(Trainer *t, size_t step, double lr, double loss, bool validated, double norm, Error *err) {
    size_t tokens = step * (size_t)(t->config->train.accumulate * t->config->train.batch) * t->model.shape.T;
    const MetricsRow row = {step, tokens, omp_get_wtime() - t->start, lr, loss, validated ? t->last_val_loss : NAN,
                            norm};
    return results_metrics(&t->results, &row, t->record, err);
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

    double lr = learning_rate(c, step),
           loss = step_gradients(&t->model, &t->corpus, c, step, t->tokens, t->targets, NULL);
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
    results_log_sizes(&t->results, t->log_size);
    return !due(step + 1, c->train.steps > (int64_t)step + 1 ? c->log.checkpoint_every : 0) || save(t, err);
}

bool loop_run(Trainer *t, size_t first, Error *err) {
    size_t steps = (size_t)t->config->train.steps;
    t->record->steps_done = first;
    results_log_sizes(&t->results, t->log_size);
    for (size_t step = first; step <= steps; step++) {
        if (!take_step(t, step, err)) return false;
        t->record->signal = interrupt_signal();
        if (t->record->signal && (step < steps || t->cut_short)) break;
        t->record->signal = 0;
    }
    progress_clear(t->options->progress);
    return save(t, err);
}
