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
static void make_arrays(Trainer *t) {
    const Config *c = &t->run.config;
    const ModelShape shape = model_shape(c, t->run.corpus.vocabulary.count);
    const size_t threads = t->options->threads ? t->options->threads : t->run.threads;
    uint32_t text[SNAPSHOT_TEXT_MAX];
    size_t length;
    t->state = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    model_make(&t->model, &shape, batch_size(t), threads, true);
    engine_make(&t->engine, c->train.engine, c->train.shards, &t->model);
    optimizer_make(&t->optimizer, c, &t->model.tensors, threads);
    training_memory_check(training_memory(&t->engine, &t->optimizer));
    lay_out(t);
    arena_allocate(&t->arena, "the batches");
    lay_out(t);
    t->measured_batch = validation_batch(&t->run.corpus, model_slice(&shape, batch_size(t)), shape.T,
                                         t->measured_tokens, t->measured_targets);
    picture_text(c, &t->run.corpus, shape.T, t->text, text, &length, t->text_note);
    t->snapshot = snapshot_make(shape.L, shape.attention.H, text, length);
}

/* Makes the arrays of a new run, whose directory must be free. */
static void prepare(void *trainer) {
    Trainer *t = trainer;
    if (ranks_index() == 0) results_check(t->options->out, t->options->force);
    t->run.corpus = config_corpus(&t->run.config, NULL);
    make_arrays(t);
}

/* Checks that all ranks train the same run by the same kernels. Nothing is written before this. */
static void check_ranks(const Trainer *t) {
    char value[CONFIG_VALUE_MAX];
    if (ranks_count() == 1) return;
    ranks_same("the version", SQRTDK_VERSION);
    ranks_same("the kernel of products", matmul_kernels(t->model.shape.attention.bf16));
    if (!matmul_is_own()) ranks_same("the core of OpenBLAS", matmul_core());
    for (size_t key = 0; key < config_key_count(); key++) {
        config_value_text(&t->run.config, key, value, sizeof value);
        if (strcmp(config_key_name(key), "data.corpus") != 0) ranks_same(config_key_name(key), value);
    }
    corpus_fingerprint(&t->run.corpus, value); /* in place of data.corpus, since its path may differ between ranks */
    ranks_same("the hash of the text", value);
}

/* The standard deviation of the first block's scores on the first slice of the first batch, as a mean over heads. */
static double measure_scores(Trainer *t) {
    const ModelShape *s = &t->model.shape;
    const size_t B = model_slice(s, batch_size(t));
    double sum = 0;
    corpus_training_batch(&t->run.corpus, t->run.config.train.seed, 0, B, s->T, t->tokens, t->targets);
    model_forward(&t->model, &(Batch){t->tokens, NULL, B, s->T});
    measure_heads(&t->model, B, s->T, t->heads);
    for (size_t h = 0; h < s->attention.H; h++) sum += t->heads[h].score_std;
    return sum / (double)s->attention.H;
}

/* Reads the last losses and the best one from the log. */
static void read_losses(void *trainer) {
    Trainer *t = trainer;
    RunState *s = &t->state;
    const LogTable metrics = logs_read(t->run.directory, LOG_METRICS);
    s->best_val_loss = INFINITY;
    s->best_step = 0;
    s->train_loss = log_last(&metrics, METRICS_TRAIN_LOSS);
    s->val_loss = log_last(&metrics, METRICS_VAL_LOSS);
    for (size_t row = 0; row < metrics.rows; row++)
        if (metrics.column[METRICS_VAL_LOSS][row] < s->best_val_loss) {
            s->best_val_loss = metrics.column[METRICS_VAL_LOSS][row];
            s->best_step = (size_t)metrics.column[METRICS_STEP][row];
        }
}

static void draw_losses(void *trainer) {
    const Trainer *t = trainer;
    picture_loss(&t->run);
}

static void record_end(void *trainer) {
    const Trainer *t = trainer;
    run_ended(&t->run, &t->state, t->signal, t->failure);
}

static void write_page(void *trainer) {
    const Trainer *t = trainer;
    if (t->options->report) t->options->report(t->run.locked);
}

/* Draws the loss curves, and writes to run.json and the page how the run ended, also if an error ended the loop. Each
   of these is tried, and then the first error is raised. */
static void end_run(void *trainer) {
    static void (*const parts[])(void *) = {read_losses, draw_losses, record_end, write_page};
    Trainer *t = trainer;
    progress_clear(t->options->progress);
    t->state.seconds = omp_get_wtime() - t->start;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        Error later;
        if (!protect(parts[i], t, &later) && !t->failure.status) t->failure = later;
    }
    if (t->failure.status) error_raise_again(&t->failure);
}

/* --- a new run and a resumed one */

static Trainer *make_trainer(const TrainOptions *options) {
    Trainer *t = memory_make(1, sizeof *t, "a run");
    t->options = options;
    return t;
}

/* Makes the directory of a new run. */
static void create(void *trainer) {
    Trainer *t = trainer;
    run_count_ngrams(&t->run);
    run_create(&t->run, t->options->out, t->options->force);
    t->logs = logs_start(t->run.locked);
    logs_sizes(t->logs, t->state.log_size);
    loop_save(t);
    run_begin(&t->run, &t->model, t->options->command_line);
}

/* Cuts the logs of a resumed run, and trains. */
static void cut_logs(void *trainer) {
    Trainer *t = trainer;
    logs_cut(t->logs, t->state.log_size);
    read_losses(t);
}

static void loop(void *trainer) {
    Trainer *t = trainer;
    if (t->run.threads) ranks_together(cut_logs, t, true);
    loop_run(t);
}

static TrainOutcome outcome(const Trainer *t) {
    TrainOutcome outcome = {.state = t->state, .signal = t->signal};
    memcpy(outcome.directory, t->run.directory, sizeof outcome.directory);
    return outcome;
}

static TrainOutcome train(Trainer *t) {
    protect(loop, t, &t->failure);
    ranks_together(end_run, t, true);
    return outcome(t);
}

TrainOutcome train_run(const Config *config, const TrainOptions *options) {
    Progress *progress = options->progress;
    Trainer *t = make_trainer(options);
    t->run.config = *config;
    ranks_together(prepare, t, false);
    check_ranks(t);
    tensors_initialize(&t->model.tensors, &t->model.shape, config->model.init, config->train.seed, t->model.threads,
                       t->model.parameters);
    t->start = omp_get_wtime();
    ranks_together(create, t, true);
    if (ranks_index() == 0) {
        if (*t->run.results->old)
            progress_message(progress, "note: what stood in %s is now in %s", t->run.directory, t->run.results->old);
        progress_message(progress, "training %s into %s", config->name, t->run.directory);
        announce(progress, "", &t->run, &t->engine, &t->optimizer, measure_scores(t), t->text_note);
    }
    t->start = omp_get_wtime();
    return train(t);
}

static void check_overrides(const char *const *overrides, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(overrides[i], "train.steps=", 12) != 0 && strncmp(overrides[i], "steps=", 6) != 0)
            usage_error("a run is resumed with the config it has; only train.steps can be set, not %s", overrides[i]);
}

/* What train_resume was called with. */
typedef struct {
    Trainer *trainer;
    const char *directory, *const *overrides;
    size_t count;
} Resumption;

/* Opens a run, and loads the text and the checkpoint from which it continues. */
static void open_run(void *resumption) {
    const Resumption *r = resumption;
    Trainer *t = r->trainer;
    check_overrides(r->overrides, r->count);
    run_open(&t->run, r->directory, r->overrides, r->count, ranks_index() == 0);
    run_load_corpus(&t->run);
    make_arrays(t);
    t->state = checkpoint_load(&t->run, CHECKPOINT_LAST, &t->model, (Moments){t->optimizer.m, t->optimizer.v});
    if (t->state.step > t->run.config.train.steps)
        usage_error("%s has made %zu steps: train.steps = %zu is less", t->run.directory, t->state.step,
                    t->run.config.train.steps);
}

/* Makes the pictures and the page of a finished run again. */
static void draw_again(void *trainer) {
    const Trainer *t = trainer;
    run_check_logs(t->run.directory);
    picture_loss(&t->run);
    picture_attention(&t->run, 0);
    if (t->options->report) t->options->report(t->run.locked);
}

/* Checks and opens the logs, then writes config.ini and run.json. No log is cut before these are on disk, so a kill in
   between leaves a run that can be resumed. */
static void continue_logs(void *trainer) {
    Trainer *t = trainer;
    t->logs = logs_resume(t->run.locked, t->state.step, t->state.log_size);
    run_resumed(&t->run, &t->model, t->state.step, t->options->command_line, t->options->progress);
}

TrainOutcome train_resume(const char *directory, const char *const *overrides, size_t count,
                          const TrainOptions *options) {
    Trainer *t = make_trainer(options);
    ranks_together(open_run, &(Resumption){t, directory, overrides, count}, false);
    check_ranks(t);
    t->start = omp_get_wtime() - t->state.seconds;
    if (t->run.finished && t->state.step == t->run.config.train.steps) {
        ranks_together(draw_again, t, true);
        TrainOutcome had_finished = outcome(t);
        had_finished.had_finished = true;
        return had_finished;
    }
    ranks_together(continue_logs, t, true);
    return train(t);
}

size_t train_check(const Config *config, const TrainOptions *options, FILE *out) {
    const size_t mark = memory_mark();
    Trainer *t = make_trainer(options);
    t->run.config = *config;
    prepare(t);
    const size_t bytes = training_memory(&t->engine, &t->optimizer);
    if (out) { /* as comments, so that `out`, which begins with a config, is still one */
        run_count_ngrams(&t->run);
        fputc('\n', out);
        announce(&(Progress){.stream = out}, "; ", &t->run, &t->engine, &t->optimizer, NAN, t->text_note);
    }
    memory_release(mark);
    return bytes;
}
