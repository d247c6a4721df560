/* The verb gradcheck: checks the model that a config describes, or every combination of its [sweep]. */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "gradcheck/gradcheck.h"
#include "run/run.h"

/* A micro-batch has train.batch sequences, but at most SEQUENCES_MAX, or one for each shard: checking an entry takes
   half a dozen passes over the micro-batch. */
enum { SEQUENCES_MAX = 2, ENTRIES_MAX = 64, COMBINATIONS_MAX = 1024, LABEL = 41 };

/* One config of the sweep, or the config itself, and what its check found. */
typedef struct {
    Config config;
    char label[LABEL]; /* "sqrt_dk, pre, 0.2" */
    GradientTable table;
    Error err; /* why it could not be checked; status STATUS_OK: it was */
} Combination;

/* Gradients are checked in double precision. The program in floats becomes the one that make puts beside it,
   "train-double", or "sqrtdk-double" where it is installed; returns false, with an error, when it cannot. */
static bool become_double(char **argv, Error *err) {
#ifdef REAL_DOUBLE
    (void)argv, (void)err;
    return true;
#else
    char *program = program_path(), path[4096 + 16];
    if (!program) return runtime_error(err, "cannot find out where this program is: %s", strerror(errno));
    snprintf(path, sizeof path, "%s-double", program);
    free(program);
    /* The passes of the check are short. Threads that spin while they wait would take the processor from each other. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv(path, argv);
    return runtime_error(err, "gradients are checked by %s, which cannot be started (%s): run make", path,
                         strerror(errno));
#endif
}

static bool make_batches(const Corpus *corpus, TrainingLoss *loss, int32_t **ids, Batch **batches, Error *err) {
    const size_t T = loss->engine->model->shape.T, B = loss->engine->model->max_batch;
    *ids = calloc(2 * loss->count * B * T, sizeof **ids);
    *batches = calloc(loss->count, sizeof **batches);
    if (!*ids || !*batches) return runtime_error(err, "no memory for the batches");
    for (size_t m = 0; m < loss->count; m++) {
        int32_t *tokens = *ids + 2 * m * B * T, *targets = tokens + B * T;
        corpus_training_batch(corpus, loss->seed, m, B, T, tokens, targets);
        (*batches)[m] = (Batch){tokens, targets, B, T};
    }
    loss->batches = *batches;
    return true;
}

static bool check_config(const Config *c, Error *err) {
    static const char WHY[] = "makes constants of one or two numbers, so all gradients are rounding errors: choose";
    if (c->model.d_model < 3) return usage_error(err, "LayerNorm %s model.d_model of 3 or more", WHY);
    if (c->attention.score_precision != PRECISION_FP32)
        return usage_error(err,
                           "rounding to attention.score_precision has no derivative to compare with: set it to fp32");
    if (!c->attention.score_gradient)
        return usage_error(err, "attention.score_gradient = no leaves out a part of the gradient, so that differences "
                                "do not check W_Q, W_K and what lies before attention: set it to yes");
    return c->attention.qk_norm == QK_NORM_NONE || c->model.d_k >= 3 ||
           usage_error(err, "attention.qk_norm %s model.d_k of 3 or more", WHY);
}

/* Checks one config, with the micro-batches and dropout masks of the first training step. */
static bool check(Combination *c, size_t threads, FILE *print) {
    const Config *config = &c->config;
    const size_t batch = (size_t)config->train.batch, shards = (size_t)config->train.shards;
    const size_t few = batch < SEQUENCES_MAX ? batch : SEQUENCES_MAX, B = few < shards ? shards : few;
    Corpus corpus = {0};
    Model model = {0};
    Engine engine = {0};
    int32_t *ids = NULL;
    Batch *batches = NULL;
    TrainingLoss loss = {
        .engine = &engine, .count = (size_t)config->train.accumulate, .seed = (uint64_t)config->train.seed};
    bool ok = config_corpus(&corpus, config, NULL, &c->err) && check_config(config, &c->err);
    if (ok) {
        const ModelShape shape = model_shape(config, corpus.vocabulary.count);
        ok = model_make(&model, &shape, B, threads, true, &c->err) &&
             engine_make(&engine, (EngineKind)config->train.engine, shards, &model, &c->err);
    }
    if (ok) {
        gradcheck_parameters(&model, (Init)config->model.init, loss.seed);
        ok = make_batches(&corpus, &loss, &ids, &batches, &c->err);
    }
    if (ok && print)
        fprintf(print, "%zu parameters; %zu micro-batch%s of %zu sequence%s of %zu tokens, seed %lld\n\n",
                model.tensors.parameters, loss.count, loss.count == 1 ? "" : "es", B, B == 1 ? "" : "s", model.shape.T,
                (long long)config->train.seed);
    ok = ok && gradcheck_model(&loss, ENTRIES_MAX, print, &c->table, &c->err);
    free(ids);
    free(batches);
    engine_free(&engine);
    model_free(&model);
    corpus_free(&corpus);
    return ok;
}

/* How bad a row is. A row may fail with no error to rank it by: a NaN, or a zero where there should be none. */
static double badness(const GradientRow *row) {
    return row->failure && !(row->relative > GRADCHECK_TOLERANCE) ? INFINITY : row->relative;
}

/* Which row to report. A row that fails comes before one that agrees. Of the activations that fail it is the one
   nearest to the loss, where the backward pass first goes wrong; without any, the row with the largest error. */
static bool is_worse(const GradientRow *row, const GradientRow *than) {
    if (!row->failure != !than->failure) return row->failure;
    if (row->failure && (row->is_activation || than->is_activation)) return row->is_activation;
    return badness(row) > badness(than);
}

static const GradientRow *worst_row(const GradientTable *table) {
    const GradientRow *worst = table->rows;
    for (size_t i = 1; i < table->count; i++)
        if (is_worse(&table->rows[i], worst)) worst = &table->rows[i];
    return worst;
}

/* Fails with a message that says where and how gradients disagree, or prints how closely they agree. */
static bool conclude(const Combination *all, size_t count, const Combination *worst, Error *err) {
    const GradientRow *row = worst_row(&worst->table);
    size_t compared = 0, tensors = 0, activations = 0, failed = 0, rounded = 0;
    for (const Combination *c = all; c < all + count; c++)
        for (const GradientRow *r = c->table.rows; r < c->table.rows + c->table.count; r++) {
            compared += r->checked;
            *(r->is_activation ? &activations : &tensors) += 1;
            failed += r->failure != NULL;
            rounded += r->rounded;
        }
    if (failed)
        return runtime_error(
            err,
            "gradients disagree: %s%sthe gradient of %s %s%s (largest %.2e, error %.2e of it); %zu of %zu "
            "rows fail",
            worst->label, *worst->label ? ": " : "", row->name, row->failure,
            row->is_activation ? ", the first in the backward pass" : "", row->largest, row->relative, failed,
            tensors + activations);
    if (rounded)
        printf("\n~ marks %zu rows so small that rounding of the loss is most of the error, which\n"
               "  is relative to the whole tensor's largest gradient there\n",
               rounded);
    printf("\n%zu gradients agree, in %zu parts of tensors and %zu of activations. The largest\n"
           "error is %.1e of a part's largest gradient (tolerance %.0e)\n",
           compared, tensors, activations, row->relative, GRADCHECK_TOLERANCE);
    return true;
}

static bool check_one(Combination *c, size_t threads, Error *err) {
    if (check(c, threads, stdout)) return interrupt_signal() || conclude(c, 1, c, err);
    *err = c->err;
    return false;
}

/* Checks all combinations, which are distributed over threads; the passes of one model are made by one thread. */
static bool check_all(Combination *all, size_t count, size_t threads, Progress *progress, Error *err) {
    const Combination *worst = all;
    size_t done = 0;
    printf("%-*s %8s  %s\n", LABEL - 1, "combination", "relative", "error of the gradient of");
    fflush(stdout);
#pragma omp parallel for schedule(dynamic) num_threads((int)threads)
    for (size_t i = 0; i < count; i++) {
        if (interrupt_signal()) continue;
        check(&all[i], 1, NULL);
#pragma omp critical
        progress_count(progress, omp_get_wtime(), "combinations", ++done, count);
    }
    progress_clear(progress);
    if (interrupt_signal()) return true;
    for (const Combination *c = all; c < all + count; c++) {
        if (c->err.status) return error_set(err, c->err.status, "%s: %s", c->label, c->err.message);
        const GradientRow *row = worst_row(&c->table);
        printf("%-*s %8.1e  %s%s\n", LABEL - 1, c->label, row->relative, row->name, row->failure ? " FAILED" : "");
        if (is_worse(row, worst_row(&worst->table))) worst = c;
    }
    printf("\nthe worst: %s\n", worst->label);
    gradcheck_print(worst_row(&worst->table), stdout);
    return conclude(all, count, worst, err);
}

static bool make_combination(const Config *config, const SweepAxes *axes, size_t i, Combination *c, Error *err) {
    const char *values[SWEEP_AXES_MAX];
    if (!combinations_config(config, axes, i, &c->config, values, err)) return false;
    for (size_t a = 0; a < axes->count; a++) text_append(c->label, LABEL, "%s%s", a ? ", " : "", values[a]);
    return true;
}

static bool run(const Command *command, int *signal, Error *err) {
    Config config;
    static SweepAxes axes; /* large */
    if ((*signal = interrupt_signal())) return true; /* train-double would not know of it */
    if (!become_double(command->argv, err)) return false;
    size_t count;
    if (!config_load(&config, &axes, command->target, command->overrides.items, command->overrides.count, err) ||
        !combinations_count(&axes, COMBINATIONS_MAX, &count, err))
        return false;
    Combination *all = calloc(count, sizeof *all);
    bool ok = all || runtime_error(err, "no memory for %zu combinations", count);
    for (size_t i = 0; ok && i < count; i++) ok = make_combination(&config, &axes, i, &all[i], err);
    if (ok) {
        Progress progress = progress_make(stderr, command->quiet);
        const size_t threads = command_threads(command);
        print_plain(stdout, "%s: gradients of the backward pass against differences of the loss", config.name);
        combinations_print(&axes, "  ", stdout);
        ok = axes.count ? check_all(all, count, threads, &progress, err) : check_one(all, threads, err);
        *signal = interrupt_signal();
    }
    for (size_t i = 0; all && i < count; i++) gradcheck_free(&all[i].table);
    free(all);
    return ok;
}

const Verb gradcheck_verb = {
    .name = "gradcheck",
    .target = "CONFIG.ini",
    .what = "Compares every gradient of a config's model, or of each combination of its\n"
            "[sweep], with differences of the loss in double precision.",
    .takes_set = true,
    .run = run,
};
