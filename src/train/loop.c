/* The training loop (loop_run, at the end) and what it does at a step, in that order: evaluate on the validation split,
   measure attention, compute gradients, log, update the parameters, save.

   A checkpoint is of the parameters after state.step updates, before anything was measured at that step, and it names
   the sizes that the logs had then. A resumed run cuts its logs back to these sizes and measures the step again, to the
   same bits. So a signal can end the loop after an update or in the middle of an evaluation, and in both cases a
   checkpoint is all that is left to write. */
#include "train/loop.h"

#include <math.h>
#include <omp.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "ranks/ranks.h"
#include "run/pictures.h"
#include "train/announce.h"
#include "train/sample.h"

enum { COMPARE_EVERY = 100 }; /* steps between comparisons of the ranks' parameters; each checkpoint has one too */

double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, StepSeconds *seconds) {
    const size_t B = (size_t)config->train.batch, T = engine->model->shape.T, parts = (size_t)config->train.accumulate;
    const uint64_t seed = (uint64_t)config->train.seed;
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
bool loop_save(Trainer *t, Error *err) {
    t->state.seconds = omp_get_wtime() - t->start;
    const Moments moments = {t->optimizer.m, t->optimizer.v};
    return logs_sync(&t->logs, err) && checkpoint_save(&t->run, CHECKPOINT_LAST, &t->model, moments, &t->state, err);
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
        logs_append(&t->logs, LOG_ATTENTION, (const double *)&row);
    }
}

/* Writes statistics of attention on the fixed batch to attention.csv, and attention on the fixed text as a snapshot and
   heatmaps. The snapshot is written first, so that there is one for every step in attention.csv. */
static bool measure_attention(Trainer *t, Error *err) {
    Model *m = &t->model;
    Snapshot *s = &t->snapshot;
    const Batch batch = {t->measured_tokens, t->measured_targets, t->measured_batch, m->shape.T};
    measure_gradients(m, &batch, t->measure_scratch, t->gradients);
    measure_heads(m, t->measured_batch, m->shape.T, t->heads);
    model_forward(m, &(Batch){t->text, NULL, 1, s->T});
    measure_snapshot(m, s->T, &s->attention);
    s->step = t->state.step;
    if (!snapshot_save(s, &t->run.results.directory, err)) return false;
    log_heads(t);
    return logs_flush(&t->logs, LOG_ATTENTION, err) && picture_attention(&t->run, t->state.step, err);
}

/* Appends a text drawn from the model to samples.txt. A signal that cuts it short is noted in t->signal. */
static bool write_sample(Trainer *t, Error *err) {
    const Vocabulary *vocabulary = &t->run.corpus.vocabulary;
    const int32_t start = sample_start(vocabulary);
    const SampleOptions options = {.tokens = (size_t)t->run.config.log.sample_tokens,
                                   .temperature = 1,
                                   .seed = (uint64_t)t->run.config.train.seed};
    if (options.tokens == 0) return true;
    FILE *out = t->logs.file[LOG_SAMPLES];
    fprintf(out, "==== step %zu, validation loss %.4f ====\n", t->state.step, t->val_loss);
    if (!sample_text(&t->model, vocabulary, &start, 1, &options, t->tokens, out)) t->signal = interrupt_signal();
    fputs("\n\n", out);
    return logs_flush(&t->logs, LOG_SAMPLES, err);
}

/* An error of status STATUS_DIVERGED if the loss, "training" or "validation", or the gradients' norm is not finite. It
   names the first tensor that is not finite. */
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

/* Computes the validation loss, saves the best parameters so far and writes a sample. A signal that cuts the loss or
   the sample short is noted in t->signal. */
static bool validate(Trainer *t, Error *err) {
    const Evaluation e =
        evaluate(&t->engine, &t->run.corpus, batch_size(t), (size_t)t->run.config.eval.batches, t->tokens, t->targets);
    if (!e.complete) {
        t->signal = interrupt_signal();
        return true;
    }
    t->val_loss = e.loss;
    t->val_accuracy = e.accuracy;
    if (!check_finite(t, "validation", e.loss, 0, err)) return false;
    if (logs_rounded(e.loss) < t->state.best_val_loss) {
        t->state.best_val_loss = logs_rounded(e.loss);
        t->state.best_step = t->state.step;
        const RunState best = {.step = t->state.step}; /* without seconds, so that every run writes the same bytes */
        if (!checkpoint_save(&t->run, CHECKPOINT_BEST, &t->model, (Moments){0}, &best, err)) return false;
    }
    return write_sample(t, err);
}

static bool write_metrics(Trainer *t, double loss, double norm, Error *err) {
    const Config *c = &t->run.config;
    const double row[METRICS_COLUMNS] = {
        [METRICS_STEP] = (double)t->state.step,
        [METRICS_TOKENS] = (double)(t->state.step * tokens_per_step(c)),
        [METRICS_SECONDS] = omp_get_wtime() - t->start,
        [METRICS_LR] = learning_rate(c, t->state.step),
        [METRICS_TRAIN_LOSS] = loss,
        [METRICS_VAL_LOSS] = t->val_loss,
        [METRICS_GRAD_NORM] = norm,
        [METRICS_VAL_ACCURACY] = isnan(t->val_loss) ? (double)NAN : t->val_accuracy,
    };
    if (!isnan(t->val_loss)) t->state.val_loss = t->val_loss; /* for the progress line */
    logs_append(&t->logs, LOG_METRICS, row);
    return logs_flush(&t->logs, LOG_METRICS, err);
}

static void show_evaluation(const Trainer *t, double loss, double norm) {
    const bool text = isnan(t->val_accuracy);
    char accuracy[32] = "";
    if (!text) snprintf(accuracy, sizeof accuracy, "  accuracy %.4f", t->val_accuracy);
    progress_message(t->progress, "step %5zu  train %.4f  %s %.4f%s  gradient norm %.3g", t->state.step,
                     logs_rounded(loss), text ? "validation" : "val", logs_rounded(t->val_loss), accuracy, norm);
}

static void show_progress(const Trainer *t, double loss) {
    const double now = omp_get_wtime(), seconds = now - t->start;
    const double per_step = t->state.step ? seconds / (double)t->state.step : 0;
    const size_t steps = (size_t)t->run.config.train.steps;
    progress_update(t->progress, now, t->state.step, steps, loss, t->state.val_loss, t->val_accuracy,
                    per_step > 0 ? (double)tokens_per_step(&t->run.config) / per_step : 0,
                    per_step * (double)(steps - t->state.step));
}

/* Whether what comes every `every` steps comes at `step`. 0: never; EVERY_DOUBLING: at 0 and at powers of two. */
static bool due(size_t step, int64_t every) {
    if (every == EVERY_DOUBLING) return (step & (step - 1)) == 0;
    return every > 0 && step % (size_t)every == 0;
}

/* Writes the row of metrics.csv at each evaluation and every log.every steps, and shows the step in the terminal. */
static bool log_step(Trainer *t, double loss, double norm, Error *err) {
    const bool evaluated = !isnan(t->val_loss);
    if ((evaluated || due(t->state.step, t->run.config.log.every)) && !write_metrics(t, loss, norm, err)) return false;
    if (evaluated) show_evaluation(t, loss, norm);
    show_progress(t, loss);
    return true;
}

/* Tells all ranks whether the work before succeeded on every rank, and whether any rank got a signal. */
static bool together(Trainer *t, bool ok, Error *err) { return ranks_agree(ok, &t->signal, err); }

/* Every rank has its own copy of the parameters. If a machine computes wrongly, the copies differ, which this finds. */
static bool compare_ranks(const Trainer *t, Error *err) {
    char what[64], hash[HASH_DIGITS];
    if (ranks_count() == 1) return true;
    snprintf(what, sizeof what, "the hash of the parameters after %zu steps", t->state.step);
    hash_text(hash_bytes(HASH_START, t->model.parameters, t->model.tensors.flat * sizeof(real)), hash);
    return ranks_same(what, hash, err);
}

/* Compares the parameters of all ranks, then rank 0 saves a checkpoint. */
static bool save_compared(Trainer *t, Error *err) {
    return compare_ranks(t, err) && together(t, ranks_index() > 0 || loop_save(t, err), err);
}

bool loop_run(Trainer *t, Error *err) {
    Model *m = &t->model;
    const Config *c = &t->run.config;
    const size_t last = (size_t)c->train.steps;
    const bool writes = ranks_index() == 0; /* this rank also evaluates and measures */
    const bool ready = !writes || directory_make_in(&t->run.results.directory, "attention", err);
    if (!together(t, ready, err) || !compare_ranks(t, err)) return false;
    t->val_accuracy = NAN;
    while (!t->signal) {
        const size_t step = t->state.step;
        attention_set_step(&m->shape.attention, c, step);
        t->val_loss = NAN;
        if ((due(step, c->eval.every) || step == last) && !together(t, !writes || validate(t, err), err)) return false;
        if (t->signal) break; /* the evaluation was cut short: resume repeats this step */
        if ((due(step, c->log.attention_every) || step == 0 || step == last) &&
            !together(t, !writes || measure_attention(t, err), err))
            return false;

        const double loss = step_gradients(&t->engine, &t->run.corpus, c, step, t->tokens, t->targets, NULL);
        const double norm = gradient_norm(&t->optimizer, m->gradients);
        const bool logged = check_finite(t, "training", loss, norm, err) && (!writes || log_step(t, loss, norm, err));
        if (!ranks_agree(logged, NULL, err)) return false;
        if (step == last) break; /* even if a signal has come since: the run is complete */

        step_update(m, &t->optimizer, c, norm, step);
        t->state.step = step + 1;
        if (due(step + 1, COMPARE_EVERY) && !compare_ranks(t, err)) return false;
        t->signal = interrupt_signal();
        if (!together(t, !writes || logs_sizes(&t->logs, t->state.log_size, err), err)) return false;
        if (step + 1 < last && due(step + 1, c->log.checkpoint_every) && !t->signal && !save_compared(t, err))
            return false;
    }
    progress_clear(t->progress);
    return save_compared(t, err);
}
