#include "train/announce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "data/recall.h"
#include "model/probe.h"
#include "ops/matmul.h"
#include "show/progress.h"

static size_t packing_memory(const Model *model) { return model->threads * matmul_buffer_bytes(); }

size_t training_memory(const Model *model, const Optimizer *optimizer) {
    return model->parameter_arena.capacity + model->activation_arena.capacity + optimizer->arena.capacity +
           packing_memory(model);
}

bool training_memory_fits(size_t bytes, Error *err) {
    const size_t machine = memory_of_machine();
    return bytes <= machine ||
           failed(
               err,
               "this model and batch need %.4g GB, and the machine has %.4g GB of memory: choose a smaller model, context or batch",
               (double)bytes / 1e9, (double)machine / 1e9);
}

size_t tokens_per_step(const Config *config) {
    return (size_t)(config->train.accumulate * config->train.batch * config->model.context);
}

static void format_count(size_t n, char *out, size_t capacity) {
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
    const size_t T = (size_t)config->model.context;
    if (corpus->pairs) {
        fprintf(out, "  corpus    recall: %zu pair%s of %d keys and %d values; %zu characters a record,\n",
                corpus->pairs, corpus->pairs == 1 ? "" : "s", RECALL_LETTERS, RECALL_LETTERS, T);
        fprintf(out, "            %zu of which are queries; guessing has loss ln %zu = %.4g, accuracy %.3g\n",
                recall_answers(corpus->pairs, T), corpus->pairs, log((double)corpus->pairs), 1 / (double)corpus->pairs);
        return;
    }
    format_count(corpus->count, all, sizeof all);
    format_count(corpus->train, train, sizeof train);
    print_plain(out, "  corpus    %s",
                *config->data.corpus ? config->data.corpus : "The Ferry at Sallow Reach (built in)");
    fprintf(out, "            %s characters, %zu different; %s to train on\n", all, corpus->vocabulary.count, train);
}

static void announce_scores(FILE *out, const ModelShape *s, const Config *config, double measured) {
    char divisor[64], title[256];
    config_scores_title(config, 0, title, sizeof title);
    fprintf(out, "  attention %s,%sthat is multiplied by %.6g%s\n", title, strlen(title) < 36 ? " " : "\n            ",
            (double)s->attention.multiplier, s->attention.learned == LEARNED_NO ? "" : " at the start");
    if (config->attention.switch_step > 0) {
        scale_title(config->attention.switch_divisor, s->attention.D, divisor, sizeof divisor);
        fprintf(out, "            from step %lld on divided by %s\n", (long long)config->attention.switch_step,
                divisor);
    }
    fprintf(out, "            standard deviation at the start: %.3g predicted",
            probe_predicted_std(s, (Init)config->model.init));
    if (!isnan(measured)) fprintf(out, ", %.3g measured", measured);
    fprintf(out, "\n");
}

static void announce_memory(FILE *out, const Model *model, const Optimizer *optimizer) {
    char all[32], parameters[32], moments[32], activations[32], packing[32];
    format_bytes(training_memory(model, optimizer), all);
    format_bytes(model->parameter_arena.capacity, parameters);
    format_bytes(optimizer->arena.capacity, moments);
    format_bytes(model->activation_arena.capacity, activations);
    format_bytes(packing_memory(model), packing);
    fprintf(out, "  memory    %s: weights and gradients %s, optimizer %s,\n            activations %s", all, parameters,
            moments, activations);
    if (packing_memory(model)) fprintf(out, ", packing %s", packing);
    fputc('\n', out);
}

static void announce_machine(FILE *out, size_t threads) {
    char cpu[64];
    cpu_name(cpu, sizeof cpu);
    fprintf(out, "  machine   %zu thread%s on %s;\n            ", threads, threads == 1 ? "" : "s", cpu);
    if (matmul_is_own())
        fprintf(out, "products by sqrtdk's kernels for %s", cpu_level_name(cpu_level()));
    else
        fprintf(out, "OpenBLAS core %s, %s build", matmul_core(), matmul_is_openmp_build() ? "OpenMP" : "pthread");
}

bool announcement(const Config *config, const Corpus *corpus, const Model *model, const Optimizer *optimizer,
                  double measured_std, char **text, Error *err) {
    const ModelShape *s = &model->shape;
    size_t size;
    char parameters[32];
    FILE *out = open_memstream(text, &size);
    if (!out) return failed(err, "no memory for a message");
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
    return failed(err, "no memory for a message");
}
