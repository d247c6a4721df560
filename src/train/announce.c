/* What a run tells before it starts: everything that decides how long it takes and whether it is the run that was
   meant. It is told before the first step, and by --dry-run as comments below the config. */
#include "train/announce.h"

#include <math.h>
#include <string.h>

#include "base/machine.h"
#include "data/recall.h"
#include "model/measure.h"
#include "ops/matmul.h"

static const char *const OPTIMIZERS[] = {
    [OPTIMIZER_ADAMW] = "AdamW", [OPTIMIZER_SGD] = "SGD", [OPTIMIZER_MUON] = "AdamW" /* and Muon, on the next line */};

static size_t packing_memory(const Model *m) { return m->threads * matmul_buffer_bytes(m->shape.attention.bf16); }

static size_t activation_memory(const Engine *e) {
    return e->model->activation_arena.capacity + e->plain.arena.capacity;
}

size_t training_memory(const Engine *e, const Optimizer *optimizer) {
    return e->model->parameter_arena.capacity + activation_memory(e) + optimizer->arena.capacity +
           packing_memory(e->model);
}

bool training_memory_fits(size_t bytes, Error *err) {
    const size_t machine = memory_of_machine();
    if (bytes <= machine) return true;
    return runtime_error(
        err,
        "this model and batch need %.4g GB, and the machine has %.4g GB of memory: choose a smaller model, context or batch",
        (double)bytes / 1e9, (double)machine / 1e9);
}

size_t tokens_per_step(const Config *config) {
    return (size_t)(config->train.accumulate * config->train.batch * config->model.context);
}

/* "12,345,678" */
static void format_count(size_t n, char out[32]) {
    size_t power = 1;
    while (n / power >= 1000) power *= 1000;
    snprintf(out, 32, "%zu", n / power);
    for (; power > 1; power /= 1000) text_append(out, 32, ",%03zu", n % power / (power / 1000));
}

/* "830 kB", "12.3 MB" or "1.87 GB", in decimal units */
static void format_bytes(size_t bytes, char out[32]) {
    static const char *const units[] = {"kB", "MB", "GB"};
    size_t unit = 0;
    double number = (double)bytes / 1e3;
    for (; number >= 999.5 && unit < 2; unit++) number /= 1e3;
    snprintf(out, 32, "%.3g %s", number, units[unit]);
}

/* Where the lines of an announcement go, and what each begins with. */
typedef struct {
    Progress *to;
    const char *mark;
} Lines;
#define SAY(l, label, format, ...) progress_message((l)->to, "%s  %-10s" format, (l)->mark, label, __VA_ARGS__)

static void announce_corpus(const Lines *l, const Run *run) {
    const Config *config = &run->config;
    const Corpus *corpus = &run->corpus;
    const double *ngrams = run->ngrams;
    char all[32], train[32];
    const size_t T = (size_t)config->model.context, pairs = corpus->pairs;
    if (pairs) {
        SAY(l, "corpus", "recall: %zu pair%s of %d keys and %d values; %zu characters a record,", pairs,
            pairs == 1 ? "" : "s", RECALL_LETTERS, RECALL_LETTERS, T);
        SAY(l, "", "%zu of which are queries; guessing has loss ln %zu = %.4g, accuracy %.3g", recall_answers(pairs, T),
            pairs, log((double)pairs), 1 / (double)pairs);
        return;
    }
    format_count(corpus->count, all);
    format_count(corpus->train, train);
    SAY(l, "corpus", "%s", *config->data.corpus ? config->data.corpus : "The Ferry at Sallow Reach (built in)");
    SAY(l, "", "%s characters, %zu different; %s to train on", all, corpus->vocabulary.count, train);
    SAY(l, "n-grams", "%s", "validation loss of tables counted on the training text:");
    SAY(l, "", "characters %.2f, pairs %.2f, triples %.2f, 4-grams %.2f nats", ngrams[0], ngrams[1], ngrams[2],
        ngrams[3]);
}

static void announce_scores(const Lines *l, const ModelShape *s, const Config *config, double measured) {
    char title[256], factor[64], shown[40] = "";
    config_scores_title(config, 0, title, sizeof title);
    snprintf(factor, sizeof factor, "that is multiplied by %.6g%s", (double)s->attention.multiplier,
             s->attention.learned == LEARNED_NO ? "" : " at the start");
    if (strlen(title) < 36) {
        SAY(l, "attention", "%s, %s", title, factor);
    } else {
        SAY(l, "attention", "%s,", title);
        SAY(l, "", "%s", factor);
    }
    if (config->attention.switch_step > 0) {
        scale_title(config->attention.switch_divisor, s->attention.D, title, sizeof title);
        SAY(l, "", "from step %lld on divided by %s", (long long)config->attention.switch_step, title);
    }
    if (!isnan(measured)) snprintf(shown, sizeof shown, ", %.3g measured", measured);
    SAY(l, "", "standard deviation at the start: %.3g predicted%s", predicted_score_std(s, (Init)config->model.init),
        shown);
}

static void announce_memory(const Lines *l, const Engine *e, const Optimizer *optimizer) {
    const size_t bytes[] = {training_memory(e, optimizer), e->model->parameter_arena.capacity,
                            optimizer->arena.capacity, activation_memory(e), packing_memory(e->model)};
    char text[5][32];
    for (size_t i = 0; i < 5; i++) format_bytes(bytes[i], text[i]);
    SAY(l, "memory", "%s: weights and gradients %s, optimizer %s,", text[0], text[1], text[2]);
    SAY(l, "", "activations %s%s%s", text[3], bytes[4] ? ", packing " : "", bytes[4] ? text[4] : "");
}

void announce(Progress *to, const char *mark, const Run *run, const Engine *engine, const Optimizer *optimizer,
              double measured_std) {
    const Config *config = &run->config;
    const Model *model = engine->model;
    const ModelShape *s = &model->shape;
    const Lines *l = &(Lines){to, mark};
    char parameters[32], cpu[64];
    format_count(model->tensors.parameters, parameters);
    cpu_name(cpu, sizeof cpu);
    announce_corpus(l, run);
    SAY(l, "model", "%zu layer%s, %zu head%s, d_model %zu, d_k %zu, context %zu:", s->L, s->L == 1 ? "" : "s",
        s->attention.H, s->attention.H == 1 ? "" : "s", s->C, s->attention.D, s->T);
    SAY(l, "", "%s parameters", parameters);
    announce_scores(l, s, config, measured_std);
    SAY(l, "training", "%lld step%s of %lld x %zu characters, %.3g GFLOP each; %s, lr %g",
        (long long)config->train.steps, config->train.steps == 1 ? "" : "s",
        (long long)config->train.batch * (long long)config->train.accumulate, s->T,
        model_flops(s, (double)tokens_per_step(config)) / 1e9, OPTIMIZERS[config->train.optimizer], config->train.lr);
    if (config->train.optimizer == OPTIMIZER_MUON)
        SAY(l, "", "Muon for the matrices of the blocks, lr %g", config->train.muon_lr);
    announce_memory(l, engine, optimizer);
    SAY(l, "machine", "%zu thread%s on %s;", model->threads, model->threads == 1 ? "" : "s", cpu);
    const bool refused = cpu_has_tiles() && cpu_level() < CPU_AMX_BF16;
    if (engine->kind == ENGINE_PLAIN) SAY(l, "", "%s", "forward and backward pass by the plain engine, in loops");
    else if (s->attention.bf16)
        SAY(l, "", "products of bf16: %s%s", matmul_kernels(true), refused ? " (Linux refuses AMX)" : "");
    else if (matmul_is_own()) SAY(l, "", "products by sqrtdk's kernels for %s", cpu_level_name(cpu_level()));
    else SAY(l, "", "OpenBLAS core %s, %s build", matmul_core(), matmul_is_openmp_build() ? "OpenMP" : "pthread");
}
