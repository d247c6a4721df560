/* The verb gradcheck: checks the model that a config describes, or every combination of its [sweep]. */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "run/run.h"
#include "verbs/gradcheck.h"
#include "verbs/verbs.h"

/* A micro-batch has train.batch sequences, but at most SEQUENCES_MAX, or one for each shard: checking an entry takes
   half a dozen passes over the micro-batch. */
enum { SEQUENCES_MAX = 2, ENTRIES_MAX = 64, COMBINATIONS_MAX = 1024, LABEL = 41 };
/* Combinations are made and checked in rounds, which have so many for each thread: some take longer than others. */
enum { ROUND = 4 };

/* What is made for the check of a combination. */
typedef struct {
    Model model;
    Engine engine;
    GradientCheck check;
} Work;

/* One config of the sweep, or the config itself, and what its check found. */
typedef struct {
    Config config;
    char label[LABEL]; /* "sqrt_dk, pre, 0.2" */
    Work *work;        /* during its round */
    Error error;       /* why it could not be checked; status STATUS_OK: it was */
    GradientRow worst; /* the row to report */
    size_t compared, tensors, activations, failed, rounded;
} Combination;

/* Gradients are checked in double precision. The program in floats becomes the one that make puts beside it,
   "train-double", or "sqrtdk-double" where it is installed. */
static void become_double(char **argv) {
#ifdef REAL_DOUBLE
    (void)argv;
#else
    char *program = program_path(), path[4096 + 16];
    if (!program) runtime_error("cannot find out where this program is: %s", strerror(errno));
    snprintf(path, sizeof path, "%s-double", program);
    free(program);
    /* The passes of the check are short. Threads that spin while they wait would take the processor from each other. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv(path, argv);
    runtime_error("gradients are checked by %s, which cannot be started (%s): run make", path, strerror(errno));
#endif
}

static void make_batches(const Corpus *corpus, TrainingLoss *loss) {
    const size_t T = loss->engine->model->shape.T, B = loss->engine->model->max_batch;
    int32_t *ids = memory_make(2 * loss->count * B * T, sizeof *ids, "the batches");
    Batch *batches = memory_make(loss->count, sizeof *batches, "the batches");
    for (size_t m = 0; m < loss->count; m++) {
        int32_t *tokens = ids + 2 * m * B * T, *targets = tokens + B * T;
        corpus_training_batch(corpus, loss->seed, m, B, T, tokens, targets);
        batches[m] = (Batch){tokens, targets, B, T};
    }
    loss->batches = batches;
}

static void check_config(const Config *c) {
    static const char WHY[] = "makes constants of one or two numbers, so all gradients are rounding errors: choose";
    if (c->model.d_model < 3) usage_error("LayerNorm %s model.d_model of 3 or more", WHY);
    if (c->attention.score_precision != PRECISION_FP32)
        usage_error("rounding to attention.score_precision has no derivative to compare with: set it to fp32");
    if (!c->attention.score_gradient)
        usage_error("attention.score_gradient = no leaves out a part of the gradient, so that differences "
                    "do not check W_Q, W_K and what lies before attention: set it to yes");
    if (c->attention.qk_norm != QK_NORM_NONE && c->model.d_k < 3)
        usage_error("attention.qk_norm %s model.d_k of 3 or more", WHY);
}

/* Makes what the check of a combination needs, with the micro-batches and dropout masks of the first training step. */
static void prepare(Combination *c, size_t threads, FILE *print) {
    const Config *config = &c->config;
    const size_t batch = config->train.batch, shards = config->train.shards;
    const size_t few = batch < SEQUENCES_MAX ? batch : SEQUENCES_MAX, B = few < shards ? shards : few;
    const Corpus corpus = config_corpus(config, NULL);
    check_config(config);
    const ModelShape shape = model_shape(config, corpus.vocabulary.count);
    Work *work = memory_make(1, sizeof *work, "the check of gradients");
    Model *model = &work->model;
    TrainingLoss loss = {.engine = &work->engine, .count = config->train.accumulate, .seed = config->train.seed};
    model_make(model, &shape, B, threads, true);
    engine_make(&work->engine, config->train.engine, shards, model);
    gradcheck_parameters(model, config->model.init, loss.seed);
    make_batches(&corpus, &loss);
    if (print)
        fprintf(print, "%zu parameters; %zu micro-batch%s of %zu sequence%s of %zu tokens, seed %zu\n\n",
                model->tensors.parameters, loss.count, loss.count == 1 ? "" : "es", B, B == 1 ? "" : "s",
                model->shape.T, config->train.seed);
    gradcheck_make(&work->check, &loss, ENTRIES_MAX, print);
    c->work = work;
}

/* For protect: the passes of this combination's model are made by one thread. */
static void prepare_alone(void *combination) { prepare(combination, 1, NULL); }

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

/* Notes what the table of a combination says. */
static void summarize(Combination *c) {
    const GradientTable *table = &c->work->check.table;
    c->worst = *worst_row(table);
    for (const GradientRow *r = table->rows; r < table->rows + table->count; r++) {
        c->compared += r->checked;
        *(r->is_activation ? &c->activations : &c->tensors) += 1;
        c->failed += r->failure != NULL;
        c->rounded += r->rounded;
    }
}

/* Raises an error that says where and how gradients disagree, or prints how closely they agree. */
static void conclude(const Combination *all, size_t count, const Combination *worst) {
    const GradientRow *row = &worst->worst;
    size_t compared = 0, tensors = 0, activations = 0, failed = 0, rounded = 0;
    for (const Combination *c = all; c < all + count; c++) {
        compared += c->compared;
        tensors += c->tensors;
        activations += c->activations;
        failed += c->failed;
        rounded += c->rounded;
    }
    if (failed)
        runtime_error("gradients disagree: %s%sthe gradient of %s %s%s (largest %.2e, error %.2e of it); %zu of %zu "
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
}

static void check_one(Combination *c, size_t threads) {
    prepare(c, threads, stdout);
    gradcheck_run(&c->work->check);
    if (interrupt_signal()) return;
    summarize(c);
    conclude(c, 1, c);
}

/* Checks the combinations of a round, which are distributed over threads. One thread makes the memory for all of them
   before and frees it afterwards. */
static void check_round(Combination *round, size_t count, size_t threads, size_t *done, size_t all,
                        Progress *progress) {
    const size_t mark = memory_mark();
    for (size_t i = 0; i < count; i++) protect(prepare_alone, &round[i], &round[i].error);
#pragma omp parallel for schedule(dynamic) num_threads((int)threads)
    for (size_t i = 0; i < count; i++) {
        if (round[i].work) gradcheck_run(&round[i].work->check);
#pragma omp critical
        progress_count(progress, omp_get_wtime(), "combinations", ++*done, all);
    }
    for (size_t i = 0; i < count; i++)
        if (round[i].work) summarize(&round[i]);
    memory_release(mark);
}

static void check_all(Combination *all, size_t count, size_t threads, Progress *progress) {
    const Combination *worst = all;
    const size_t round = ROUND * threads;
    size_t done = 0;
    printf("%-*s %8s  %s\n", LABEL - 1, "combination", "relative", "error of the gradient of");
    fflush(stdout);
    for (size_t first = 0; first < count && !interrupt_signal(); first += round)
        check_round(all + first, count - first < round ? count - first : round, threads, &done, count, progress);
    progress_clear(progress);
    if (interrupt_signal()) return;
    for (const Combination *c = all; c < all + count; c++) {
        if (c->error.status) error_raise(c->error.status, "%s: %s", c->label, c->error.message);
        const GradientRow *row = &c->worst;
        printf("%-*s %8.1e  %s%s\n", LABEL - 1, c->label, row->relative, row->name, row->failure ? " FAILED" : "");
        if (is_worse(row, &worst->worst)) worst = c;
    }
    printf("\nthe worst: %s\n", worst->label);
    gradcheck_print(&worst->worst, stdout);
    conclude(all, count, worst);
}

static void make_combination(const Config *config, const SweepAxes *axes, size_t i, Combination *c) {
    combinations_config(config, axes, i, &c->config);
    for (size_t a = 0; a < axes->count; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&c->config, axes->axis[a].key, value, sizeof value);
        text_append(c->label, LABEL, "%s%s", a ? ", " : "", value);
    }
}

static int run(const Command *command) {
    Config config;
    static SweepAxes axes;                             /* large */
    if (interrupt_signal()) return interrupt_signal(); /* train-double would not know of it */
    become_double(command->argv);
    config_load(&config, &axes, command->target, command->overrides.items, command->overrides.count);
    const size_t count = combinations_count(&axes, COMBINATIONS_MAX), threads = command_threads(command);
    Combination *all = memory_make(count, sizeof *all, "the combinations");
    for (size_t i = 0; i < count; i++) make_combination(&config, &axes, i, &all[i]);
    Progress *progress = progress_make(stderr, command->quiet);
    print_plain(stdout, "%s: gradients of the backward pass against differences of the loss", config.name);
    combinations_print(&axes, "  ", stdout);
    if (axes.count) check_all(all, count, threads, progress);
    else check_one(all, threads);
    return interrupt_signal();
}

const Verb gradcheck_verb = {
    .name = "gradcheck",
    .target = "CONFIG.ini",
    .what = "Compares every gradient of a config's model, or of each combination of its\n"
            "[sweep], with differences of the loss in double precision.",
    .takes_set = true,
    .run = run,
};
