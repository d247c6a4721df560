/* A text to train on, and the same bytes as a prompt or as --text. The ids of a text that is accepted are in the
   vocabulary, its batches are within it, and its characters are a prompt of the same ids. */
#include "data/corpus.h"
#include "fuzz.h"

static void check_ids(const int32_t *ids, size_t count, const Vocabulary *vocabulary) {
    for (size_t i = 0; i < count; i++) REQUIRE(ids[i] >= 0 && (size_t)ids[i] < vocabulary->count);
}

typedef struct {
    const Vocabulary *vocabulary;
    const char *text;
    size_t size, count;
    int32_t *ids; /* (size) */
} Prompt;

static void encode(void *argument) {
    Prompt *p = argument;
    p->count = vocabulary_encode(p->vocabulary, "the prompt", p->text, p->size, p->ids, p->size);
}

enum { T = 3, B = 2 };
static Corpus corpus;

static void load(void *path) { corpus = corpus_load(path, NULL, 0.2, T); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_release(0); /* what the last input has made */
    static const uint32_t letters[] = {'\n', 'a', 'b', 0xe9};
    const Vocabulary few = {(uint32_t *)letters, sizeof letters / sizeof *letters}, *v = &corpus.vocabulary;
    int32_t tokens[B * T], targets[B * T], *ids = memory_make(size, sizeof *ids, "the ids");
    Prompt prompt = {.vocabulary = &few, .text = (const char *)data, .size = size, .ids = ids};
    if (fuzz_answer(encode, &prompt)) check_ids(ids, prompt.count, &few);
    if (!fuzz_answer(load, (char *)fuzz_put("text.txt", data, size))) return 0;
    const size_t mark = size > 2 && memcmp(data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    check_ids(corpus.ids, corpus.count, v);
    for (size_t i = 1; i < v->count; i++) REQUIRE(v->characters[i - 1] < v->characters[i]);
    REQUIRE(vocabulary_encode(v, "it", (const char *)data + mark, size - mark, ids, size) == corpus.count);
    REQUIRE(memcmp(ids, corpus.ids, corpus.count * sizeof *ids) == 0);
    corpus_training_batch(&corpus, 1, size, B, T, tokens, targets);
    check_ids(tokens, B * T, v);
    check_ids(targets, B * T, v);
    for (size_t i = 0; i < corpus_windows(&corpus, T); i++) {
        const size_t length = corpus_window(&corpus, i, T, tokens, targets);
        REQUIRE(length > 0 && length <= T);
        check_ids(targets, length, v);
    }
    return 0;
}
