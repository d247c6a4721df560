#include "train/announce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "model/probe.h"
#include "ops/matmul.h"

bool training_memory(const Config *config, const ModelShape *shape, size_t threads, size_t *bytes, Error *err) {
    Model model;
    const bool measured = model_measure(&model, shape, (size_t)config->train.batch, threads, true, err);
    if (measured)
        *bytes =
            size_add(size_add(model.parameter_arena.used, model.activation_arena.used),
                     size_add(optimizer_measure(config, model.tensors.flat), size_mul(threads, matmul_buffer_bytes())));
    model_free(&model);
    if (!measured) return false;
    if (*bytes < memory_of_machine()) return true;
    return error_set(
        err, STATUS_FAILED,
        "this model and batch need %.4g GB, and the machine has %.4g GB of memory: choose a smaller model, context or batch",
        *bytes == SIZE_MAX ? INFINITY : (double)*bytes / 1e9, (double)memory_of_machine() / 1e9);
}

size_t tokens_per_step(const Config *config) {
    return (size_t)(config->train.accumulate * config->train.batch * config->model.context);
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

/* Bytes as "830 kB", "12.3 MB" or "1.87 GB" (decimal units). */
static void format_bytes(size_t bytes, char out[32]) {
    double b = (double)bytes;
    if (b < 999.5e3)
        snprintf(out, 32, "%.3g kB", b / 1e3);
    else if (b < 999.5e6)
        snprintf(out, 32, "%.3g MB", b / 1e6);
    else
        snprintf(out, 32, "%.3g GB", b / 1e9);
}

static void announce_corpus(FILE *out, const Config *config, const Corpus *corpus) {
    char all[32], train[32];
    format_count(corpus->count, all, sizeof all);
    format_count(corpus->train, train, sizeof train);
    fprintf(out, "  corpus    %s\n",
            *config->data.corpus ? config->data.corpus : "The Ferry at Sallow Reach (built in)");
    fprintf(out, "            %s characters, %zu different; %s to train on\n", all, corpus->vocabulary.count, train);
}

static void announce_scores(FILE *out, const ModelShape *s, const Config *config, double measured) {
    char divisor[64];
    scale_title(config->attention.scale_divisor, s->attention.D, divisor, sizeof divisor);
    fprintf(out, "  scores    q.k divided by %s, that is multiplied by %.6g\n", divisor,
            (double)s->attention.multiplier);
    fprintf(out, "            standard deviation at the start: %.3g predicted",
            probe_predicted_std(s, (Init)config->model.init));
    if (!isnan(measured)) fprintf(out, ", %.3g measured", measured);
    fprintf(out, "\n");
}

static void announce_memory(FILE *out, const Model *model, const Optimizer *optimizer) {
    const size_t parameters = model->parameter_arena.capacity, activations = model->activation_arena.capacity;
    const size_t packing = model->threads * matmul_buffer_bytes();
    char text[5][32];
    format_bytes(parameters + optimizer->arena.capacity + activations + packing, text[0]);
    format_bytes(parameters, text[1]);
    format_bytes(optimizer->arena.capacity, text[2]);
    format_bytes(activations, text[3]);
    format_bytes(packing, text[4]);
    fprintf(out, "  memory    %s: weights and gradients %s, optimizer %s,\n            activations %s", text[0],
            text[1], text[2], text[3]);
    if (packing) fprintf(out, ", packing %s", text[4]);
    fputc('\n', out);
}

static void announce_machine(FILE *out, size_t threads) {
    char cpu[64];
    cpu_name(cpu, sizeof cpu);
    fprintf(out, "  machine   %zu thread%s on %s;\n            ", threads, threads == 1 ? "" : "s", cpu);
    if (matmul_is_own())
        fprintf(out, "products by its own kernels for %s", cpu_level_name(cpu_level()));
    else
        fprintf(out, "OpenBLAS core %s, %s build", matmul_core(), matmul_is_openmp_build() ? "OpenMP" : "pthread");
}

bool announcement(const Config *config, const Corpus *corpus, const Model *model, const Optimizer *optimizer,
                  double measured_std, char **text, Error *err) {
    const ModelShape *s = &model->shape;
    size_t size;
    char parameters[32];
    FILE *out = open_memstream(text, &size);
    if (!out) return error_set(err, STATUS_FAILED, "no memory for a message");
    format_count(model->tensors.parameters, parameters, sizeof parameters);
    announce_corpus(out, config, corpus);
    fprintf(out, "  model     %zu layer%s, %zu head%s, d_model %zu, d_k %zu, context %zu:\n            %s parameters\n",
            s->L, s->L == 1 ? "" : "s", s->attention.H, s->attention.H == 1 ? "" : "s", s->C, s->attention.D, s->T,
            parameters);
    announce_scores(out, s, config, measured_std);
    fprintf(out, "  training  %lld step%s of %lld x %zu characters, %.3g GFLOP each; %s, lr %g\n",
            (long long)config->train.steps, config->train.steps == 1 ? "" : "s",
            (long long)config->train.batch * (long long)config->train.accumulate, s->T,
            model_flops(s, (double)tokens_per_step(config)) / 1e9,
            config->train.optimizer == OPTIMIZER_ADAMW ? "AdamW" : "SGD", config->train.lr);
    announce_memory(out, model, optimizer);
    announce_machine(out, model->threads);
    if (fclose(out) == 0) return true;
    free(*text);
    *text = NULL;
    return error_set(err, STATUS_FAILED, "no memory for a message");
}
