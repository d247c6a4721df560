/* The trainer without files. Everything is made by the functions that ./train calls, in the same order. */
#include "live/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/ngrams.h"
#include "train/evaluate.h"
#include "train/sample.h"

struct Live {
    size_t mark; /* of memory, before the model was made */
    Config config;
    Corpus corpus;
    Model model;
    Engine engine;
    Optimizer optimizer;
    size_t step;
    double accuracy;
    double baselines[NGRAM_ORDERS]; /* the first is 0 until they are counted */
    HeadStatistics *statistics;     /* (L, H) */
    AttentionSnapshot attention;    /* of T x T */
    float *divided;                 /* (L, H, T, T) */
    LiveAttention shown;            /* these matrices */
    char *written;                  /* the last text that was returned; NULL before the first */
};

static Corpus make_corpus(const Config *c, const char *text) {
    if (c->data.task == TASK_RECALL) return corpus_recall(c->data.recall_pairs, NULL);
    if (*c->data.corpus) usage_error("the config names the corpus %s: leave data.corpus out here", c->data.corpus);
    if (!text) text = sqrtdk_corpus;
    return corpus_from_text(text, strlen(text), "the text", NULL, c->data.val_fraction, c->model.context);
}

static float *make_matrices(const ModelShape *s) {
    return memory_make(size_mul(s->L * s->attention.H, size_mul(s->T, s->T)), sizeof(float), "matrices of attention");
}

Live *live_make(const char *config, const char *text) {
    const size_t mark = memory_mark();
    Live *l = memory_make(1, sizeof *l, "a model");
    Config *c = &l->config;
    l->mark = mark;
    config_from_text(c, config, "the config");
    l->corpus = make_corpus(c, text);
    const ModelShape s = model_shape(c, l->corpus.vocabulary.count);
    const size_t B = c->train.batch, heads = s.L * s.attention.H;
    model_make(&l->model, &s, B, 1, true);
    engine_make(&l->engine, c->train.engine, c->train.shards, &l->model);
    optimizer_make(&l->optimizer, c, &l->model.tensors, 1);
    l->statistics = memory_make(heads, sizeof *l->statistics, "statistics");
    l->attention = (AttentionSnapshot){.scores = make_matrices(&s),
                                       .weights = make_matrices(&s),
                                       .multiplier = memory_make(heads, sizeof(float), "scales"),
                                       .sink = memory_make(heads, sizeof(float), "sinks")};
    l->divided = make_matrices(&s);
    tensors_initialize(&l->model.tensors, &s, c->model.init, c->train.seed, 1, l->model.parameters);
    return l;
}

void live_free(Live *l) { memory_release(l->mark); }

double live_step(Live *l) {
    const Config *c = &l->config;
    attention_set_step(&l->model.shape.attention, c, l->step);
    const double loss = step_gradients(&l->engine, &l->corpus, c, l->step, NULL);
    const double norm = gradient_norm(&l->optimizer, l->model.gradients);
    step_update(&l->model, &l->optimizer, c, norm, l->step);
    l->step++;
    attention_set_step(&l->model.shape.attention, c, l->step);
    return loss;
}

size_t live_steps(const Live *l) { return l->step; }

size_t live_last(const Live *l) { return l->config.train.steps; }

bool live_evaluates(const Live *l) {
    return step_is_due(l->step, l->config.eval.every) || l->step == l->config.train.steps;
}

bool live_measures(const Live *l) {
    return l->step == 0 || step_is_due(l->step, l->config.log.attention_every) || l->step == l->config.train.steps;
}

double live_evaluate(Live *l) {
    const Evaluation e = evaluate(&l->engine, &l->corpus, l->config.eval.batches);
    l->accuracy = e.accuracy;
    return e.loss;
}

double live_accuracy(const Live *l) { return l->accuracy; }

const double *live_baselines(Live *l) {
    const Corpus *c = &l->corpus;
    if (c->pairs) return NULL;
    if (l->baselines[0] == 0)
        ngram_losses(c->ids, c->train, c->ids + c->train, c->count - c->train, c->vocabulary.count, l->baselines);
    return l->baselines;
}

/* Returns a divisor as a config has it. */
static ScaleDivisor checked_divisor(const Live *l, double divisor) {
    if (l->config.attention.scale_learned != LEARNED_NO)
        usage_error("this model learns its scale: its divisor cannot be moved");
    if (!(divisor >= SCALE_LEAST && divisor <= SCALE_MOST)) usage_error("a divisor is a number from " SCALE_RANGE);
    return (ScaleDivisor){.mode = SCALE_NUMBER, .number = divisor};
}

void live_divide(Live *l, double divisor) {
    l->config.attention.scale_divisor = checked_divisor(l, divisor);
    l->config.attention.switch_step = 0;
    attention_set_step(&l->model.shape.attention, &l->config, l->step);
}

void live_rate(Live *l, double factor) {
    if (!(factor >= 0 && factor <= 1e6)) usage_error("the learning rate is multiplied by a number from 0 to 1e6");
    l->config.train.lr *= factor;
    l->config.train.min_lr *= factor;
    l->config.train.muon_lr *= factor;
}

/* Computes the logits of as much of a text as the context holds. Returns how many characters that is. */
static size_t forward(Live *l, const char *text) {
    const size_t T = l->model.shape.T, size = strlen(text);
    if (size == 0) usage_error("the text is empty");
    const size_t count = vocabulary_encode(&l->corpus.vocabulary, "the text", text, size, l->engine.tokens, T);
    model_forward(&l->model, &(Batch){l->engine.tokens, NULL, 1, count});
    return count;
}

const LiveAttention *live_attention(Live *l, const char *text) {
    const ModelShape *s = &l->model.shape;
    const size_t T = forward(l, text), H = s->attention.H;
    measure_snapshot(&l->model, T, &l->attention);
    for (size_t h = 0; h < s->L * H; h++)
        for (size_t i = h * T * T; i < (h + 1) * T * T; i++)
            l->divided[i] = l->attention.multiplier[h] * l->attention.scores[i];
    l->shown = (LiveAttention){s->L, H, T, l->attention.scores, l->divided, l->attention.weights};
    return &l->shown;
}

const HeadStatistics *live_statistics(Live *l) {
    const ModelShape *s = &l->model.shape;
    const size_t slice = model_slice(s, l->config.train.batch),
                 B = validation_batch(&l->corpus, slice, s->T, l->engine.tokens, l->engine.targets);
    model_forward(&l->model, &(Batch){l->engine.tokens, NULL, B, s->T});
    measure_heads(&l->model, B, s->T, l->statistics);
    return l->statistics;
}

const real *live_logits(Live *l, const char *text, double divisor, size_t *T) {
    AttentionConfig *attention = &l->model.shape.attention;
    const AttentionConfig trained = *attention;
    attention->divisor = checked_divisor(l, divisor).number;
    attention->multiplier = (real)(1 / attention->divisor);
    *T = forward(l, text);
    *attention = trained;
    return l->model.logits.values;
}

const uint32_t *live_vocabulary(const Live *l, size_t *count) {
    *count = l->corpus.vocabulary.count;
    return l->corpus.vocabulary.characters;
}

/* A text that is written as a file is. */
typedef struct {
    FILE *file;
    char *text;
    size_t size;
} Text;

static void text_begin(Text *t) {
    t->file = open_memstream(&t->text, &t->size);
    if (!t->file) runtime_error("no memory for a text");
}

static const char *text_end(Live *l, Text *t) {
    const bool complete = fclose(t->file) == 0;
    memory_free(l->written);
    l->written = complete ? memory_copy_text(t->text, t->size) : NULL;
    free(t->text);
    if (!complete) runtime_error("no memory for a text");
    return l->written;
}

const char *live_sample(Live *l, const char *prompt, size_t count, double temperature, uint64_t seed) {
    const Vocabulary *v = &l->corpus.vocabulary;
    const size_t size = strlen(prompt), mark = memory_mark();
    int32_t *ids = memory_make(size_add(size, 1), sizeof *ids, "a prompt");
    int32_t *window = memory_make(l->model.shape.T, sizeof *window, "a text");
    const SampleOptions options = {.tokens = count, .temperature = temperature, .seed = seed};
    size_t known = 1;
    Text text = {0};
    ids[0] = sample_start(v);
    if (size) known = vocabulary_encode(v, "the prompt", prompt, size, ids, size);
    text_begin(&text);
    sample_text(&l->model, v, ids, known, &options, window, text.file);
    memory_release(mark);
    return text_end(l, &text);
}

const char *live_config(Live *l) {
    Text text = {0};
    text_begin(&text);
    config_write(&l->config, text.file);
    return text_end(l, &text);
}

const real *live_parameters(const Live *l, const TensorTable **table) {
    if (table) *table = &l->model.tensors;
    return l->model.parameters;
}

size_t live_count(const Live *l) { return l->model.tensors.flat; }
