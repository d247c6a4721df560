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

/* The result of checks: of one config, or the sum over several. */
typedef struct {
    GradientRow worst;
    const char *label; /* of the config that has this row */
    size_t compared, skipped, rows, failed, rounded;
} Result;

/* One config of the sweep, or the config itself. */
typedef struct {
    Config config;
    char label[LABEL]; /* "sqrt_dk, pre, 0.2" */
    Model model;       /* its memory and that of what follows is released after the check */
    Engine engine;
    GradientCheck check;
    Result result;
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
    TrainingLoss loss = {.engine = &c->engine, .count = config->train.accumulate, .seed = config->train.seed};
    model_make(&c->model, &shape, B, threads, true);
    engine_make(&c->engine, config->train.engine, shards, &c->model);
    gradcheck_parameters(&c->model, config->model.init, loss.seed);
    make_batches(&corpus, &loss);
    if (print)
        fprintf(print, "%zu parameters; %zu micro-batch%s of %zu sequence%s of %zu tokens, seed %zu\n\n",
                c->model.tensors.parameters, loss.count, loss.count == 1 ? "" : "es", B, B == 1 ? "" : "s", shape.T,
                config->train.seed);
    gradcheck_make(&c->check, &loss, ENTRIES_MAX, print);
}

/* For protect: the passes of this combination's model are made by one thread. */
static void prepare_alone(void *combination) { prepare(combination, 1, NULL); }

/* Returns whether a row is worse than another: one that fails than one that agrees, and then the one with the larger
   error. */
static bool is_worse(const GradientRow *row, const GradientRow *than) {
    if (!row->failure != !than->failure) return row->failure;
    return row->relative > than->relative;
}

/* Notes what the check of a combination found. Of several rows that fail, reports the last in the order of the forward
   pass, since there the backward pass first goes wrong. */
static void summarize(Combination *c) {
    const GradientCheck *check = &c->check;
    c->result = (Result){.worst = check->rows[0], .label = c->label, .rows = check->row_count};
    for (const GradientRow *row = check->rows; row < check->rows + check->row_count; row++) {
        c->result.compared += row->checked;
        c->result.skipped += row->skipped;
        c->result.failed += row->failure != NULL;
        c->result.rounded += row->rounded;
        if (row->failure || is_worse(row, &c->result.worst)) c->result.worst = *row;
    }
}

static void add(Result *sum, const Result *result) {
    if (sum->rows == 0 || is_worse(&result->worst, &sum->worst)) {
        sum->worst = result->worst;
        sum->label = result->label;
    }
    sum->compared += result->compared;
    sum->skipped += result->skipped;
    sum->rows += result->rows;
    sum->failed += result->failed;
    sum->rounded += result->rounded;
}

/* Raises an error that says where and how gradients disagree, or prints how closely they agree. */
static void conclude(const Result *r) {
    const GradientRow *row = &r->worst;
    if (r->failed)
        runtime_error("gradients disagree: %s%sthe gradient of %s %s, the first in the backward pass (largest %.2e, "
                      "error %.2e of it, %zu of %zu entries compared); %zu of %zu rows fail",
                      r->label, *r->label ? ": " : "", row->name, row->failure, row->largest, row->relative,
                      row->checked, row->checked + row->skipped, r->failed, r->rows);
    if (r->rounded)
        printf("\n~ marks %zu rows so small that rounding of the loss is most of the error, which\n"
               "  is relative to the whole tensor's largest gradient there\n",
               r->rounded);
    if (r->skipped) printf("\n%zu gradients could not be compared: a kink of ReLU is too near\n", r->skipped);
    printf("\n%zu gradients agree, in %zu parts of tensors. The largest\n"
           "error is %.1e of a part's largest gradient (tolerance %.0e)\n",
           r->compared, r->rows, row->relative, GRADCHECK_TOLERANCE);
}

static void check_one(Combination *c, size_t threads) {
    prepare(c, threads, stdout);
    gradcheck_run(&c->check);
    if (interrupt_signal()) return;
    summarize(c);
    conclude(&c->result);
}

/* Checks the combinations of a round, which are distributed over threads. One thread makes the memory for all of them
   before and frees it afterwards. */
static void check_round(Combination *round, size_t count, size_t threads, size_t *done, size_t all,
                        Progress *progress) {
    const size_t mark = memory_mark();
    for (size_t i = 0; i < count; i++) {
        Error error;
        if (!protect(prepare_alone, &round[i], &error))
            error_raise(error.status, "%s: %s", round[i].label, error.message);
    }
#pragma omp parallel for schedule(dynamic) num_threads((int)threads)
    for (size_t i = 0; i < count; i++) {
        gradcheck_run(&round[i].check);
#pragma omp critical
        progress_count(progress, omp_get_wtime(), "combinations", ++*done, all);
    }
    for (size_t i = 0; i < count; i++) summarize(&round[i]);
    memory_release(mark);
}

static void check_all(Combination *all, size_t count, size_t threads, Progress *progress) {
    const size_t round = ROUND * threads;
    Result sum = {0};
    size_t done = 0;
    printf("%-*s %8s  %s\n", LABEL - 1, "combination", "relative", "error of the gradient of");
    fflush(stdout);
    for (size_t first = 0; first < count && !interrupt_signal(); first += round)
        check_round(all + first, count - first < round ? count - first : round, threads, &done, count, progress);
    progress_clear(progress);
    if (interrupt_signal()) return;
    for (const Combination *c = all; c < all + count; c++) {
        const GradientRow *row = &c->result.worst;
        printf("%-*s %8.1e  %s%s\n", LABEL - 1, c->label, row->relative, row->name, row->failure ? " FAILED" : "");
        add(&sum, &c->result);
    }
    printf("\nthe worst: %s\n", sum.label);
    gradcheck_print(&sum.worst, stdout);
    conclude(&sum);
}

static void make_combination(const Config *config, const SweepAxes *axes, size_t i, Combination *c) {
    const char *values[SWEEP_AXES_MAX];
    combinations_config(config, axes, i, &c->config, values);
    for (size_t a = 0; a < axes->count; a++) text_append(c->label, LABEL, "%s%s", a ? ", " : "", values[a]);
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
