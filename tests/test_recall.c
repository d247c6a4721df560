/* The recall task: what a record is and what it depends on; that answers alone count, in the loss, in the accuracy and
   in the batches' means; and that a run learns it, and is resumed to the bit. Its gradients are in
   test_gradients.c. */
#include "shapes.h"
#include "training.h"
#include "training_pass.h"

#include "data/recall.h"
#include "train/evaluate.h"

enum { B = 5, T = 21, PAIRS = 4, V = RECALL_VOCABULARY };

static Corpus corpus;
static Model model;

static int enter(void **state) {
    corpus = corpus_recall(PAIRS, NULL);
    return temporary_enter(state);
}

/* Reads a record as a person would, by its letters. */
static void check_record(const uint32_t *letters, const int32_t *tokens, const int32_t *targets, size_t pairs,
                         size_t length) {
    size_t answers = 0;
    for (size_t t = 0; t < length; t++) {
        const uint32_t letter = letters[tokens[t]];
        assert_true(t % 2 == 0 ? letter >= 'a' && letter <= 'z' : letter >= 'A' && letter <= 'Z');
        size_t first = t % 2;
        while (first < t && tokens[first] != tokens[t]) first += 2; /* where the letter was first */
        assert_true(t < 2 * pairs ? first == t : first < 2 * pairs);
        if (t % 2 && t >= 2 * pairs) assert_int_equal(tokens[t], targets[t - 1]);
        if (t % 2 == 0 && t >= 2 * pairs) assert_int_equal(targets[t], tokens[first + 1]), answers++;
        else assert_int_equal(targets[t], -1);
    }
    assert_int_equal(answers, recall_answers(pairs, length));
}

static void records(void) {
    static const size_t sizes[][2] = {{1, 3}, {2, 9}, {8, 17}, {8, 64}, {26, 53}, {26, 100}};
    int32_t tokens[100], targets[100], shorter[100], ignored[100];
    double asked[26] = {0}, queries = 0;
    assert_int_equal(corpus.vocabulary.count, V);
    for (size_t n = 0; n < COUNT_OF(sizes); n++)
        for (uint64_t number = 0; number < 300; number++) {
            const size_t pairs = sizes[n][0], length = sizes[n][1];
            recall_record(7, RNG_RECALL, number, pairs, length, tokens, targets);
            check_record(corpus.vocabulary.characters, tokens, targets, pairs, length);
            recall_record(7, RNG_RECALL, number, pairs, length - 1, shorter, ignored);
            assert_memory_equal(shorter, tokens, (length - 1) * sizeof *tokens);
            for (size_t t = 16; n == 3 && t < length; t += 2)
                for (size_t pair = 0; pair < pairs; pair++) asked[pair] += tokens[t] == tokens[2 * pair], queries++;
        }
    queries /= 8;
    for (size_t pair = 0; pair < 8; pair++) /* each as often as the others, within five standard deviations */
        assert_close(asked[pair], queries / 8, 5 * sqrt(queries * 7 / 64), "queries of pair %zu", pair);
}

/* A record depends on seed, purpose and number, a validation record not on the seed. */
static void what_a_record_depends_on(void) {
    int32_t batches[5][2][B * T], window[2][T], alone[2][T];
    corpus_training_batch(&corpus, 1, 0, B, T, batches[0][0], batches[0][1]);
    corpus_training_batch(&corpus, 1, 1, B, T, batches[1][0], batches[1][1]);
    corpus_training_batch(&corpus, 2, 0, B, T, batches[2][0], batches[2][1]);
    corpus_training_batch(&corpus, 0, 0, B, T, batches[3][0], batches[3][1]);
    corpus_training_batch(&corpus, 1, 0, B, T, batches[4][0], batches[4][1]);
    assert_memory_equal(batches[0], batches[4], sizeof batches[0]);
    for (size_t n = 0; n < 4 * B; n++) {
        for (size_t other = 0; other < n; other++)
            assert_true(
                memcmp(batches[n / B][0] + n % B * T, batches[other / B][0] + other % B * T, T * sizeof(int32_t)) != 0);
        assert_int_equal(corpus_window(&corpus, n, T, window[0], window[1]), T);
        check_record(corpus.vocabulary.characters, window[0], window[1], PAIRS, T);
        assert_true(memcmp(batches[3][0] + n % B * T, window[0], sizeof window[0]) != 0);
    }
    recall_record(1, RNG_RECALL, B + 2, PAIRS, T, alone[0], alone[1]);
    assert_memory_equal(alone[0], batches[1][0] + (size_t)2 * T, sizeof alone[0]);
    assert_memory_equal(alone[1], batches[1][1] + (size_t)2 * T, sizeof alone[1]);
    assert_true(corpus_windows(&corpus, T) == 16384 / T && corpus_windows(&corpus, 20000) == 1);

    char four[HASH_DIGITS], five[HASH_DIGITS];
    corpus_fingerprint(&corpus, four);
    corpus = corpus_recall(5, NULL);
    corpus_fingerprint(&corpus, five);
    assert_string_not_equal(four, five);
}

static void make_model(size_t batch) {
    const ModelShape shape = small_shape(T, 16, 2, 8, V);
    model_make(&model, &shape, batch, 1, true);
    tensors_initialize(&model.tensors, &shape, INIT_UNIT, 3, 1, model.parameters);
    real *head = tensor_at(&model.tensors, model.parameters, LM_HEAD, 0);
    for (size_t i = 0; i < (size_t)V * 16; i++) head[i] *= 50; /* so that losses differ between letters */
}

/* Computes loss and right answers of one record from its logits alone. */
static double by_hand(const int32_t *tokens, const int32_t *targets, size_t *right) {
    double sum = 0;
    model_forward(&model, &(Batch){tokens, NULL, 1, T});
    for (size_t t = 2 * (size_t)PAIRS; t < T; t += 2) {
        const real *z = model.logits.values + t * V;
        double total = 0;
        size_t best = 0;
        for (size_t v = 0; v < V; v++) {
            total += exp((double)z[v]);
            if (z[v] > z[best]) best = v;
        }
        sum += log(total) - (double)z[targets[t]];
        *right += best == (size_t)targets[t];
    }
    return sum;
}

static void answers_alone_count(void) {
    int32_t tokens[B * T], targets[B * T];
    double sum = 0;
    size_t right = 0, count = corpus_windows(&corpus, T);
    const double answers = (double)recall_answers(PAIRS, T);
    make_model(B);
    for (size_t i = 0; i < count; i++) {
        corpus_window(&corpus, i, T, tokens, targets);
        sum += by_hand(tokens, targets, &right);
    }
    const Evaluation e = evaluate(&(Engine){.model = &model, .tokens = tokens, .targets = targets}, &corpus, 0);
    assert_true(e.complete && e.targets == count * recall_answers(PAIRS, T) && right > 0);
    assert_close(e.loss, sum / (answers * (double)count), 1e-5 * e.loss, "validation loss");
    assert_close(e.accuracy, (double)right / (answers * (double)count), 1e-12, "accuracy");

    /* In training the loss is the mean over two batches' answers, and the gradients are those of that mean. */
    CONFIGURE("data.corpus=\"\"", "data.task=recall", "data.recall_pairs=4", "model.context=21", "train.batch=5",
              "train.accumulate=2");
    Engine engine;
    engine_make(&engine, ENGINE_FAST, 1, &model);
    const double loss = step_gradients(&engine, &corpus, &config, 3);
    sum = 0;
    for (uint64_t number = 6; number < 8; number++) {
        corpus_training_batch(&corpus, 1, number, B, T, tokens, targets);
        for (size_t b = 0; b < B; b++) sum += by_hand(tokens + b * T, targets + b * T, &right);
    }
    assert_close(loss, sum / (answers * 2 * B), 1e-5 * loss, "training loss");
    const real *once = copied_reals(model.gradients, model.tensors.flat);
    for (uint64_t i = 0; i < 2 * B; i++) { /* one record at a time */
        const size_t at = i % B * T;
        corpus_training_batch(&corpus, 1, 6 + i / B, B, T, tokens, targets);
        const Pass pass = training_pass(1, 6, 1. / (2 * B), i == 0);
        model_pass(&model, &(Batch){tokens + at, targets + at, 1, T}, &pass);
    }
    assert_all_close(model.gradients, once, model.tensors.flat, 1e-6, "gradients");
}

#define RECALL                                                                                                         \
    "data.corpus=\"\"", "data.task=recall", "data.recall_pairs=2", "model.context=16", "model.init=gpt2",              \
        "model.layers=2", "train.batch=32", "train.lr=5e-3", "train.min_lr=5e-3", "train.warmup=0",                    \
        "log.attention_every=0"

static void resumed_to_the_bit(void) {
    CONFIGURE(RECALL, "train.steps=20", "eval.every=10", "log.attention_every=10");
    train("whole", 1);
    CONFIGURE(RECALL, "train.steps=10", "eval.every=10", "log.attention_every=10");
    train("run", 1);
    resume_with_key("run", "train.steps=20");
    assert_same_run("run", "whole");
    set_text("run/config.ini", "recall_pairs = 2", "recall_pairs = 3");
    assert_refused("", resume_with_key("run", "train.steps=20"));
}

/* Four pairs: a guess is right a quarter of the time, at a loss of ln 4 = 1.39. An instrumented build runs the same
   lines in the test above. */
static void learns(void) {
    if (INSTRUMENTED) return;
    CONFIGURE("data.corpus=\"\"", "data.task=recall", "data.recall_pairs=4", "model.context=32", "model.layers=2",
              "model.heads=1", "model.d_model=64", "model.norm=post", "model.init=xavier", "train.batch=64",
              "train.lr=3e-3", "train.min_lr=3e-3", "train.warmup=100", "train.steps=250", "eval.every=250",
              "log.attention_every=0");
    train("run", 2);
    const Table *metrics = read_metrics("run");
    assert_true(first_of(metrics, METRICS_VAL_LOSS) > 3 && first_of(metrics, METRICS_VAL_ACCURACY) < 0.2);
    assert_that(last_of(metrics, METRICS_VAL_ACCURACY) > 0.8 && last_of(metrics, METRICS_VAL_LOSS) < 0.7,
                "accuracy %.3f, loss %.3f", last_of(metrics, METRICS_VAL_ACCURACY), last_of(metrics, METRICS_VAL_LOSS));
    assert_true(isnan(metrics->at[1][METRICS_VAL_ACCURACY]));
}

int main(void) {
    return RUN_TESTS(TEST_WITH(records, enter, temporary_leave),
                     TEST_WITH(what_a_record_depends_on, enter, temporary_leave),
                     TEST_WITH(answers_alone_count, enter, temporary_leave), TRAINING_TEST(resumed_to_the_bit),
                     TRAINING_TEST(learns));
}
