#include "gradcheck/report.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "data/corpus.h"
#include "gradcheck/gradcheck.h"
#include "train/announce.h"
#include "train/run.h"

enum { COMBINATIONS_MAX = 1024, LABEL = 41 };

/* A model and what it is checked on. */
typedef struct {
    Corpus corpus;
    Model model;
    int32_t *ids;   /* tokens and targets of all micro-batches */
    Batch *batches; /* (count) */
    size_t count;
} Subject;

/* Zero-initialised first; free with subject_free also after a failure. */
static bool subject_make(Subject *s, const Config *c, size_t threads, Error *err) {
    const uint64_t seed = (uint64_t)c->train.seed;
    const size_t T = (size_t)c->model.context, most = GRADCHECK_SEQUENCES;
    const size_t B = (size_t)c->train.batch < most ? (size_t)c->train.batch : most;
    if (!config_corpus(&s->corpus, c, NULL, err)) return false;
    const ModelShape shape = model_shape(c, s->corpus.vocabulary.count);
    if (shape.C < 3)
        return error_set(
            err, STATUS_USAGE,
            "LayerNorm makes constants of one or two channels, whose gradients are rounding: choose a model.d_model of 3 or more");
    if (!model_make(&s->model, &shape, B, threads, true, err)) return false;
    gradcheck_parameters(&s->model, (Init)c->model.init, seed);
    s->count = (size_t)c->train.accumulate;
    s->ids = calloc(2 * s->count * B * T, sizeof *s->ids);
    s->batches = calloc(s->count, sizeof *s->batches);
    if (!s->ids || !s->batches) return error_set(err, STATUS_FAILED, "no memory for the batches");
    for (size_t m = 0; m < s->count; m++) {
        int32_t *tokens = s->ids + 2 * m * B * T, *targets = tokens + B * T;
        corpus_training_batch(&s->corpus, seed, m, B, T, tokens, targets);
        s->batches[m] = (Batch){tokens, targets, B, T};
    }
    return true;
}

static void subject_free(Subject *s) {
    free(s->ids);
    free(s->batches);
    model_free(&s->model);
    corpus_free(&s->corpus);
}

static bool subject_check(const Config *c, Subject *s, Progress *progress, GradientTable *table, Error *err) {
    const GradientCheck check = {.model = &s->model,
                                 .batches = s->batches,
                                 .count = s->count,
                                 .seed = (uint64_t)c->train.seed,
                                 .progress = progress};
    return gradcheck_model(&check, table, err);
}

static void print_subject(const Config *c, const Subject *s, FILE *out) {
    const ModelShape *m = &s->model.shape;
    char divisor[64], parameters[32];
    scale_title(c->attention.scale_divisor, m->attention.D, divisor, sizeof divisor);
    format_count(s->model.tensors.parameters, parameters, sizeof parameters);
    fprintf(out, "%s: analytic gradients against differences of the loss\n", c->name);
    fprintf(out, "  %zu layer%s, d_model %zu, %zu head%s of d_k %zu, d_ff %zu: %s parameters\n", m->L,
            m->L == 1 ? "" : "s", m->C, m->attention.H, m->attention.H == 1 ? "" : "s", m->attention.D, m->F,
            parameters);
    fprintf(out, "  scores divided by %s; %s-norm, %s, %s, %s embeddings\n", divisor, m->pre_norm ? "pre" : "post",
            m->relu ? "relu" : "gelu", m->bias ? "biases" : "no biases", m->tied ? "tied" : "untied");
    fprintf(out, "  %zu micro-batch%s of %zu sequence%s of %zu, dropout %g, seed %lld\n\n", s->count,
            s->count == 1 ? "" : "es", s->batches->B, s->batches->B == 1 ? "" : "s", s->batches->T, m->dropout,
            (long long)c->train.seed);
}

static void print_head(FILE *out) {
    fprintf(out, "%-25s %11s %7s %8s %7s %10s\n", "tensor, or layer's input", "looked at", "largest", "error", "of it",
            "where");
}

static void print_row(const GradientRow *row, FILE *out) {
    char checked[48], where[48];
    snprintf(checked, sizeof checked, "%zu/%zu", row->checked, row->count);
    if (row->dimensions == 1)
        snprintf(where, sizeof where, "[%zu]", row->at[1]);
    else
        snprintf(where, sizeof where, "[%zu,%zu]", row->at[0], row->at[1]);
    fprintf(out, "%-25s %11s %7.1e ", row->name, checked, row->largest);
    if (row->expected_zero && !row->failure)
        fprintf(out, "zero, as it must be\n");
    else
        fprintf(out, "%+8.1e %7.1e %10s%s%s\n", row->error, gradcheck_relative(row), where,
                row->failure || row->rounded ? " " : "",
                row->failure   ? row->failure
                : row->rounded ? "~"
                               : "");
}

/* What a table comes to. */
typedef struct {
    size_t gradients, tensors, inputs, rows, failed, rounded;
    GradientRow worst;
} Summary;

static Summary summarise(const GradientTable *table, const Model *model) {
    const GradientRow *worst = gradcheck_worst(table);
    Summary sum = {.tensors = model->tensors.count, .rows = table->count, .failed = table->failed};
    if (worst) sum.worst = *worst;
    for (size_t i = 0; i < table->count; i++) {
        sum.gradients += table->rows[i].checked;
        sum.inputs += table->rows[i].is_input;
        sum.rounded += table->rows[i].rounded;
    }
    return sum;
}

static bool print_agreement(const Summary *sum, FILE *out) {
    if (sum->rounded)
        fprintf(out,
                "\n~ %zu part%s of a tensor so small that the rounding of the loss is most of the error,\n"
                "  which is given in units of the whole tensor's largest gradient\n",
                sum->rounded, sum->rounded == 1 ? "" : "s");
    fprintf(out, "\n%zu gradients of %zu tensors and %zu layer inputs agree; the largest error is\n", sum->gradients,
            sum->tensors, sum->inputs);
    fprintf(out, "%.1e of the tensor's largest gradient (tolerance %.0e)\n", gradcheck_relative(&sum->worst),
            GRADCHECK_TOLERANCE);
    return true;
}

/* Where and how it is wrong; `label` in front: which combination. */
static bool fail_on(const Summary *sum, const char *label, Error *err) {
    const GradientRow *w = &sum->worst;
    char what[96];
    if (strcmp(w->failure, "ZERO") == 0)
        snprintf(what, sizeof what, "is zero and must not be");
    else if (strcmp(w->failure, "NOT 0") == 0)
        snprintf(what, sizeof what, "must be zero and is up to %.2e", w->largest);
    else if (strcmp(w->failure, "NAN") == 0)
        snprintf(what, sizeof what, "is not finite");
    else
        snprintf(what, sizeof what, "is off by %.2e of its largest", gradcheck_relative(w));
    return error_set(err, STATUS_FAILED, "gradients disagree: %s%sthe gradient of %s %s%s; %zu of %zu rows fail", label,
                     *label ? ": " : "", w->name, what, w->is_input ? ", the first in the backward pass" : "",
                     sum->failed, sum->rows);
}

static bool check_one(const Config *config, size_t threads, Progress *progress, FILE *out, int *signal, Error *err) {
    Subject subject = {0};
    GradientTable table = {0};
    bool ok = subject_make(&subject, config, threads, err);
    if (ok) {
        print_subject(config, &subject, out);
        fflush(out);
        ok = subject_check(config, &subject, progress, &table, err);
    }
    *signal = table.signal;
    if (ok && !table.signal) {
        const Summary sum = summarise(&table, &subject.model);
        print_head(out);
        for (size_t i = 0; i < table.count; i++) print_row(&table.rows[i], out);
        ok = sum.failed ? fail_on(&sum, "", err) : print_agreement(&sum, out);
    }
    gradcheck_free(&table);
    subject_free(&subject);
    return ok;
}

/* A combination of the [sweep] section and what was found. */
typedef struct {
    Config config;
    char label[LABEL]; /* "sqrt_dk, pre, 0.2" */
    Summary sum;
    Error err;
    bool ok;
} Combination;

static bool make_combination(const Config *config, size_t i, Combination *c, Error *err) {
    const char *values[SWEEP_AXES_MAX];
    if (!combinations_config(config, i, &c->config, values, err)) return false;
    for (size_t a = 0, length = 0; a < config->sweep_count && length < LABEL; a++)
        length += (size_t)snprintf(c->label + length, LABEL - length, "%s%s", a ? ", " : "", values[a]);
    return true;
}

/* By one thread, as others check other combinations. */
static void check_combination(Combination *c) {
    Subject subject = {0};
    GradientTable table = {0};
    c->ok =
        subject_make(&subject, &c->config, 1, &c->err) && subject_check(&c->config, &subject, NULL, &table, &c->err);
    if (c->ok) c->sum = summarise(&table, &subject.model);
    gradcheck_free(&table);
    subject_free(&subject);
}

static void print_axes(const Config *config, size_t count, FILE *out) {
    fprintf(out, "%s: analytic gradients against differences of the loss, %zu combinations of\n", config->name, count);
    combinations_print(config, "  ", out);
    fprintf(out, "\n%-*s %8s  %s\n", LABEL - 1, "combination", "error", "of the gradient of");
}

static bool conclude(const Combination *all, size_t count, FILE *out, Error *err) {
    const Combination *worst = &all[0];
    Summary sum = {0};
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        const Combination *c = &all[i];
        if (!c->ok) return error_set(err, c->err.status, "%s: %s", c->label, c->err.message);
        fprintf(out, "%-*s %8.1e  %s%s%s\n", LABEL - 1, c->label, gradcheck_relative(&c->sum.worst), c->sum.worst.name,
                c->sum.failed ? " " : "", c->sum.failed ? c->sum.worst.failure : "");
        failed += c->sum.failed > 0;
        sum.gradients += c->sum.gradients;
        sum.tensors += c->sum.tensors;
        sum.inputs += c->sum.inputs;
        sum.rounded += c->sum.rounded;
        bool fails = c->sum.failed > 0, worst_fails = worst->sum.failed > 0;
        bool further = gradcheck_relative(&c->sum.worst) > gradcheck_relative(&worst->sum.worst);
        if (fails != worst_fails ? fails : further) worst = c;
    }
    fprintf(out, "\nthe worst combination: %s\n", worst->label);
    print_head(out);
    print_row(&worst->sum.worst, out);
    sum.worst = worst->sum.worst;
    return failed ? fail_on(&worst->sum, worst->label, err) : print_agreement(&sum, out);
}

static bool check_combinations(const Config *config, size_t threads, Progress *progress, FILE *out, int *signal,
                               Error *err) {
    size_t count, done = 0;
    if (!combinations_count(config, COMBINATIONS_MAX, &count, err)) return false;
    Combination *all = calloc(count, sizeof *all);
    if (!all) return error_set(err, STATUS_FAILED, "no memory for %zu combinations", count);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) ok = make_combination(config, i, &all[i], err);
    if (ok) {
        print_axes(config, count, out);
        fflush(out);
#pragma omp parallel for schedule(dynamic) num_threads((int)threads)
        for (size_t i = 0; i < count; i++) {
            if (interrupt_signal()) continue;
            check_combination(&all[i]);
#pragma omp critical
            progress_count(progress, omp_get_wtime(), "combinations", ++done, count);
        }
        progress_clear(progress);
        *signal = interrupt_signal();
        ok = *signal || conclude(all, count, out, err);
    }
    free(all);
    return ok;
}

bool gradcheck_config(const Config *config, size_t threads, Progress *progress, FILE *out, int *signal, Error *err) {
    *signal = 0;
    return config->sweep_count ? check_combinations(config, threads, progress, out, signal, err)
                               : check_one(config, threads, progress, out, signal, err);
}
