/* A text to train on, and the same bytes as a prompt or as --text. The ids of a text that is accepted are in the
   vocabulary, its batches are within it, and its characters are a prompt of the same ids. */
#include "data/corpus.h"
#include "fuzz.h"

static void check_ids(const int32_t *ids, size_t count, const Vocabulary *vocabulary) {
    for (size_t i = 0; i < count; i++) REQUIRE(ids[i] >= 0 && (size_t)ids[i] < vocabulary->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { T = 3, B = 2 };
    static const uint32_t letters[] = {'\n', 'a', 'b', 0xe9};
    const Vocabulary few = {(uint32_t *)letters, sizeof letters / sizeof *letters};
    int32_t tokens[B * T], targets[B * T], *ids = malloc((size + 1) * sizeof *ids);
    size_t count;
    Error err = {0};
    Corpus corpus;
    REQUIRE(ids);
    const bool prompt = vocabulary_encode(&few, "the prompt", (const char *)data, size, ids, size, &count, &err);
    fuzz_answer(prompt, &err);
    if (prompt) check_ids(ids, count, &few);
    if (fuzz_answer(corpus_load(&corpus, fuzz_put("text.txt", data, size), NULL, 0.2, T, &err), &err)) {
        const Vocabulary *v = &corpus.vocabulary;
        const size_t mark = size > 2 && memcmp(data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        check_ids(corpus.ids, corpus.count, v);
        for (size_t i = 1; i < v->count; i++) REQUIRE(v->characters[i - 1] < v->characters[i]);
        REQUIRE(vocabulary_encode(v, "it", (const char *)data + mark, size - mark, ids, size, &count, &err));
        REQUIRE(count == corpus.count && memcmp(ids, corpus.ids, count * sizeof *ids) == 0);
        corpus_training_batch(&corpus, 1, size, B, T, tokens, targets);
        check_ids(tokens, B * T, v);
        check_ids(targets, B * T, v);
        for (size_t i = 0; i < corpus_windows(&corpus, T); i++) {
            const size_t length = corpus_window(&corpus, i, T, tokens, targets);
            REQUIRE(length > 0 && length <= T);
            check_ids(targets, length, v);
        }
        corpus_free(&corpus);
    }
    free(ids);
    return 0;
}
