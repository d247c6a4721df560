/* Starts and ends a run: memory for all arrays, its directory and logs; its pictures, page and result. A new run and a
   resumed one differ only in where the parameters, moments and logs come from.

   Every reason to refuse a config or a text is checked before anything is written. So the memory is allocated first,
   and the directory is made last. */
#include "train/trainer.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "run/pictures.h"
#include "show/canvas.h"

TrainOptions train_options(const Command *command, void (*page)(const Directory *directory)) {
    canvas_check_font(); /* a run would end at its first picture */
    return (TrainOptions){.threads = command_threads(command),
                          .out = command->out,
                          .force = command->force,
                          .command_line = command->line,
                          .progress = progress_make(stderr, command->quiet),
                          .page = page};
}

void trainer_make_arrays(Trainer *t) {
    const Config *c = &t->run.config;
    const ModelShape shape = model_shape(c, t->run.corpus.vocabulary.count);
    const size_t threads = t->options->threads ? t->options->threads : t->run.threads;
    t->state = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    model_make(&t->model, &shape, c->train.batch, threads, true);
    engine_make(&t->engine, c->train.engine, c->train.shards, &t->model);
    optimizer_make(&t->optimizer, c, &t->model.tensors, threads);
    training_memory_check(training_memory(&t->engine, &t->optimizer));
    const size_t heads = size_mul(shape.L, shape.attention.H);
    const size_t scratch = measure_gradients_scratch(&shape, model_slice_size(&shape, c->train.batch));
    t->measure_scratch = memory_make(scratch, sizeof *t->measure_scratch, "statistics");
    t->heads = memory_make(heads, sizeof *t->heads, "statistics");
    t->gradients = memory_make(heads, sizeof *t->gradients, "statistics");
    t->text = picture_text(c, &t->run.corpus, shape.T);
    t->snapshot = snapshot_make(shape.L, shape.attention.H, t->text.characters, t->text.length);
}

/* Returns the standard deviation of the first block's scores on the first slice of the first batch, as a mean over
   heads. */
static double measure_scores(Trainer *t) {
    const ModelShape *s = &t->model.shape;
    const size_t B = model_slice_size(s, t->run.config.train.batch);
    double sum = 0;
    corpus_training_batch(&t->run.corpus, t->run.config.train.seed, 0, B, s->T, t->engine.tokens, t->engine.targets);
    model_forward(&t->model, &(Batch){t->engine.tokens, NULL, B, s->T});
    measure_heads(&t->model, B, s->T, t->heads);
    for (size_t h = 0; h < s->attention.H; h++) sum += t->heads[h].score_std;
    return sum / (double)s->attention.H;
}

/* --- its end */

/* Reads the last losses and the best one from the log. */
static void read_losses(void *trainer) {
    Trainer *t = trainer;
    RunState *s = &t->state;
    const LogTable metrics = logs_read(t->run.directory, LOG_METRICS);
    double step;
    s->train_loss = log_last(&metrics, METRICS_TRAIN_LOSS);
    s->val_loss = log_last(&metrics, METRICS_VAL_LOSS);
    s->best_val_loss = fmin(INFINITY, log_best(&metrics, &step)); /* fmin ignores NaN */
    s->best_step = (size_t)fmax(0, step);
}

void trainer_begin(Trainer *t) {
    logs_cut(t->logs, t->state.log_size);
    if (t->run.locked) read_losses(t);
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
    if (t->options->page) t->options->page(t->run.locked);
}

void trainer_show(Trainer *t) {
    static void (*const parts[])(void *) = {draw_losses, write_page};
    const double now = omp_get_wtime();
    if (!t->run.locked || now < t->next_page) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        Error ignored; /* the end of the run writes both again, and reports what fails */
        (void)protect(parts[i], t, &ignored);
    }
    t->next_page = now + 20 * (omp_get_wtime() - now);
}

void trainer_end(Trainer *t) {
    static void (*const ends[])(void *) = {read_losses, draw_losses, record_end, write_page};
    progress_clear(t->options->progress);
    t->state.seconds = omp_get_wtime() - t->start;
    for (size_t i = 0; t->run.locked && i < sizeof ends / sizeof *ends; i++) {
        Error later;
        if (protect(ends[i], t, &later) || t->failure.status) continue;
        t->failure = later;
        t->failure.status = STATUS_FAILED; /* also where a file of the run can no longer be read */
    }
    if (t->failure.status) error_raise_again(&t->failure);
}

/* --- a new run and a resumed one */

/* Makes the arrays of a new run, whose directory must be free. */
static Trainer *prepare(const Config *config, const TrainOptions *options) {
    Trainer *t = memory_make(1, sizeof *t, "a run");
    t->options = options;
    t->run.config = *config;
    results_check(options->out, config->log.out, options->force);
    t->run.corpus = config_corpus(config, NULL);
    trainer_make_arrays(t);
    return t;
}

Trainer *trainer_start(const Config *config, const TrainOptions *options) {
    Trainer *t = prepare(config, options);
    tensors_initialize(&t->model.tensors, &t->model.shape, config->model.init, config->train.seed, t->model.threads,
                       t->model.parameters);
    run_compare(&t->run, &t->model, 0);
    t->start = omp_get_wtime();
    run_count_ngrams(&t->run);
    run_make_directory(&t->run, options->out, options->force);
    t->logs = logs_start(t->run.locked);
    logs_sizes(t->logs, t->state.log_size);
    trainer_save(t);
    run_begin(&t->run, &t->model, options->command_line, options->progress);
    print_summary(options->progress, "", t, measure_scores(t));
    t->start = omp_get_wtime();
    return t;
}

static void check_overrides(const char *const *overrides, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(overrides[i], "train.steps=", 12) != 0 && strncmp(overrides[i], "steps=", 6) != 0)
            usage_error("a run is resumed with the config it has; only train.steps can be set, not %s", overrides[i]);
}

/* Makes the pictures and the page of a finished run again. */
static void draw_again(Trainer *t) {
    run_check_logs(t->run.directory);
    picture_loss(&t->run);
    picture_attention(&t->run, 0);
    write_page(t);
}

/* Opens a run, which must have the config of the file `path`, unless that is NULL. */
static Trainer *resume(const char *directory, const Config *config, const char *path, const char *const *overrides,
                       size_t count, const TrainOptions *options) {
    Trainer *t = memory_make(1, sizeof *t, "a run");
    t->options = options;
    check_overrides(overrides, count);
    run_open(&t->run, directory, overrides, count, true);
    if (config) config_check_same(config, path, &t->run.config, t->run.directory);
    run_load_corpus(&t->run);
    trainer_make_arrays(t);
    t->state = checkpoint_load(&t->run, CHECKPOINT_LAST, &t->model, (Moments){t->optimizer.m, t->optimizer.v});
    if (t->state.step > t->run.config.train.steps)
        usage_error("%s has made %zu steps: train.steps = %zu is less", t->run.directory, t->state.step,
                    t->run.config.train.steps);
    run_compare(&t->run, &t->model, t->state.step);
    t->start = omp_get_wtime() - t->state.seconds;
    if (t->run.finished && t->state.step == t->run.config.train.steps) {
        if (t->run.locked) draw_again(t);
        t->had_finished = true;
        return t;
    }
    /* No log is cut before config.ini and run.json are on disk, so a kill in between leaves a run that can be
       resumed. */
    t->logs = logs_resume(t->run.locked, t->state.step, t->state.log_size);
    run_resumed(&t->run, &t->model, t->state.step, options->command_line, options->progress);
    return t;
}

Trainer *trainer_resume(const char *directory, const char *const *overrides, size_t count,
                        const TrainOptions *options) {
    return resume(directory, NULL, NULL, overrides, count, options);
}

Trainer *trainer_start_or_resume(const Config *config, const char *path, const TrainOptions *options) {
    char run[PATH_CAPACITY];
    directory_check_no_link(options->out);
    path_join(run, options->out, "run.json");
    if (!path_exists(run)) return trainer_start(config, options);
    return resume(options->out, config, path, NULL, 0, options);
}

size_t trainer_check(const Config *config, const TrainOptions *options, FILE *out) {
    const size_t mark = memory_mark();
    Trainer *t = prepare(config, options);
    const size_t bytes = training_memory(&t->engine, &t->optimizer);
    if (out) { /* as comments, so that `out`, which begins with a config, remains a config */
        run_count_ngrams(&t->run);
        fputc('\n', out);
        print_summary(&(Progress){.stream = out}, "; ", t, NAN);
    }
    memory_release(mark);
    return bytes;
}
