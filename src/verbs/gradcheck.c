/* The verb gradcheck: checks the model that a config describes, or every combination of its [sweep]. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "run/run.h"
#include "verbs/gradcheck.h"
#include "verbs/verbs.h"

/* A micro-batch has train.batch sequences, but at most SEQUENCES_MAX, or one for each shard: checking an entry takes
   half a dozen passes over the micro-batch. */
enum { SEQUENCES_MAX = 2, ENTRIES_MAX = 64, COMBINATIONS_MAX = 1024, LABEL = 41 };

/* The sum over all checks. */
typedef struct {
    GradientRow worst;
    char label[LABEL]; /* of the combination that has this row: "sqrt_dk, pre, 0.2" */
    size_t compared, skipped, rows, failed, rounded;
} Result;

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

/* Returns whether a row is worse than another: one that fails than one that agrees, and then the one with the larger
   error. */
static bool is_worse(const GradientRow *row, const GradientRow *than) {
    if (!row->failure != !than->failure) return row->failure;
    return row->relative > than->relative;
}

/* Returns the row to report. Of several that fail it is the last in the order of the forward pass, since there the
   backward pass first goes wrong. */
static const GradientRow *worst_row(const GradientCheck *check) {
    const GradientRow *worst = check->rows;
    for (const GradientRow *row = check->rows; row < check->rows + check->row_count; row++)
        if (row->failure || is_worse(row, worst)) worst = row;
    return worst;
}

/* Adds the check of a model to the result. Prints a line for a combination, which has a label. */
static void add(Result *result, const GradientCheck *check, const char *label) {
    const GradientRow *worst = worst_row(check);
    if (*label) {
        printf("%-*s %8.1e  %s%s\n", LABEL - 1, label, worst->relative, worst->name, worst->failure ? " FAILED" : "");
        fflush(stdout);
    }
    if (result->rows == 0 || is_worse(worst, &result->worst)) {
        result->worst = *worst;
        snprintf(result->label, LABEL, "%s", label);
    }
    result->rows += check->row_count;
    for (const GradientRow *row = check->rows; row < check->rows + check->row_count; row++) {
        result->compared += row->checked;
        result->skipped += row->skipped;
        result->failed += row->failure != NULL;
        result->rounded += row->rounded;
    }
}

/* Checks the config's model, with the micro-batches and dropout masks of the first training step. Prints the table or,
   of a combination, a line. After a caught signal nothing is added to `result`. */
static void check_model(const Config *config, const char *label, size_t threads, Result *result) {
    const size_t batch = config->train.batch, shards = config->train.shards, mark = memory_mark();
    const size_t few = batch < SEQUENCES_MAX ? batch : SEQUENCES_MAX, B = few < shards ? shards : few;
    const Corpus corpus = config_corpus(config, NULL);
    const ModelShape shape = model_shape(config, corpus.vocabulary.count);
    Model model;
    Engine engine;
    GradientCheck check;
    TrainingLoss loss = {.engine = &engine, .count = config->train.accumulate, .seed = config->train.seed};
    model_make(&model, &shape, B, threads, true);
    engine_make(&engine, config->train.engine, shards, &model);
    gradcheck_parameters(&model, config->model.init, loss.seed);
    make_batches(&corpus, &loss);
    if (!*label)
        printf("%zu parameters; %zu micro-batch%s of %zu sequence%s of %zu tokens, seed %zu\n\n",
               model.tensors.parameters, loss.count, loss.count == 1 ? "" : "es", B, B == 1 ? "" : "s", shape.T,
               config->train.seed);
    gradcheck_make(&check, &loss, ENTRIES_MAX, *label ? NULL : stdout);
    gradcheck_run(&check);
    if (!interrupt_signal()) add(result, &check, label);
    memory_release(mark);
}

/* Raises an error that says where and how gradients disagree, or prints how closely they agree. */
static void conclude(const Result *r) {
    const GradientRow *row = &r->worst;
    if (r->failed)
        runtime_error("%s: %s%sthe gradient of %s %s, the first in the backward pass (largest %.2e, "
                      "error %.2e of it, %zu of %zu entries compared); %zu of %zu rows fail",
                      row->checked ? "gradients disagree" : "gradients were not compared", r->label,
                      *r->label ? ": " : "", row->name, row->failure, row->largest, row->relative, row->checked,
                      row->checked + row->skipped, r->failed, r->rows);
    if (r->rounded)
        printf("\n~ marks %zu rows so small that rounding of the loss is most of the error, which\n"
               "  is relative to the whole tensor's largest gradient there\n",
               r->rounded);
    if (r->skipped) printf("\n%zu gradients could not be compared: a kink of ReLU is too near\n", r->skipped);
    printf("\n%zu gradients agree, in %zu parts of tensors. The largest\n"
           "error is %.1e of a part's largest gradient (tolerance %.0e)\n",
           r->compared, r->rows, row->relative, GRADCHECK_TOLERANCE);
}

/* Returns a combination of the [sweep], and its label; without a sweep, the config and "". */
static Config combination(const Config *config, const SweepAxes *axes, size_t i, char label[LABEL]) {
    const char *values[SWEEP_AXES_MAX];
    Config c;
    combinations_config(config, axes, i, &c, values);
    *label = '\0';
    for (size_t a = 0; a < axes->count; a++) text_append(label, LABEL, "%s%s", a ? ", " : "", values[a]);
    return c;
}

static int run(const Command *command) {
    Config config;
    static SweepAxes axes;                             /* large */
    if (interrupt_signal()) return interrupt_signal(); /* train-double would not know of it */
    become_double(command->argv);
    config_load(&config, &axes, command->target, command->overrides.items, command->overrides.count);
    const size_t count = combinations_count(&axes, COMBINATIONS_MAX);
    char label[LABEL];
    Result result = {0};
    for (size_t i = 0; i < count; i++) {
        const Config c = combination(&config, &axes, i, label);
        check_config(&c);
    }
    print_plain(stdout, "%s: gradients of the backward pass against differences of the loss", config.name);
    combinations_print(&axes, "  ", stdout);
    if (axes.count) printf("%-*s %8s  %s\n", LABEL - 1, "combination", "relative", "error of the gradient of");
    for (size_t i = 0; i < count && !interrupt_signal(); i++) {
        const Config c = combination(&config, &axes, i, label);
        /* The threads of many small models would wait for each other longer than a pass takes. */
        check_model(&c, label, axes.count && c.model.d_model < 64 ? 1 : command_threads(command), &result);
    }
    if (interrupt_signal()) return interrupt_signal();
    if (axes.count) {
        printf("\nthe worst: %s\n", result.label);
        gradcheck_print(&result.worst, stdout);
    }
    conclude(&result);
    return 0;
}

const Verb gradcheck_verb = {
    .name = "gradcheck",
    .target = "CONFIG.ini",
    .what = "Compares every gradient of a config's model, or of each combination of its\n"
            "[sweep], with differences of the loss in double precision.",
    .takes_set = true,
    .run = run,
};
