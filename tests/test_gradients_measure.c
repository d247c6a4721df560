/* The gradient norms of attention.csv: against sums over the gradients that the backward pass computes, over every row,
   for any number of threads; without dropout; of the sum of the losses. */
#include "model_case.h"

#include "base/statistics.h"
#include "model/measure.h"

enum { HEADS = 4, ROWS = 3 * 7 };

/* Computes the gradients of the sum of the losses, without dropout. */
static void sum_gradients(Setup *u) {
    model_pass(
        &u->model, &u->batch,
        &(Pass){.with_backward = true, .zero_gradients = true, .batch_weight = (double)batch_targets(&u->batch)});
}

static void check_norms(const NormStatistics *got, double *norms, size_t n, const char *name, size_t head) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += norms[i], squares += norms[i] * norms[i];
    sort_numbers(norms, n);
    assert_int_equal(n, 18); /* so the median and both quantiles are between two norms */
    const double expected[] = {sum / 18, sqrt(squares / 18), (norms[8] + norms[9]) / 2, .3 * norms[1] + .7 * norms[2],
                               .17 * norms[16] + .83 * norms[17]};
    const double values[] = {got->mean, got->rms, got->median, got->p10, got->p99};
    for (size_t i = 0; i < 5; i++) {
        assert_true(values[i] > 0);
        assert_close(values[i], expected[i], 1e-12 * norms[17], "%s of head %zu, statistic %zu", name, head, i);
    }
}

static void norms_of_every_row(void **state) {
    (void)state;
    for (size_t threads = 1; threads <= 5; threads += 2) { /* five: sequences are split */
        Setup u;
        const Case c = {
            .name = "norms", .threads = threads, .dropout = .4, .divisor = {.mode = SCALE_NUMBER, .number = 3}};
        setup(&u, &c, true);
        const ModelShape *s = &u.model.shape;
        const size_t T = s->T, D = s->attention.D, HD = s->attention.H * D;
        GradientStatistics got[HEADS];
        for (size_t layer = 0; layer < 2; layer++) { /* which share these arrays, unless each has its own */
            u.model.blocks[layer].att.gradient = filled_reals(ROWS * HD, NAN);
            u.model.blocks[layer].qkv.gradient = filled_reals(ROWS * 3 * HD, NAN);
        }
        measure_gradients(&u.model, &u.batch, reals(measure_gradients_scratch(s, u.batch.B)), got);
        real *measured = copied_reals(u.model.blocks[0].qkv.gradient, ROWS * 3 * HD);
        sum_gradients(&u);
        assert_all_close(u.model.blocks[0].qkv.gradient, measured, ROWS * 3 * HD, 1e-12, "gradients of the sum");

        for (size_t i = 0; i < HEADS; i++) {
            const Block *block = &u.model.blocks[i / 2];
            const size_t head = i % 2;
            double query[ROWS], scores[ROWS];
            size_t n = 0;
            for (size_t row = 0; row < ROWS; row++) {
                const size_t t = row % T, start = row - t;
                const real *q = block->qkv.values + row * 3 * HD + head * D;
                const real *dout = block->att.gradient + row * HD + head * D;
                double e[7], dp[7], sum = 0, mean = 0, squares = 0;
                if (t == 0) continue;
                for (size_t j = 0; j <= t; j++) {
                    const real *k = block->qkv.values + (start + j) * 3 * HD + HD + head * D;
                    e[j] = exp(dot(q, k, D) / 3);
                    dp[j] = dot(dout, k + HD, D);
                    sum += e[j];
                }
                for (size_t j = 0; j <= t; j++) mean += e[j] / sum * dp[j];
                for (size_t j = 0; j <= t; j++) squares += pow(e[j] / sum * (dp[j] - mean), 2);
                const real *dq = block->qkv.gradient + row * 3 * HD + head * D;
                query[n] = sqrt(dot(dq, dq, D));
                scores[n++] = sqrt(squares);
            }
            check_norms(&got[i].query, query, n, "dq", i);
            check_norms(&got[i].scores, scores, n, "ds", i);
        }
        teardown(&u);
    }
}

static void one_position(void **state) {
    (void)state;
    Setup u;
    const Case c = {.name = "one position", .T = 1};
    GradientStatistics got[HEADS];
    setup(&u, &c, true);
    measure_gradients(&u.model, &u.batch, reals(measure_gradients_scratch(&u.model.shape, u.batch.B)), got);
    for (size_t i = 0; i < HEADS; i++) assert_true(isnan(got[i].query.mean) && isnan(got[i].scores.p99));
    teardown(&u);
}

/* A model that has diverged has NaN for its norms, not a number that comes from sorting NaN. */
static void not_finite(void **state) {
    (void)state;
    Setup u;
    const Case c = {.name = "diverged", .T = 6};
    GradientStatistics got[HEADS];
    setup(&u, &c, true);
    tensor_at(&u.model.tensors, u.model.parameters, WPE, 0)[0] = NAN;
    measure_gradients(&u.model, &u.batch, reals(measure_gradients_scratch(&u.model.shape, u.batch.B)), got);
    for (size_t i = 0; i < HEADS; i++)
        assert_true(isnan(got[i].query.mean) && isnan(got[i].query.p10) && isnan(got[i].scores.median));
    teardown(&u);
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    const struct CMUnitTest tests[] = {TEST(norms_of_every_row), TEST(one_position), TEST(not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
