/* The training loop (loop_run, at the end) and what it does at a step, in that order: evaluate on the validation split,
   measure attention, compute gradients, log, update the parameters, save.

   A checkpoint is of the parameters after state.step updates, before anything was measured at that step, and it names
   the sizes that the logs had then. A resumed run cuts its logs back to these sizes and measures the step again, to the
   same bits. So a signal can end the loop after an update or in the middle of an evaluation, and in both cases a
   checkpoint is all that is left to write. */
#include "train/loop.h"

#include <math.h>
#include <omp.h>

#include "base/interrupt.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/pictures.h"
#include "train/announce.h"
#include "train/sample.h"

double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, StepSeconds *seconds) {
    const size_t B = config->train.batch, T = engine->model->shape.T, parts = config->train.accumulate;
    const uint64_t seed = config->train.seed;
    const Batch batch = {tokens, targets, B, T};
    double loss = 0, counted = 0;
    for (size_t shard = 0; shard < engine->shards.own; shard += engine->shards.at_once) {
        double sum = 0;
        counted = 0;
        for (size_t part = 0; part < parts && isfinite(sum); part++) {
            const uint64_t number = (uint64_t)step * parts + part;
            const double start = omp_get_wtime();
            corpus_training_batch(corpus, seed, number, B, T, tokens, targets);
            if (seconds) seconds->batch += omp_get_wtime() - start;
            const Pass pass = {.training = true,
                               .seed = seed,
                               .micro_step = number,
                               .with_backward = true,
                               .zero_gradients = part == 0,
                               .keep_score_max = shard > 0,
                               .batch_weight = 1 / (double)parts};
            sum = engine_pass_shards(engine, shard, &batch, pass);
            counted += (double)batch_targets(&batch);
        }
        const double start = omp_get_wtime();
        loss = engine_end_shards(engine, shard);
        if (seconds) seconds->shards += omp_get_wtime() - start;
    }
    return loss / counted;
}

void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step) {
    optimizer_step(optimizer, &model->tensors, model->parameters, model->gradients, norm, learning_rate(config, step),
                   step);
    if (config->train.qk_clip > 0) model_qk_clip(model, config->train.qk_clip);
}

/* Writes the logs to disk first, because the checkpoint names their sizes. */
void loop_save(Trainer *t) {
    const Moments moments = {t->optimizer.m, t->optimizer.v};
    t->state.seconds = omp_get_wtime() - t->start;
    logs_sync(t->logs);
    checkpoint_save(&t->run, CHECKPOINT_LAST, &t->model, moments, &t->state);
}

/* The rows of attention.csv, one for each head of each layer. */
static void log_heads(const Trainer *t) {
    const size_t H = t->model.shape.attention.H;
    for (size_t i = 0; i < t->model.shape.L * H; i++) {
        const size_t layer = i / H, head = i % H;
        const HeadStatistics *s = &t->heads[i];
        const struct {
            double place[3], scores[5];
            GradientStatistics gradients;
            double norms[2], rounding[3];
        } row = {{(double)t->state.step, (double)layer, (double)head},
                 {s->score_std, s->score_max, s->entropy, s->max_weight, s->saturated},
                 t->gradients[i],
                 {s->w_q_norm, s->w_k_norm},
                 {s->rounding.overflows, s->rounding.infinities, s->rounding.subnormals}};
        _Static_assert(sizeof row == ATTENTION_COLUMNS * sizeof(double), "the columns in the order of ATTENTION_TABLE");
        logs_append(t->logs, LOG_ATTENTION, (const double *)&row);
    }
}

/* Writes statistics of attention on the fixed batch to attention.csv, and attention on the fixed text as a snapshot and
   heatmaps. The snapshot is written first, so that there is one for every step in attention.csv. */
static void measure_attention(Trainer *t) {
    Model *m = &t->model;
    Snapshot *s = &t->snapshot;
    const Batch batch = {t->measured_tokens, t->measured_targets, t->measured_batch, m->shape.T};
    measure_gradients(m, &batch, t->measure_scratch, t->gradients);
    measure_heads(m, t->measured_batch, m->shape.T, t->heads);
    model_forward(m, &(Batch){t->text, NULL, 1, s->T});
    measure_snapshot(m, s->T, &s->attention);
    s->step = t->state.step;
    snapshot_save(s, t->run.locked);
    log_heads(t);
    logs_flush(t->logs, LOG_ATTENTION);
    picture_attention(&t->run, t->state.step);
}

/* Appends a text drawn from the model to samples.txt. A signal that cuts it short is noted in t->signal. */
static void write_sample(Trainer *t) {
    const Vocabulary *vocabulary = &t->run.corpus.vocabulary;
    const int32_t start = sample_start(vocabulary);
    const SampleOptions options = {
        .tokens = t->run.config.log.sample_tokens, .temperature = 1, .seed = t->run.config.train.seed};
    if (!t->logs || options.tokens == 0) return;
    FILE *out = t->logs->file[LOG_SAMPLES];
    fprintf(out, "==== step %zu, validation loss %.4f ====\n", t->state.step, t->val_loss);
    if (!sample_text(&t->model, vocabulary, &start, 1, &options, t->tokens, out)) t->signal = interrupt_signal();
    fputs("\n\n", out);
    logs_flush(t->logs, LOG_SAMPLES);
}

/* Raises an error of status STATUS_DIVERGED if the loss, "training" or "validation", or the gradients' norm is not
   finite. It names the first tensor that is not finite. */
static void check_finite(const Trainer *t, const char *which, double loss, double norm) {
    if (isfinite(loss) && isfinite(norm)) return;
    const char *parameter = tensors_find_not_finite(&t->model.tensors, t->model.parameters);
    const char *gradient = parameter ? NULL : tensors_find_not_finite(&t->model.tensors, t->model.gradients);
    const size_t i = parameter ? SIZE_MAX : model_find_not_finite(&t->model), H = t->model.shape.attention.H;
    char scores[96] = "";
    if (i != SIZE_MAX)
        snprintf(scores, sizeof scores, " (of the scores, those of layer %zu, head %zu first)", i / H, i % H);
    const char *what = parameter ? "the parameter " : gradient ? "the gradient of " : "an activation";
    const char *name = parameter ? parameter : gradient ? gradient : "";
    error_raise(
        STATUS_DIVERGED,
        "diverged at step %zu: the %s loss is %g, and %s%s is not finite%s; try a smaller train.lr or a larger divisor",
        t->state.step, which, isnan(loss) ? fabs(loss) : loss, what, name, scores);
}

/* Computes the validation loss, saves the best parameters so far and writes a sample. A signal that cuts the loss or
   the sample short is noted in t->signal. */
static void validate(Trainer *t) {
    const Evaluation e =
        evaluate(&t->engine, &t->run.corpus, batch_size(t), t->run.config.eval.batches, t->tokens, t->targets);
    if (!e.complete) {
        t->signal = interrupt_signal();
        return;
    }
    t->val_loss = e.loss;
    t->val_accuracy = e.accuracy;
    check_finite(t, "validation", e.loss, 0);
    if (logs_rounded(e.loss) < t->state.best_val_loss) {
        t->state.best_val_loss = logs_rounded(e.loss);
        t->state.best_step = t->state.step;
        const RunState best = {.step = t->state.step}; /* without seconds, so that every run writes the same bytes */
        checkpoint_save(&t->run, CHECKPOINT_BEST, &t->model, (Moments){0}, &best);
    }
    write_sample(t);
}

static void write_metrics(Trainer *t) {
    const Config *c = &t->run.config;
    const double row[METRICS_COLUMNS] = {
        [METRICS_STEP] = (double)t->state.step,
        [METRICS_TOKENS] = (double)(t->state.step * tokens_per_step(c)),
        [METRICS_SECONDS] = omp_get_wtime() - t->start,
        [METRICS_LR] = learning_rate(c, t->state.step),
        [METRICS_TRAIN_LOSS] = t->loss,
        [METRICS_VAL_LOSS] = t->val_loss,
        [METRICS_GRAD_NORM] = t->norm,
        [METRICS_VAL_ACCURACY] = isnan(t->val_loss) ? (double)NAN : t->val_accuracy,
    };
    if (!isnan(t->val_loss)) t->state.val_loss = t->val_loss; /* for the progress line */
    logs_append(t->logs, LOG_METRICS, row);
    logs_flush(t->logs, LOG_METRICS);
}

static void show_evaluation(const Trainer *t) {
    const bool text = isnan(t->val_accuracy);
    char accuracy[32] = "";
    if (!text) snprintf(accuracy, sizeof accuracy, "  accuracy %.4f", t->val_accuracy);
    progress_message(t->options->progress, "step %5zu  train %.4f  %s %.4f%s  gradient norm %.3g", t->state.step,
                     logs_rounded(t->loss), text ? "validation" : "val", logs_rounded(t->val_loss), accuracy, t->norm);
}

static void show_progress(const Trainer *t) {
    const double now = omp_get_wtime(), seconds = now - t->start;
    const double per_step = t->state.step ? seconds / (double)t->state.step : 0;
    const size_t steps = t->run.config.train.steps;
    progress_update(t->options->progress, now, t->state.step, steps, t->loss, t->state.val_loss, t->val_accuracy,
                    per_step > 0 ? (double)tokens_per_step(&t->run.config) / per_step : 0,
                    per_step * (double)(steps - t->state.step));
}

/* Returns whether what comes every `every` steps comes at `step`. 0: never; EVERY_DOUBLING: at 0 and at powers of two.
 */
static bool due(size_t step, size_t every) {
    if (every == EVERY_DOUBLING) return (step & (step - 1)) == 0;
    return every > 0 && step % every == 0;
}

/* Checks that the gradients are finite, writes the row of metrics.csv at each evaluation and every log.every steps, and
   shows the step in the terminal. */
static void log_step(Trainer *t) {
    const bool evaluated = !isnan(t->val_loss);
    check_finite(t, "training", t->loss, t->norm);
    if (evaluated || due(t->state.step, t->run.config.log.every)) write_metrics(t);
    if (evaluated) show_evaluation(t);
    show_progress(t);
}

void loop_run(Trainer *t) {
    Model *m = &t->model;
    const Config *c = &t->run.config;
    const size_t last = c->train.steps;
    t->val_accuracy = NAN;
    while (!t->signal) {
        const size_t step = t->state.step, mark = memory_mark();
        attention_set_step(&m->shape.attention, c, step);
        t->val_loss = NAN;
        if (due(step, c->eval.every) || step == last) validate(t);
        if (t->signal) break; /* the evaluation was cut short: resume repeats this step */
        if (due(step, c->log.attention_every) || step == 0 || step == last) measure_attention(t);

        t->loss = step_gradients(&t->engine, &t->run.corpus, c, step, t->tokens, t->targets, NULL);
        t->norm = gradient_norm(&t->optimizer, m->gradients);
        log_step(t);
        if (step == last) break; /* even if a signal has come since: the run is complete */

        step_update(m, &t->optimizer, c, t->norm, step);
        t->state.step = step + 1;
        t->signal = interrupt_signal();
        logs_sizes(t->logs, t->state.log_size);
        if (step + 1 < last && due(step + 1, c->log.checkpoint_every) && !t->signal) loop_save(t);
        memory_release(mark);
    }
    progress_clear(t->options->progress);
    loop_save(t);
}
