/* The validation loss against the mean over characters, worked out one window at a time from the logits alone. The
   corpus is a row of characters that are all different: ids are places. */
#include "shapes.h"
#include "temporary.h"

#include "data/corpus.h"
#include "train/evaluate.h"

enum { T = 6, VALIDATION = 45, COUNT = 105 };

static Corpus corpus;
static Model model;

static int make(void **state) {
    char text[COUNT * 4], *end = text;
    if (temporary_enter(state) != 0) return 1;
    for (uint32_t i = 0; i < COUNT; i++) end += utf8_encode(0x4E00 + i, end);
    corpus = corpus_load(put("corpus.txt", text, (size_t)(end - text)), NULL, 0.3, T);
    return 0;
}
/* Splits the same characters with another share for validation. */
static void split_at(size_t validation) { corpus.train = corpus.count - validation; }

static void make_model(size_t batch, size_t threads) {
    const ModelShape shape = small_shape(T, 16, 2, 8, COUNT);
    model_make(&model, &shape, batch, threads, false);
    tensors_initialize(&model.tensors, &shape, INIT_UNIT, 3, model.threads, model.parameters);
    real *head = tensor_at(&model.tensors, model.parameters, LM_HEAD, 0);
    for (size_t i = 0; i < COUNT * 16; i++) head[i] *= 50; /* so that losses differ between characters */
}

/* The sum of the losses of `length` characters after place `at`. */
static double losses_from(size_t at, size_t length) {
    int32_t tokens[T];
    double sum = 0;
    for (size_t t = 0; t < length; t++) tokens[t] = (int32_t)(at + t);
    model_forward(&model, &(Batch){.tokens = tokens, .B = 1, .T = length});
    for (size_t t = 0; t < length; t++) {
        const real *z = model.logits.values + t * COUNT;
        double total = 0;
        for (size_t v = 0; v < COUNT; v++) total += exp((double)z[v]);
        sum += log(total) - (double)z[at + t + 1];
    }
    return sum;
}

static int32_t *integers(size_t count) { return memory_make(count, sizeof(int32_t), "an array"); }

static double evaluate_now(size_t batch, size_t batches, int32_t *tokens) {
    int32_t *targets = integers(batch * T);
    model.max_batch = batch;
    const Evaluation e = evaluate(&(Engine){.model = &model, .tokens = tokens, .targets = targets}, &corpus, batches);
    assert_true(e.complete && isnan(e.accuracy));
    for (size_t i = 0; i < batch * T; i++)
        if (tokens[i]) assert_int_equal(targets[i], tokens[i] + 1);
    return e.loss;
}

static double evaluate_whole(size_t batch) { return evaluate_now(batch, 0, integers(batch * T)); }

/* Every character but the first weighs the same, also in a last window that is shorter. */
static void whole_split(void) {
    for (size_t batch = 1; batch <= 16; batch = batch * 2 + 1) {
        make_model(batch, 1);
        for (size_t validation = T + 1; validation <= VALIDATION; validation++) {
            split_at(validation);
            double sum = 0;
            for (size_t at = corpus.train, length; at < COUNT - 1; at += length) {
                length = COUNT - 1 - at < T ? COUNT - 1 - at : T;
                sum += losses_from(at, length);
            }
            double mean = sum / (double)(validation - 1);
            assert_close(evaluate_whole(batch), mean, 2e-6 * mean, "%zu characters by %zu", validation, batch);
        }
    }
}

/* With eval.batches = N there are full windows only, at even distances: at multiples of T, and the distances between
   them differ by at most one window. */
static void check_distances(const int32_t *tokens, const int32_t *targets, size_t count, size_t whole) {
    size_t least = whole, most = 0;
    for (size_t b = 0; b < count; b++) {
        size_t at = (size_t)tokens[b * T] - corpus.train, window = at / T;
        assert_true(at % T == 0 && window < whole);
        for (size_t t = 0; t < T; t++) {
            assert_int_equal(tokens[b * T + t], tokens[b * T] + (int32_t)t);
            assert_int_equal(targets[b * T + t], tokens[b * T] + (int32_t)t + 1);
        }
        if (b == 0) continue;
        size_t step = window - ((size_t)tokens[(b - 1) * T] - corpus.train) / T;
        least = step < least ? step : least;
        most = step > most ? step : most;
    }
    if (count > 1) assert_true(least >= 1 && most - least <= 1 && most >= whole / count);
}

/* One batch, which is also what attention is measured on. */
static void one_batch(void) {
    make_model(9, 1);
    for (size_t validation = T + 1; validation <= VALIDATION; validation++) {
        split_at(validation);
        const size_t whole = (validation - 1) / T;
        for (size_t batch = 1; batch <= 9; batch++) {
            const size_t mark = memory_mark(), windows = batch < whole ? batch : whole;
            int32_t *tokens = integers(batch * T), *fixed = integers(batch * T), *targets = integers(batch * T);
            assert_int_equal(validation_batch(&corpus, batch, T, fixed, targets), windows);
            check_distances(fixed, targets, windows, whole);
            if (batch <= whole) {
                double loss = evaluate_now(batch, 1, tokens), sum = 0;
                assert_memory_equal(tokens, fixed, batch * T * sizeof *tokens);
                for (size_t b = 0; b < batch; b++) sum += losses_from((size_t)tokens[b * T], T);
                assert_close(loss, sum / (double)(batch * T), 2e-6 * loss, "%zu of %zu windows", batch, whole);
                assert_close(evaluate_now(batch, 1, tokens), loss, 0, "the second time");
            }
            memory_release(mark);
        }
    }
}

/* N batches that are every full window: the shorter one after them is not among them. More than there are: the whole
   split. */
static void several_batches(void) {
    make_model(2, 1);
    split_at(6 * T + 4); /* six full windows and one of three */
    int32_t *tokens = integers(2 * T);
    double full = 0;
    for (size_t i = 0; i < 6; i++) full += losses_from(corpus.train + i * T, T) / (6 * T);
    double loss = evaluate_now(2, 3, tokens);
    assert_close(loss, full, 2e-6 * full, "three batches of two");
    assert_close(evaluate_now(2, 3, tokens), loss, 0, "the second time");
    double four = evaluate_now(2, 2, tokens);
    assert_true(four != loss && evaluate_now(2, 2, tokens) == four);
    assert_close(evaluate_now(2, 4, tokens), evaluate_whole(2), 0, "more than there are");
    assert_close(evaluate_now(2, SIZE_MAX / 2 + 2, tokens), evaluate_whole(2), 0, "far more than there are");
}

int main(void) {
#define EVALUATE_TEST(function) TEST_WITH(function, make, temporary_leave)
    return RUN_TESTS(EVALUATE_TEST(whole_split), EVALUATE_TEST(one_batch), EVALUATE_TEST(several_batches));
}
