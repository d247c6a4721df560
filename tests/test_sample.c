/* train/sample: from a model whose logits are always the same, the frequencies drawn; from any model, the likeliest
   character found by hand. */
#include "shapes.h"
#include "support.h"

#include "train/sample.h"

enum { T = 4, C = 6, V = 6 };
static const double LOGITS[V] = {0.5, -1, 2, 0, 1.25, -3};

static Model model;
static int32_t window[T];
static uint32_t letters[V] = {'a', 'b', 'c', 0xE9, 0x6F22, 0x1F389}; /* they take one to four bytes */
static const Vocabulary vocabulary = {letters, V};

static int make(void **state) {
    (void)state;
    ModelShape shape = small_shape(T, C, 2, 3, V);
    shape.L = 1;
    model_make(&model, &shape, 1, 1, false);
    tensors_initialize(&model.tensors, &shape, INIT_UNIT, 1, model.threads, model.parameters);
    return 0;
}

/* ln_f gives (1, 0, 0, ...) always, so that column 0 of the head is the logits. */
static void fix_logits(void) {
    real *gamma = tensor_at(&model.tensors, model.parameters, LN_F_W, 0);
    real *beta = tensor_at(&model.tensors, model.parameters, LN_F_B, 0);
    real *head = tensor_at(&model.tensors, model.parameters, LM_HEAD, 0);
    for (size_t i = 0; i < C; i++) gamma[i] = 0, beta[i] = i == 0;
    for (size_t v = 0; v < V; v++) head[v * C] = (real)LOGITS[v];
}

/* The text drawn after a prompt. */
static char *sample(const int32_t *prompt, size_t count, SampleOptions options) {
    assert_true(sample_text(&model, &vocabulary, prompt, count, &options, window, print_into()));
    return what_was_printed();
}

/* Decodes a sampled text into ids. */
static size_t ids_of(const char *text, int32_t *ids, size_t capacity) {
    return vocabulary_encode(&vocabulary, "sample", text, strlen(text), ids, capacity);
}

/* Chi-square of n draws against softmax(logits / temperature) over the k likeliest; .9999 quantiles. */
static void check_frequencies(double temperature, size_t top_k, double top_p, const double *logits, size_t k) {
    static const double quantiles[] = {0, 15.1, 18.4, 21.1, 23.5, 25.7};
    enum { N = 20000 };
    static int32_t ids[N];
    const int32_t prompt = 0;
    double seen[V] = {0}, total = 0, chi_square = 0;
    size_t drawn = ids_of(sample(&prompt, 1, (SampleOptions){N, temperature, top_k, top_p, 42}), ids, N), options = 0;
    assert_int_equal(drawn, N);
    for (size_t i = 0; i < N; i++) seen[ids[i]]++;
    for (size_t v = 0; v < V; v++) total += exp(logits[v] / temperature);
    for (size_t v = 0; v < V; v++) {
        double expected = N * exp(logits[v] / temperature) / total;
        if (expected == 0) assert_true(seen[v] == 0);
        if (expected == 0) continue;
        chi_square += pow(seen[v] - expected, 2) / expected;
        options++;
    }
    assert_int_equal(options, k);
    assert_that(chi_square <= quantiles[options - 1], "chi-square %g of %zu degrees, temperature %g, top %zu, %g",
                chi_square, options - 1, temperature, top_k, top_p);
}

static void frequencies(void) {
    fix_logits();
    const double three[V] = {0.5, -INFINITY, 2, -INFINITY, 1.25, -INFINITY};
    check_frequencies(1, 0, 0, LOGITS, V);
    check_frequencies(2.5, 0, 0, LOGITS, V);
    check_frequencies(0.5, 0, 0, LOGITS, V);
    check_frequencies(1, V, 0, LOGITS, V);
    check_frequencies(1, V + 1, 0, LOGITS, V);
    check_frequencies(1, SIZE_MAX, 0, LOGITS, V);
    check_frequencies(1, 3, 0, three, 3);
    check_frequencies(3, 3, 0, three, 3);
    /* The two likeliest have .78 of the probability, the three likeliest .90; of these three the two have .87. */
    const double two[V] = {-INFINITY, -INFINITY, 2, -INFINITY, 1.25, -INFINITY};
    check_frequencies(1, 0, 1, LOGITS, V);
    check_frequencies(1, 0, 0.8, three, 3);
    check_frequencies(1, V, 0.8, three, 3);
    check_frequencies(1, 3, 0.8, two, 2);
    check_frequencies(1, 0, 0.65, two, 2);
    check_frequencies(1, 2, 0.9999, two, 2);
}

/* The likeliest text, found by a loop that computes every position again. When T ids are full, it continues from the
   later half. */
static void likeliest(void) {
    enum { N = 5 * T };
    for (uint64_t seed = 1; seed < 20; seed++) {
        tensors_initialize(&model.tensors, &model.shape, INIT_UNIT, seed, model.threads, model.parameters);
        int32_t ids[2 * T + N] = {0}, got[N];
        size_t prompt = 1 + seed % (2 * T), count = prompt, from = prompt < T ? 0 : prompt - T;
        random_tokens(ids, prompt, V);
        const SampleOptions greedy = {.tokens = N, .temperature = 0, .seed = seed};
        assert_int_equal(ids_of(sample(ids, prompt, greedy), got, N), N);
        for (; count < prompt + N; count++) {
            size_t seen = count - from, best = 0;
            model_forward(&model, &(Batch){.tokens = ids + from, .B = 1, .T = seen});
            const real *z = model.logits.values + (seen - 1) * V;
            for (size_t v = 1; v < V; v++)
                if (z[v] > z[best]) best = v;
            ids[count] = (int32_t)best;
            if (seen == T) from += T / 2;
        }
        assert_memory_equal(got, ids + prompt, sizeof got);
        const SampleOptions others[] = {
            {N, 1, 1, 0, seed}, {N, 0, 3, 0.5, 9}, {N, 100, 1, 0, 7}, {N, 1, 0, 1e-9, seed}, {N, 1e-12, 0, 0, seed}};
        for (size_t n = 0; n < COUNT_OF(others); n++)
            assert_string_equal(sample(ids, prompt, others[n]), sample(ids, prompt, greedy));
    }
}

static void seeds(void) {
    const int32_t prompt[] = {3, 1, 4, 1, 5, 0, 2, 5};
    const SampleOptions options = {.tokens = 100, .temperature = 1, .seed = 6};
    SampleOptions other = options;
    other.seed = 7;
    const char *text = sample(prompt, 8, options);
    assert_string_equal(sample(prompt, 8, options), text);
    assert_string_equal(sample(prompt + 8 - T, T, options), text); /* the last T are seen */
    assert_string_not_equal(sample(prompt, 8, other), text);
    other = options;
    other.tokens = 40;
    char *shorter = sample(prompt, 8, other);
    assert_memory_equal(shorter, text, strlen(shorter)); /* the beginning does not depend on the length */
    other.tokens = 0;
    assert_string_equal(sample(prompt, 8, other), "");
}

static void start(void) {
    uint32_t lines[] = {'\t', '\n', 'a'};
    assert_int_equal(sample_start(&(Vocabulary){lines, 3}), 1);
    assert_int_equal(sample_start(&vocabulary), 0);
}

int main(void) {
#define SAMPLE_TEST(function) TEST_WITH(function, make, support_release)
    return RUN_TESTS(SAMPLE_TEST(frequencies), SAMPLE_TEST(likeliest), SAMPLE_TEST(seeds), SAMPLE_TEST(start));
}
