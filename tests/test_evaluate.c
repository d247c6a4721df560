/* The validation loss against the mean over characters, worked out one window at a time from the logits alone. The
   corpus is a row of characters that are all different: ids are places. And the measurement of --swap-qk, against
   models that are put together here. */
#include "temporary.h"

#include <signal.h>

#include "base/interrupt.h"
#include "data/corpus.h"
#include "model/probe.h"
#include "train/evaluate.h"
#include "train/swap_qk.h"

enum { T = 6, VALIDATION = 45, COUNT = 105 };

static Corpus corpus;
static Model model;

static int make(void **state) {
    Error err;
    char text[COUNT * 4], *end = text;
    if (temporary_enter(state) != 0) return 1;
    for (uint32_t i = 0; i < COUNT; i++) end += utf8_encode(0x4E00 + i, end);
    return corpus_load(&corpus, put("corpus.txt", text, (size_t)(end - text)), NULL, 0.3, T, &err) ? 0 : 1;
}
/* Another share for validation, of the same characters. */
static void split_at(size_t validation) { corpus.train = corpus.count - validation; }

static void make_model(size_t batch, size_t threads) {
    const ModelShape shape = {
        .T = T,
        .C = 16,
        .attention = {.H = 2, .D = 8, .multiplier = (real)0.3, .qk_init_scale = 1, .qk_lr_scale = 1},
        .F = 32,
        .V = COUNT,
        .L = 2,
        .pre_norm = true,
        .bias = true};
    Error err;
    assert_true(model_make(&model, &shape, batch, threads, false, &err));
    tensors_initialize(&model.tensors, &shape, INIT_UNIT, 3, model.threads, model.parameters);
    real *head = tensor_at(&model.tensors, model.parameters, LM_HEAD, 0);
    for (size_t i = 0; i < COUNT * 16; i++) head[i] *= 50; /* so that losses differ between characters */
}
static int clear(void **state) {
    model_free(&model);
    corpus_free(&corpus);
    return temporary_leave(state);
}

/* Sum of the losses of `length` characters after place `at`. */
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

static double evaluate_now(size_t batch, size_t batches, int32_t *tokens) {
    int32_t *targets = kept(calloc(batch * T, sizeof *targets));
    const Evaluation e = evaluate(&model, &corpus, batch, batches, tokens, targets);
    assert_true(e.complete && isnan(e.accuracy));
    for (size_t i = 0; i < batch * T; i++)
        if (tokens[i]) assert_int_equal(targets[i], tokens[i] + 1);
    return e.loss;
}

static double evaluate_whole(size_t batch) { return evaluate_now(batch, 0, kept(calloc(batch * T, sizeof(int32_t)))); }

/* Every character but the first weighs the same, also in a last window that is shorter. */
static void whole_split(void **state) {
    (void)state;
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
        model_free(&model);
    }
}

/* Full windows only, at even distances: at multiples of T, the steps between them equal or one apart. */
static void check_distances(const int32_t *tokens, const int32_t *targets, size_t count, size_t whole) {
    size_t least = whole, most = 0;
    for (size_t b = 0; b < count; b++) {
        size_t at = (size_t)tokens[b * T] - corpus.train, window = at / T;
        assert_true(at % T == 0 && window < whole);
        for (size_t t = 0; t < T; t++) {
            assert_int_equal(tokens[b * T + t], tokens[b * T] + (int32_t)t);
            if (targets) assert_int_equal(targets[b * T + t], tokens[b * T] + (int32_t)t + 1);
        }
        if (b == 0) continue;
        size_t step = window - ((size_t)tokens[(b - 1) * T] - corpus.train) / T;
        least = step < least ? step : least;
        most = step > most ? step : most;
    }
    if (count > 1) assert_true(least >= 1 && most - least <= 1 && most >= whole / count);
}

static void one_batch(void **state) {
    (void)state;
    make_model(8, 1);
    for (size_t validation = T + 1; validation <= VALIDATION; validation++) {
        split_at(validation);
        size_t whole = (validation - 1) / T;
        for (size_t batch = 1; batch <= 8 && batch <= whole; batch++) {
            int32_t *tokens = kept(calloc(batch * T, sizeof *tokens));
            double loss = evaluate_now(batch, 1, tokens), sum = 0;
            check_distances(tokens, NULL, batch, whole);
            for (size_t b = 0; b < batch; b++) sum += losses_from((size_t)tokens[b * T], T);
            assert_close(loss, sum / (double)(batch * T), 2e-6 * loss, "%zu of %zu windows", batch, whole);
            assert_close(evaluate_now(batch, 1, tokens), loss, 0, "the second time");
            support_release(NULL);
        }
    }
}

/* N batches that are every full window: the shorter one after them is not among them. More than there are: the whole
   split. */
static void several_batches(void **state) {
    (void)state;
    make_model(2, 1);
    split_at(6 * T + 4); /* six full windows and one of three */
    int32_t *tokens = kept(calloc(2 * T, sizeof *tokens));
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

static void fixed_batch(void **state) {
    (void)state;
    for (size_t validation = T + 1; validation <= VALIDATION; validation++) {
        split_at(validation);
        size_t whole = (validation - 1) / T;
        for (size_t batch = 1; batch <= 9; batch++) {
            int32_t *tokens = kept(calloc(batch * T, sizeof *tokens)),
                    *targets = kept(calloc(batch * T, sizeof *targets));
            size_t count = validation_batch(&corpus, batch, T, tokens, targets);
            assert_int_equal(count, batch < whole ? batch : whole);
            check_distances(tokens, targets, count, whole);
        }
    }
}

/* A trained model is here one of another seed; run_of_seed_3 says what its initial one is. */
static real *parameters_of_seed(uint64_t seed) {
    real *flat = reals(model.tensors.flat);
    tensors_initialize(&model.tensors, &model.shape, INIT_TORCH, seed, 1, flat); /* with biases */
    return flat;
}
static const Run *run_of_seed_3(void) {
    static Run run;
    run = (Run){.corpus = corpus};
    run.config.model.init = INIT_TORCH;
    run.config.train.seed = 3;
    return &run;
}

/* Where --swap-qk has other numbers: attention's columns 0 .. 31 of 48. */
static bool is_q_or_k(size_t i) {
    for (size_t n = 0; n < model.tensors.count; n++) {
        const Tensor *t = &model.tensors.items[n];
        if (i >= t->offset && i < t->offset + t->count)
            return strstr(t->name, "attn.c_attn.") && (i - t->offset) % 48 < 32;
    }
    return false;
}

static void swapped_parameters(void **state) {
    (void)state;
    make_model(4, 1);
    const size_t count = model.tensors.flat;
    const real *a = parameters_of_seed(3), *b = parameters_of_seed(4);
    real *x = copied_reals(a, count), *y = copied_reals(b, count);
    size_t swapped = 0;
    swap_qk(&model.tensors, x, y);
    for (size_t i = 0; i < count; i++) {
        const bool other = is_q_or_k(i);
        assert_that(x[i] == (other ? b : a)[i] && y[i] == (other ? a : b)[i], "number %zu", i);
        swapped += other && a[i] != b[i];
    }
    assert_int_equal(swapped, 2 * (16 + 1) * 32); /* layers, rows of the weight and the bias, columns */
    swap_qk(&model.tensors, x, y);
    assert_memory_equal(x, a, count * sizeof *x);
    assert_memory_equal(y, b, count * sizeof *y);
}

/* The scores' standard deviations of a model that has the parameters `rest`, but queries and keys of `qk`. */
static void measure_plainly(const real *rest, const real *qk, double norms[4], HeadStatistics heads[4]) {
    int32_t tokens[4 * T], targets[4 * T];
    for (size_t i = 0; i < model.tensors.flat; i++) model.parameters[i] = is_q_or_k(i) ? qk[i] : rest[i];
    const size_t B = validation_batch(&corpus, 4, T, tokens, targets);
    model_forward(&model, &(Batch){tokens, NULL, B, T});
    probe_statistics(&model, B, T, heads);
    probe_qk_norms(&model, norms);
}

static void swapped_scores(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    bool complete = false;
    Error err;
    make_model(4, 2);
    const real *initial = parameters_of_seed(3), *trained = parameters_of_seed(4);
    char expected[1024] = "layer,head,qk_norm_initial,qk_norm_trained,score_std_initial,score_std_trained,"
                          "score_std_initial_qk,score_std_trained_qk\n";
    double norms[4][4];
    HeadStatistics heads[4][4];
    measure_plainly(initial, initial, norms[0], heads[0]);
    measure_plainly(trained, initial, norms[2], heads[2]);
    measure_plainly(initial, trained, norms[3], heads[3]);
    measure_plainly(trained, trained, norms[1], heads[1]);
    for (size_t i = 0; i < 4; i++)
        text_append(expected, sizeof expected, "%zu,%zu,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n", i / 2, i % 2, norms[0][i],
                    norms[1][i], heads[0][i].score_std, heads[1][i].score_std, heads[2][i].score_std,
                    heads[3][i].score_std);
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_true(swap_qk_measure(run_of_seed_3(), &model, out, &complete, &err));
    assert_int_equal(fclose(out), 0);
    assert_true(complete);
    assert_string_equal(text, expected);
    assert_memory_equal(model.parameters, trained, model.tensors.flat * sizeof *trained);
    free(text);
}

/* The last test: a signal stays caught. */
static void swapped_scores_cut_short(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    bool complete = true;
    Error err;
    make_model(4, 1);
    const real *before = copied_reals(model.parameters, model.tensors.flat);
    interrupt_catch();
    assert_int_equal(raise(SIGTERM), 0);
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_true(swap_qk_measure(run_of_seed_3(), &model, out, &complete, &err));
    assert_int_equal(fclose(out), 0);
    assert_false(complete);
    assert_int_equal(size, 0);
    assert_memory_equal(model.parameters, before, model.tensors.flat * sizeof *before);
    free(text);
}

int main(void) {
#define EVALUATE_TEST(function) cmocka_unit_test_setup_teardown(function, make, clear)
    const struct CMUnitTest tests[] = {
        EVALUATE_TEST(whole_split),
        EVALUATE_TEST(one_batch),
        EVALUATE_TEST(several_batches),
        EVALUATE_TEST(fixed_batch),
        EVALUATE_TEST(swapped_parameters),
        EVALUATE_TEST(swapped_scores),
        EVALUATE_TEST(swapped_scores_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
