#include "train/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "model/probe.h"
#include "ops/matmul.h"
#include "train/optimizer.h"

bool plan_corpus(Corpus *corpus, const Config *c, const Vocabulary *vocabulary, Error *err) {
    return corpus_load(corpus, c->data.corpus, vocabulary, c->data.val_fraction, (size_t)c->model.context, err);
}

bool plan_make(Plan *plan, const Config *config, size_t vocabulary, size_t threads, Error *err) {
    ModelMemory memory;
    TensorTable table;
    plan->shape = model_shape(config, vocabulary);
    if (!model_measure(&plan->shape, (size_t)config->train.batch, threads, true, &memory, err) ||
        !tensors_make(&table, &plan->shape, err))
        return false;
    plan->parameters = table.parameters;
    plan->weight_bytes = memory.parameters;
    plan->activation_bytes = memory.activations;
    plan->optimizer_bytes = optimizer_measure(config, table.flat);
    plan->flops_per_step = model_flops(&plan->shape, (double)config->train.batch * (double)config->train.accumulate *
                                                         (double)plan->shape.T);
    tensors_free(&table);
    size_t all = size_add(size_add(plan->weight_bytes, plan->activation_bytes), plan->optimizer_bytes);
    if (all < memory_of_machine()) return true;
    return error_set(
        err, STATUS_FAILED,
        "this model and batch need %.4g GB, and the machine has %.4g GB of memory: choose a smaller model, context or batch",
        all == SIZE_MAX ? INFINITY : (double)all / 1e9, (double)memory_of_machine() / 1e9);
}

void format_count(size_t n, char *out, size_t capacity) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%zu", n);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < capacity; i++) {
        if (i > 0 && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
}

void format_bytes(size_t bytes, char *out, size_t capacity) {
    double b = (double)bytes;
    if (b < 999.5e3)
        snprintf(out, capacity, "%.3g kB", b / 1e3);
    else if (b < 999.5e6)
        snprintf(out, capacity, "%.3g MB", b / 1e6);
    else
        snprintf(out, capacity, "%.3g GB", b / 1e9);
}

static void announce_corpus(FILE *out, const Config *config, const Corpus *corpus) {
    char all[32], train[32];
    format_count(corpus->count, all, sizeof all);
    format_count(corpus->train, train, sizeof train);
    fprintf(out, "  corpus    %s\n",
            *config->data.corpus ? config->data.corpus : "The Ferry at Sallow Reach (built in)");
    fprintf(out, "            %s characters, %zu different; %s to train on\n", all, corpus->vocabulary.count, train);
}

static void announce_scores(FILE *out, const Plan *plan, const Config *config, double measured) {
    char divisor[64];
    const ModelShape *s = &plan->shape;
    scale_title(config->attention.scale_divisor, s->attention.D, divisor, sizeof divisor);
    fprintf(out, "  scores    q.k divided by %s, that is multiplied by %.6g\n", divisor,
            (double)s->attention.multiplier);
    fprintf(out, "            standard deviation at the start: %.3g predicted",
            probe_predicted_std(s, (Init)config->model.init));
    if (!isnan(measured)) fprintf(out, ", %.3g measured", measured);
    fprintf(out, "\n");
}

static void announce_memory(FILE *out, const Plan *plan) {
    char all[32], weights[32], moments[32], activations[32];
    format_bytes(plan->weight_bytes + plan->optimizer_bytes + plan->activation_bytes, all, sizeof all);
    format_bytes(plan->weight_bytes, weights, sizeof weights);
    format_bytes(plan->optimizer_bytes, moments, sizeof moments);
    format_bytes(plan->activation_bytes, activations, sizeof activations);
    fprintf(out, "  memory    %s: weights and gradients %s, optimizer %s,\n            activations %s\n", all, weights,
            moments, activations);
}

bool plan_announce(const Plan *plan, const Config *config, const Corpus *corpus, size_t threads, double measured_std,
                   char **text, Error *err) {
    const ModelShape *s = &plan->shape;
    size_t size;
    char parameters[32], cpu[64];
    FILE *out = open_memstream(text, &size);
    if (!out) return error_set(err, STATUS_FAILED, "no memory for a message");
    format_count(plan->parameters, parameters, sizeof parameters);
    cpu_name(cpu, sizeof cpu);
    announce_corpus(out, config, corpus);
    fprintf(out, "  model     %zu layer%s, %zu head%s, d_model %zu, d_k %zu, context %zu:\n            %s parameters\n",
            s->L, s->L == 1 ? "" : "s", s->attention.H, s->attention.H == 1 ? "" : "s", s->C, s->attention.D, s->T,
            parameters);
    announce_scores(out, plan, config, measured_std);
    fprintf(out, "  training  %lld step%s of %lld x %zu characters, %.3g GFLOP each; %s, lr %g\n",
            (long long)config->train.steps, config->train.steps == 1 ? "" : "s",
            (long long)config->train.batch * (long long)config->train.accumulate, s->T, plan->flops_per_step / 1e9,
            config->train.optimizer == OPTIMIZER_ADAMW ? "AdamW" : "SGD", config->train.lr);
    announce_memory(out, plan);
    fprintf(out, "  machine   %zu thread%s on %s;\n            ", threads, threads == 1 ? "" : "s", cpu);
    if (matmul_is_own())
        fprintf(out, "products by its own kernels for %s", cpu_level_name(cpu_level()));
    else
        fprintf(out, "OpenBLAS core %s, %s build", matmul_core(), matmul_is_openmp_build() ? "OpenMP" : "pthread");
    if (fclose(out) == 0) return true;
    free(*text);
    *text = NULL;
    return error_set(err, STATUS_FAILED, "no memory for a message");
}

bool run_description_check_corpus(const Json *run, const char *directory, const char *path, const Corpus *corpus,
                                  Error *err) {
    char fingerprint[CORPUS_FINGERPRINT];
    const char *then = js_as_text(js_get(run, "corpus"));
    corpus_fingerprint(corpus, fingerprint);
    if (then && strcmp(then, fingerprint) == 0) return true;
    return error_set(err, STATUS_USAGE, "%s was trained on another text: %s or %s/vocab.json has changed since",
                     directory, *path ? path : "the built-in one", directory);
}

void run_description_products(Json *run) {
    js_set(run, "products", js_text(matmul_is_own() ? "sqrtdk" : "OpenBLAS"));
    js_set(run, "blas_core", js_text(matmul_core()));
    js_set(run, "blas_build", js_text(matmul_is_openmp_build() ? "OpenMP" : "pthread"));
}
