/* Reads a model between two steps: attention, logits, a text, its parameters. */
#include <string.h>

#include "base/memory.h"
#include "lab/live/parts.h"
#include "train/sample.h"

const LiveAttention *live_attention(Live *l, const char *text, double divisor) {
    Model *m = &l->t.model;
    const ModelShape *s = &m->shape;
    const Vocabulary *v = &l->t.run.corpus.vocabulary;
    AttentionConfig *attention = &m->shape.attention;
    const double trained = attention->divisor;
    const size_t size = strlen(text);
    if (size == 0) usage_error("the text is empty");
    const size_t T = vocabulary_encode(v, "the text", text, size, l->t.engine.tokens, s->T);
    if (divisor != 0) attention->divisor = live_checked_divisor(l, divisor).number;
    model_forward(m, &(Batch){l->t.engine.tokens, NULL, 1, T});
    measure_snapshot(m, T, &l->attention);
    attention->divisor = trained;
    const AttentionSnapshot *a = &l->attention;
    l->shown = (LiveAttention){s->L,       attention->H,  T,       v->count,        a->scores,
                               a->weights, a->multiplier, a->sink, m->logits.values};
    return &l->shown;
}

const char *live_text(Live *l) {
    const Snapshot *s = &l->t.snapshot;
    char character[5];
    Text *text = text_begin();
    for (size_t t = 0; t < s->T; t++) fwrite(character, 1, utf8_encode(s->text[t], character), text->stream);
    return live_text_return(l, text);
}

const LiveWindows *live_windows(Live *l, size_t most) {
    Trainer *t = &l->t;
    const size_t T = t->model.shape.T, slice = model_slice_size(&t->model.shape, t->run.config.train.batch),
                 count = most < slice ? most : slice;
    l->windows = (LiveWindows){.T = T, .tokens = t->engine.tokens, .targets = t->engine.targets};
    l->windows.count = validation_batch(&t->run.corpus, count, T, t->engine.tokens, t->engine.targets);
    return &l->windows;
}

const HeadStatistics *live_statistics(Live *l) {
    Trainer *t = &l->t;
    const LiveWindows *w = live_windows(l, SIZE_MAX);
    model_forward(&t->model, &(Batch){w->tokens, NULL, w->count, w->T});
    measure_heads(&t->model, w->count, w->T, t->heads);
    return t->heads;
}

const uint32_t *live_vocabulary(const Live *l, size_t *count) {
    *count = l->t.run.corpus.vocabulary.count;
    return l->t.run.corpus.vocabulary.characters;
}

const char *live_sample(Live *l, const char *prompt, size_t count, double temperature, uint64_t seed) {
    const Vocabulary *v = &l->t.run.corpus.vocabulary;
    const size_t size = strlen(prompt), mark = memory_mark();
    int32_t *ids = memory_make(size_add(size, 1), sizeof *ids, "a prompt");
    int32_t *window = memory_make(l->t.model.shape.T, sizeof *window, "a text");
    const SampleOptions options = {.tokens = count, .temperature = temperature, .seed = seed};
    size_t known = 1;
    ids[0] = sample_start(v);
    if (size) known = vocabulary_encode(v, "the prompt", prompt, size, ids, size);
    Text *text = text_begin();
    sample_text(&l->t.model, v, ids, known, &options, window, text->stream);
    const char *drawn = live_text_return(l, text);
    memory_release(mark);
    return drawn;
}

const real *live_parameters(const Live *l, const TensorTable **table) {
    if (table) *table = &l->t.model.tensors;
    return l->t.model.parameters;
}

size_t live_count(const Live *l) { return l->t.model.tensors.flat; }
