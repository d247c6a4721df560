/* The verb gradcheck: checks the model that a config describes, or every combination of its [sweep]. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "lab/gradcheck/gradcheck.h"
#include "lab/lab.h"
#include "lab/sweep/sweep.h"
#include "run/run.h"

/* A micro-batch has train.batch sequences, but at most SEQUENCES_MAX, or one for each shard: checking an entry takes
   six passes or more over the micro-batch. */
enum { SEQUENCES_MAX = 2, ENTRIES_MAX = 64, COMBINATIONS_MAX = 1024, LABEL = 41 };

/* The worst row of all models, with the combination that has it ("sqrt_dk, pre, 0.2"), and sums over them. */
static GradientRow worst;
static char worst_label[LABEL];
static size_t compared, rows, failed;

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
    processors_release();
    execv(path, argv);
    runtime_error("gradients are checked by %s, which cannot be started (%s): run make", path, strerror(errno));
#endif
}

/* Returns the micro-batches of the first training step. */
static const Batch *make_batches(const Corpus *corpus, const Config *c) {
    const size_t B = c->train.batch, T = c->model.context, count = c->train.accumulate;
    int32_t *ids = memory_make(2 * count * B * T, sizeof *ids, "the batches");
    Batch *batches = memory_make(count, sizeof *batches, "the batches");
    for (size_t m = 0; m < count; m++) {
        int32_t *tokens = ids + 2 * m * B * T, *targets = tokens + B * T;
        corpus_training_batch(corpus, c->train.seed, m, B, T, tokens, targets);
        batches[m] = (Batch){tokens, targets, B, T};
    }
    return batches;
}

static void check_config(const Config *c) {
    if (c->attention.score_precision != PRECISION_FP32)
        usage_error("rounding to attention.score_precision has no derivative to compare with: set it to fp32");
    if (!c->attention.score_gradient)
        usage_error("attention.score_gradient = no leaves out a part of the gradient, so that differences "
                    "do not check W_Q, W_K and what lies before attention: set it to yes");
    if (c->model.d_model < 3 || (c->attention.qk_norm != QK_NORM_NONE && c->model.d_k < 3))
        usage_error("normalization makes constants of one or two numbers, so all gradients are rounding errors: set "
                    "model.d_model and, with attention.qk_norm, model.d_k to 3 or more");
}

/* Returns whether a row is worse than another, which was checked before it. Of rows that fail the last is the worst: in
   a model the backward pass first goes wrong there. */
static bool is_worse(const GradientRow *row, const GradientRow *than) {
    return row->failed || (!than->failed && row->relative >= than->relative);
}

static void print_row(const GradientRow *row) {
    char entries[48], where[48];
    snprintf(entries, sizeof entries, "%zu/%zu", row->checked, row->count);
    snprintf(where, sizeof where, "[%zu,%zu]", row->at[0], row->at[1]);
    printf("%-25s %11s %7.1e ", row->name, entries, row->largest);
    if (row->zero && !row->failed) puts("zero, as expected");
    else printf("%+8.1e %8.1e %9s%s\n", row->error, row->relative, where, row->failed ? " FAILED" : "");
    fflush(stdout);
}

/* Checks the config's model after the first half of its first training step. Prints the table or, of a combination,
   which has a label, its worst row. */
static void check_model(Config *c, const char *label, size_t threads) {
    const size_t shards = c->train.shards, mark = memory_mark();
    const Corpus corpus = config_corpus(c, NULL);
    const ModelShape shape = model_shape(c, corpus.vocabulary.count);
    Model model;
    Engine engine;
    if (c->train.batch > SEQUENCES_MAX) c->train.batch = shards > SEQUENCES_MAX ? shards : SEQUENCES_MAX;
    model_make(&model, &shape, c->train.batch, threads, true);
    engine_make(&engine, c->train.engine, shards, &model);
    gradcheck_parameters(&model, c->model.init, c->train.seed);
    for (size_t i = 0; i < model.tensors.flat; i++)
        model.gradients[i] = (real)NAN; /* a step that zeroes gradients must not read them */
    step_gradients(&engine, &corpus, c, 0);
    GradientCheck check = {.engine = &engine,
                           .batches = make_batches(&corpus, c),
                           .count = c->train.accumulate,
                           .seed = c->train.seed,
                           .entries = ENTRIES_MAX};
    gradcheck_make(&check);
    if (!*label) {
        printf("%zu parameters; %zu micro-batch%s of %zu sequence%s of %zu tokens, seed %zu\n\n",
               model.tensors.parameters, check.count, check.count == 1 ? "" : "es", c->train.batch,
               c->train.batch == 1 ? "" : "s", shape.T, c->train.seed);
        puts("tensor                       compared largest    error relative     where");
    }
    GradientRow found = {0};
    for (GradientRow row; gradcheck_next(&check, &row);) {
        if (!*label) print_row(&row);
        if (is_worse(&row, &found)) found = row;
        compared += row.checked;
        failed += row.failed;
        rows++;
    }
    if (*label && !interrupt_signal()) {
        printf("%-*s %8.1e  %s%s\n", LABEL - 1, label, found.relative, found.name, found.failed ? " FAILED" : "");
        fflush(stdout);
    }
    if (is_worse(&found, &worst)) {
        worst = found;
        snprintf(worst_label, LABEL, "%s", label);
    }
    memory_release(mark);
}

/* Raises an error that says where and how gradients disagree, or prints how closely they agree. */
static void conclude(void) {
    if (failed)
        runtime_error("gradients disagree: %s%sthe gradient of %s is %s, the first in the backward pass (largest %.2e, "
                      "error %.2e of it, %zu of %zu entries compared); %zu of %zu rows fail",
                      worst_label, *worst_label ? ": " : "", worst.name, isinf(worst.scale) ? "not finite" : "off",
                      worst.largest, worst.relative, worst.checked, worst.count, failed, rows);
    printf("\n%zu gradients agree, in %zu parts of tensors. The largest\n"
           "error is %.1e of a part's largest gradient (tolerance %.0e)\n",
           compared, rows, worst.relative, GRADCHECK_TOLERANCE);
}

/* Writes the values of a combination of the [sweep]; nothing without a sweep. */
static void write_label(const Config *c, const SweepAxes *axes, char label[LABEL]) {
    *label = '\0';
    for (size_t a = 0; a < axes->count; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(c, axes->axis[a].key, value, sizeof value);
        text_append(label, LABEL, "%s%s", a ? ", " : "", value);
    }
}

static int run(const Command *command) {
    Config config, c;
    static SweepAxes axes; /* large */
    char label[LABEL];
    if (interrupt_signal()) return interrupt_signal(); /* train-double would not know of it */
    become_double(command->argv);
    axes_load(&config, &axes, command->target, command->overrides.items, command->overrides.count);
    const size_t count = combinations_count(&axes, COMBINATIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        combinations_config(&config, &axes, i, &c);
        check_config(&c);
    }
    print_plain(stdout, "%s: gradients of the backward pass against differences of the loss", config.name);
    combinations_print(&axes, "  ", stdout);
    if (axes.count) printf("%-*s %8s  %s\n", LABEL - 1, "combination", "relative", "error of the gradient of");
    for (size_t i = 0; i < count && !interrupt_signal(); i++) {
        combinations_config(&config, &axes, i, &c);
        write_label(&c, &axes, label);
        /* The threads of many small models would wait for each other longer than a pass takes. */
        check_model(&c, label, axes.count && c.model.d_model < 64 ? 1 : command_threads(command));
    }
    if (interrupt_signal()) return interrupt_signal();
    if (axes.count) {
        printf("\nthe worst: %s\n", worst_label);
        print_row(&worst);
    }
    conclude();
    return 0;
}

const Verb gradcheck_verb = {
    .name = "gradcheck",
    .target = "CONFIG.ini",
    .what = "Compares every gradient of a config's model, or of each combination of its\n"
            "[sweep], with differences of the loss in double precision.",
    .settings_meant = config_settings_meant,
    .run = run,
};
