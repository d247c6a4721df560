/* Prints the summary of a run: what decides how long the run lasts, and what shows the user whether it is the intended
   run. It is printed before the first step, and by --dry-run as comments below the config. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/machine.h"
#include "base/text.h"
#include "data/recall.h"
#include "gemm/matmul.h"
#include "model/measure.h"
#include "ops/update.h"
#include "ranks/ranks.h"

size_t training_memory(const Engine *e, const Optimizer *optimizer) {
    const Model *m = e->model;
    return m->arena.capacity + e->plain.arena.capacity + e->shards.arena.capacity + optimizer->arena.capacity +
           m->threads * matmul_buffer_bytes(m->shape.attention.rounds);
}

void training_memory_check(size_t bytes) {
    const size_t machine = memory_of_machine();
    if (bytes > machine)
        runtime_error(
            "this model and batch need %.4g GB, and the machine has %.4g GB of memory: choose a smaller model, context or batch",
            (double)bytes / 1e9, (double)machine / 1e9);
}

size_t tokens_per_step(const Config *config) {
    return config->train.accumulate * config->train.batch * config->model.context;
}

/* Writes a number as "12,345,678". */
static void format_count(size_t n, char out[32]) {
    size_t power = 1;
    while (n / power >= 1000) power *= 1000;
    snprintf(out, 32, "%zu", n / power);
    for (; power > 1; power /= 1000) text_append(out, 32, ",%03zu", n % power / (power / 1000));
}

/* The destination of a summary's lines, and the mark that each begins with. */
typedef struct {
    Progress *to;
    const char *mark;
} Lines;
#define SAY(l, label, format, ...) progress_message((l)->to, "%s  %-10s" format, (l)->mark, label, __VA_ARGS__)

/* Writes a text on as many lines of 80 columns as it needs. */
static void say_wrapped(const Lines *l, const char *label, const char *text) {
    size_t line;
    for (const char *next; *text; text = next, label = "") {
        next = text_next_line(text, 68 - strlen(l->mark), &line);
        SAY(l, label, "%.*s", (int)line, text);
    }
}

/* Names other characters that cannot be seen, the first few of them. */
static void print_invisible(const Lines *l, const Vocabulary *v) {
    char text[160] = "with invisible characters, learned as well:";
    size_t count = 0;
    for (size_t i = 0; i < v->count; i++) {
        const uint32_t c = v->characters[i];
        if (c == '\r' || !text_is_invisible(c)) continue;
        if (count < 8) text_append(text, sizeof text, "%s U+%04X", count ? "," : "", (unsigned)c);
        count++;
    }
    if (count > 8) text_append(text, sizeof text, " and %zu more", count - 8);
    if (count) say_wrapped(l, "", text);
}

static void print_corpus(const Lines *l, const Run *run) {
    const Config *config = &run->config;
    const Corpus *corpus = &run->corpus;
    const double *ngrams = run->ngrams;
    char all[32], train[32];
    const size_t T = config->model.context, pairs = corpus->pairs;
    if (pairs) {
        SAY(l, "corpus", "recall: %zu pair%s of %d keys and %d values; %zu characters a record,", pairs,
            pairs == 1 ? "" : "s", RECALL_LETTERS, RECALL_LETTERS, T);
        SAY(l, "", "%zu of them queries; guessing: loss ln %zu = %.4g, accuracy %.3g", recall_answers(pairs, T), pairs,
            log((double)pairs), 1 / (double)pairs);
        return;
    }
    format_count(corpus->count, all);
    format_count(corpus->train, train);
    SAY(l, "corpus", "%s", *config->data.corpus ? config->data.corpus : "The Ferry at Sallow Reach (built in)");
    SAY(l, "", "%s characters, %zu different; %s to train on", all, corpus->vocabulary.count, train);
    if (vocabulary_id(&corpus->vocabulary, '\r') >= 0)
        SAY(l, "", "%s", "with carriage returns, learned as well; tr -d '\\r' removes them");
    print_invisible(l, &corpus->vocabulary);
    SAY(l, "n-grams", "%s", "validation loss of tables counted on the training text:");
    SAY(l, "", "characters %.2f, pairs %.2f, triples %.2f, 4-grams %.2f nats", ngrams[0], ngrams[1], ngrams[2],
        ngrams[3]);
}

static void print_scores(const Lines *l, const ModelShape *s, const Config *config, double measured) {
    char text[320], shown[40] = "";
    config_scores_title(config, 0, text, 256);
    text_append(text, sizeof text, ", that is multiplied by %.6g%s", 1 / s->attention.divisor,
                s->attention.learned == LEARNED_NO && !config->attention.switch_step ? "" : " at the start");
    say_wrapped(l, "attention", text);
    if (!isnan(measured)) snprintf(shown, sizeof shown, ", %.3g measured", measured);
    SAY(l, "", "standard deviation at the start: %.3g predicted%s", predicted_score_std(s, config->model.init), shown);
}

void print_summary(Progress *to, const char *mark, const Trainer *t, double measured_std) {
    const Config *config = &t->run.config;
    const Model *model = &t->model;
    const ModelShape *s = &model->shape;
    const Lines *l = &(Lines){to, mark};
    char parameters[32], cpu[64];
    format_count(model->tensors.parameters, parameters);
    cpu_name(cpu, sizeof cpu);
    print_corpus(l, &t->run);
    SAY(l, "model", "%zu layer%s, %zu head%s, d_model %zu, d_k %zu, context %zu:", s->L, s->L == 1 ? "" : "s",
        s->attention.H, s->attention.H == 1 ? "" : "s", s->C, s->attention.D, s->T);
    SAY(l, "", "%s parameters", parameters);
    print_scores(l, s, config, measured_std);
    SAY(l, "training", "%zu step%s of %zu x %zu characters, %.3g GFLOP each;", config->train.steps,
        config->train.steps == 1 ? "" : "s", config->train.batch * config->train.accumulate, s->T,
        model_flops(s, (double)tokens_per_step(config)) / 1e9);
    SAY(l, "", "%s, lr %g", OPTIMIZERS[config->train.optimizer].name, config->train.lr);
    if (config->train.warmup >= config->train.steps)
        SAY(l, "", "warmup takes %zu steps: lr is not reached before the end", config->train.warmup);
    if (OPTIMIZERS[config->train.optimizer].muon)
        SAY(l, "", "Muon for the matrices of the blocks, lr %g", config->train.muon_lr);
    SAY(l, "memory", "%.1f MB", (double)training_memory(&t->engine, &t->optimizer) / 1e6);
    char ranks[32] = "";
    if (ranks_count() > 1) snprintf(ranks, sizeof ranks, "%zu ranks of ", ranks_count());
    SAY(l, "machine", "%s%zu thread%s on %s;", ranks, model->threads, model->threads == 1 ? "" : "s", cpu);
    const bool refused = cpu_has_tiles() && cpu_level() < CPU_AMX_BF16;
    if (t->engine.kind == ENGINE_PLAIN) SAY(l, "", "%s", "forward and backward pass by the plain engine, in loops");
    else if (s->attention.rounds) {
        const char *kernels = matmul_kernels(true),
                   *slow = strstr(kernels, "emulated") ? ", several times slower than fp32" : "";
        SAY(l, "", "products of bf16: %s%s%s", kernels, refused ? " (Linux refuses AMX)" : "", slow);
    } else if (matmul_is_own()) SAY(l, "", "products by sqrtdk's kernels for %s", cpu_level_name(cpu_level()));
    else SAY(l, "", "OpenBLAS core %s, %s build", matmul_core(), matmul_build());
    say_wrapped(l, "note", t->text.note);
}

/* Prints the last line of a run. */
static void print_page(const Trainer *t) {
    if (t->options->page) print_plain(stdout, "page to look at: %s/report.html", t->run.directory);
}

void print_outcome(const Trainer *t) {
    const RunState *s = &t->state;
    const char *directory = t->run.directory;
    char time[32];
    if (t->had_finished) {
        print_plain(stdout,
                    "%s has already finished; its pictures%s were made again; to train it longer: %s --set "
                    "train.steps=N",
                    directory, t->options->page ? " and its page" : "", command_to_copy("resume", directory));
        print_page(t);
        return;
    }
    progress_duration(s->seconds, time, sizeof time);
    printf("%s after %zu step%s and %s", t->signal ? "stopped" : "done", s->step, s->step == 1 ? "" : "s", time);
    if (isfinite(s->train_loss)) printf(": train loss %.4f", s->train_loss);
    if (isfinite(s->val_loss)) printf(", validation loss %.4f", s->val_loss);
    putchar('\n');
    if (isfinite(s->val_loss))
        printf("the best validation loss was %.4f, at step %zu\n", s->best_val_loss, s->best_step);
    if (t->signal) print_plain(stdout, "to resume: %s", command_to_copy("resume", directory));
    puts("results");
    print_plain(stdout, "  loss curves      %s/loss.png", directory);
    print_plain(stdout, "  heatmaps         %s/attention/", directory);
    print_plain(stdout, "  samples          %s/samples.txt", directory);
    print_plain(stdout, "  numbers          %s/metrics.csv, attention.csv", directory);
    print_page(t);
}
