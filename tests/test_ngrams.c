/* The losses of n-gram tables, against the definition of docs/model.md written out: every probability is computed by
   reading the whole training text again. Then the built-in text, and what a run does with its losses. */
#include "training.h"

#include "base/json.h"
#include "data/corpus.h"
#include "data/ngrams.h"

/* p_n(c | h), where h are the n - 1 characters at `context`: interpolated Witten-Bell. */
static double naive_probability(const int32_t *text, size_t count, const int32_t *context, size_t n, int32_t c,
                                size_t V) {
    double with_c = 0, N = 0, T = 0;
    if (n == 0) return 1 / (double)V;
    bool *followed_by = memory_make(V, sizeof *followed_by, "an array");
    for (size_t i = n - 1; i < count; i++) {
        if (memcmp(text + i - (n - 1), context, (n - 1) * sizeof *text) != 0) continue;
        N++;
        with_c += text[i] == c;
        T += !followed_by[text[i]];
        followed_by[text[i]] = true;
    }
    memory_free(followed_by);
    const double shorter = naive_probability(text, count, n > 1 ? context + 1 : context, n - 1, c, V);
    return N > 0 ? (with_c + T * shorter) / (N + T) : shorter;
}

static double naive_loss(const int32_t *text, size_t count, const int32_t *validation, size_t length, size_t n,
                         size_t V) {
    double sum = 0;
    for (size_t i = 1; i < length; i++) {
        const size_t order = i + 1 < n ? i + 1 : n;
        sum -= log(naive_probability(text, count, validation + i - (order - 1), order, validation[i], V));
    }
    return sum / ((double)length - 1);
}

static void check(const int32_t *text, size_t count, const int32_t *validation, size_t length, size_t V) {
    double losses[NGRAM_ORDERS];
    ngram_losses(text, count, validation, length, V, losses);
    for (size_t n = 1; n <= NGRAM_ORDERS; n++) {
        if (length < 2) {
            assert_true(isnan(losses[n - 1]));
            continue;
        }
        const double expected = naive_loss(text, count, validation, length, n, V);
        assert_close(losses[n - 1], expected, 1e-12 * expected, "order %zu, V %zu, %zu and %zu characters", n, V, count,
                     length);
    }
}

/* Also for a training text that is shorter than an n-gram, or empty, and for a validation text without a target. */
static void random_texts(void) {
    static const size_t vocabularies[] = {1, 2, 5, 60, 10000}, counts[] = {0, 1, 2, 3, 4, 50, 3000},
                        lengths[] = {0, 1, 2, 3, 4, 90};
    static int32_t text[3000], validation[90];
    for (size_t v = 0; v < COUNT_OF(vocabularies); v++)
        for (size_t t = 0; t < COUNT_OF(counts); t++)
            for (size_t l = 0; l < COUNT_OF(lengths); l++) {
                random_tokens(text, counts[t], vocabularies[v]);
                random_tokens(validation, lengths[l], vocabularies[v]);
                if (counts[t] > lengths[l]) /* or else nothing of a large vocabulary would be found again */
                    memcpy(validation, text + 7 * counts[t] / 10 - lengths[l] / 2, lengths[l] / 2 * sizeof *text);
                check(text, counts[t], validation, lengths[l], vocabularies[v]);
            }
}

/* A context whose only occurrence ends the training text has no continuation: it counts as never seen. */
static void context_at_the_end(void) {
    const int32_t text[] = {0, 1, 0, 1, 0, 2, 3}, validation[] = {2, 3, 0, 1, 3, 3};
    check(text, 7, validation, 6, 4);
}

static void built_in_text(void) {
    static const double expected[] = {3.09, 2.34, 1.79, 1.48};
    double losses[NGRAM_ORDERS];
    const Corpus corpus = corpus_load("", NULL, .1, 64);
    ngram_losses(corpus.ids, corpus.train, corpus.ids + corpus.train, corpus.count - corpus.train,
                 corpus.vocabulary.count, losses);
    for (size_t n = 0; n < NGRAM_ORDERS; n++) assert_close(losses[n], expected[n], .005, "order %zu", n + 1);
    check(corpus.ids, 20000, corpus.ids + corpus.train, 300, corpus.vocabulary.count);
}

static void text_too_long(void) {
    const int32_t id = 0;
    double losses[NGRAM_ORDERS];
    assert_refused("too long", ngram_losses(&id, UINT32_MAX - 1, &id, 1, 2, losses));
    assert_refused("too long", ngram_losses(&id, SIZE_MAX, &id, 1, 2, losses));
}

/* The losses in run.json of a directory; whether it has them. */
static bool recorded(const char *name, double losses[NGRAM_ORDERS]) {
    run_ngram_losses(in(name), losses);
    return !isnan(losses[0]);
}

static void assert_recorded(const char *name, const double expected[NGRAM_ORDERS]) {
    double losses[NGRAM_ORDERS];
    assert_true(recorded(name, losses));
    for (size_t n = 0; n < NGRAM_ORDERS; n++)
        assert_close(losses[n], expected[n], 1e-13, "order %zu in run.json", n + 1);
}

/* run.json has them in 15 digits, also after a resume. Recall has none. */
static void in_run_json(void) {
    double expected[NGRAM_ORDERS], losses[NGRAM_ORDERS];
    CONFIGURE("train.steps=2");
    train("run", 1);
    const Corpus corpus = config_corpus(&config, NULL);
    ngram_losses(corpus.ids, corpus.train, corpus.ids + corpus.train, corpus.count - corpus.train,
                 corpus.vocabulary.count, expected);
    assert_recorded("run", expected);

    resume_with_key("run", "train.steps=4");
    assert_recorded("run", expected);

    CONFIGURE("data.task=recall", "data.corpus=", "data.recall_pairs=2", "train.steps=1");
    train("recall", 1);
    assert_false(recorded("recall", losses));
    assert_null(strstr(contents(in("recall/run.json"), NULL), "ngram"));
    put_text("run/run.json", "{\"program\": \"sqrtdk\", \"ngram_losses\": [1, 2, \"3\", 4]}");
    assert_false(recorded("run", losses));
    put_text("run/run.json", "{");
    assert_refused("run.json", run_ngram_losses(in("run"), losses));
}

int main(void) {
    return RUN_TESTS(TEST(random_texts), TEST(context_at_the_end), TEST(built_in_text), TEST(text_too_long),
                     TRAINING_TEST(in_run_json));
}
