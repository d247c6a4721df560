/* Records a step of a run, in the order of the loop: the validation loss, attention, the logs, a checkpoint.

   A checkpoint is of the parameters after state.step updates, before anything was measured at that step, and it names
   the sizes that the logs had then. A resumed run cuts its logs back to these sizes and measures the step again, to the
   same bits. So a signal can end the loop after an update or in the middle of an evaluation, and in both cases a
   checkpoint is all that is left to write. */
#include <math.h>
#include <omp.h>

#include "base/interrupt.h"
#include "run/pictures.h"
#include "train/sample.h"
#include "train/trainer.h"

/* Writes the logs to disk first, because the checkpoint names their sizes. */
void trainer_save(Trainer *t) {
    const Moments moments = {t->optimizer.m, t->optimizer.v};
    t->state.seconds = omp_get_wtime() - t->start;
    logs_sync(t->logs);
    checkpoint_save(&t->run, CHECKPOINT_LAST, &t->model, moments, &t->state);
}

/* Writes the rows of attention.csv, one for each head of each layer. */
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

/* The statistics are of the fixed batch, the snapshot and the heatmaps of the fixed text. The snapshot is written
   first, so that there is one for every step in attention.csv. */
void trainer_measure(Trainer *t) {
    Model *m = &t->model;
    Snapshot *s = &t->snapshot;
    int32_t *tokens = t->engine.tokens, *targets = t->engine.targets;
    const size_t T = m->shape.T, slice = model_slice_size(&m->shape, t->run.config.train.batch),
                 B = validation_batch(&t->run.corpus, slice, T, tokens, targets);
    measure_gradients(m, &(Batch){tokens, targets, B, T}, t->measure_scratch, t->gradients);
    measure_heads(m, B, T, t->heads);
    model_forward(m, &(Batch){t->text.ids, NULL, 1, s->T});
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
    if (!sample_text(&t->model, vocabulary, &start, 1, &options, t->engine.tokens, out)) t->signal = interrupt_signal();
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

void trainer_evaluate(Trainer *t) {
    const Evaluation e = evaluate(&t->engine, &t->run.corpus, t->run.config.eval.batches);
    if (!e.complete) {
        t->signal = interrupt_signal();
        return;
    }
    t->val_loss = e.loss;
    t->val_accuracy = e.accuracy;
    check_finite(t, "validation", e.loss, 0);
    /* The last step of a run is evaluated in any case. A run that is made longer repeats the evaluations that
       eval.every asks for, and drops one of the last step alone. */
    const bool is_due = step_is_due(t->state.step, t->run.config.eval.every),
               is_first = !isfinite(t->state.best_val_loss);
    if (logs_rounded(e.loss) < t->state.best_val_loss && (is_due || is_first)) {
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
    progress_update(t->options->progress, omp_get_wtime(), t->state.step, t->run.config.train.steps, t->loss,
                    t->state.val_loss, t->val_accuracy, tokens_per_step(&t->run.config));
}

void trainer_log(Trainer *t) {
    const bool evaluated = !isnan(t->val_loss);
    check_finite(t, "training", t->loss, t->norm);
    if (evaluated || step_is_due(t->state.step, t->run.config.log.every)) write_metrics(t);
    if (evaluated) show_evaluation(t);
    show_progress(t);
}
