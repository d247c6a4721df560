/* The statistics of attention where their values are known beforehand: scores with a closed form, and scores drawn from
   a normal distribution, whose expected entropy and largest weight are integrals. Queries and keys are put into the
   model by hand: with unit vectors for keys, k_j = e_j, a query's entries are its scores. Then those of a run. */
#include "training.h"

#include "model/measure.h"
#include "run/run.h"
#include "train/evaluate.h"

static Model model;

/* L = H = 2, B sequences of T; keys are unit vectors. */
static void make_model(size_t B, size_t T) {
    const ModelShape shape = {.T = T,
                              .C = 4,
                              .attention = {.H = 2, .D = T, .multiplier = 0.25f},
                              .F = 4,
                              .V = 2,
                              .L = 2,
                              .pre_norm = true,
                              .tied = true};
    model_make(&model, &shape, B, 2, false);
    for (size_t layer = 0; layer < 2; layer++)
        for (size_t row = 0; row < B * T; row++)
            for (size_t head = 0; head < 2; head++)
                model.blocks[layer].qkv.values[row * 6 * T + (2 + head) * T + row % T] = 1;
}

/* Entry `key` of the query of a row (sequence and position), such that the score is as asked: the multiplier is exact.
 */
static void set_score(size_t pair, size_t row, size_t key, double score) {
    const size_t T = model.shape.T;
    model.blocks[pair / 2].qkv.values[row * 6 * T + (pair % 2) * T + key] = (real)(4 * score);
}

/* Every query's own position has score G, all others have 0. G = 0 is uniform, a great G one-hot. With x = (n-1) e^-G
   and n keys: p = 1 / (1 + x) for the one, H = ln(1 + x) + G x / (1 + x). */
static void one_key_stands_out(void **state) {
    (void)state;
    enum { B = 2, T = 70 };
    static const double heights[] = {0, 1.5, 1000, -3};
    HeadStatistics got[4];
    make_model(B, T);
    for (size_t pair = 0; pair < 4; pair++)
        for (size_t row = 0; row < B * T; row++) set_score(pair, row, row % T, heights[pair]);
    measure_heads(&model, B, T, got);
    for (size_t pair = 0; pair < 4; pair++) {
        const double G = heights[pair], share = 2.0 / (T + 1); /* of the visible entries */
        double entropy = 0, max_weight = 0;
        for (size_t n = 2; n <= T; n++) {
            double x = (double)(n - 1) * exp(-G);
            entropy += (log1p(x) + G * x / (1 + x)) / log((double)n) / (T - 1);
            max_weight += fmax(1, exp(-G)) / (1 + x) / (T - 1);
        }
        assert_close(got[pair].score_std, fabs(G) * sqrt(share * (1 - share)), 1e-12 * fabs(G), "score_std, %g", G);
        assert_close(got[pair].score_max, fmax(G, 0), 0, "score_max, %g", G);
        assert_close(got[pair].entropy, entropy, 1e-12, "entropy, %g", G);
        assert_close(got[pair].max_weight, max_weight, 1e-12, "max_weight, %g", G);
    }
    assert_true(got[2].entropy == 0 && got[2].max_weight == 1);
}

/* Expected values over S = sum of n terms e^(s x_j), x_j ~ N(0, 1): with g = e^(s x - u), L(u) = E e^-g,
   M1(u) = E g e^-g and M2(u) = E g^2 e^-g,
       E ln S = int exp(-e^-u) - L^n du               (Frullani: ln S = int_0^inf (e^-t - e^-tS) / t dt, t = e^-u)
       E sum p_j^2 = n int M2 L^(n-1) du              (1 / S^2 = int_0^inf t e^-tS dt)
       E sum p_j s x_j = s^2 (1 - E sum p_j^2)        (Stein: E x f(x) = E f'(x))
   and H = ln S - sum p_j s x_j. `entropy` gets E H / ln n for n = 2 .. keys. All integrands are smooth and vanish at
   both ends, where the trapezoidal rule is exact but for rounding; that E sum p_j = n int M1 L^(n-1) du is 1 shows it.
 */
static void expected_entropies(double s, size_t keys, double *entropy) {
    const double step_x = fmin(0.05, 0.1 / s), step_u = 0.1, reach = 8.5;
    double log_sum[32] = {0}, squares[32] = {0}, one[32] = {0};
    for (double u = -s * reach - 8; u < s * reach + 40; u += step_u) {
        double L = 0, M1 = 0, M2 = 0;
        for (double x = -reach; x < reach; x += step_x) {
            double g = exp(s * x - u), density = exp(-x * x / 2 - g) * step_x / sqrt(2 * M_PI);
            L += density;
            M1 += g * density;
            M2 += g * g * density;
        }
        for (size_t n = 2; n <= keys; n++) {
            double others = pow(L, (double)n - 1);
            log_sum[n] += (exp(-exp(-u)) - others * L) * step_u;
            one[n] += (double)n * M1 * others * step_u;
            squares[n] += (double)n * M2 * others * step_u;
        }
    }
    for (size_t n = 2; n <= keys; n++) {
        assert_close(one[n], 1, 1e-9, "quadrature for %zu keys, s = %g", n, s);
        entropy[n] = (log_sum[n] - s * s * (1 - squares[n])) / log((double)n);
    }
}

/* The scores of two keys differ by d ~ N(0, 2 s^2), so the larger weight is 1 / (1 + e^-|d|). Computes the means and
   standard deviations of that and of the entropy over ln 2. */
typedef struct {
    double weight, weight_std, entropy, entropy_std;
} TwoKeys;
static TwoKeys expected_of_two(double s) {
    const double step = 1e-3;
    double m[4] = {0};
    for (double x = step / 2; x < 9; x += step) { /* |d| = sqrt(2) s x, x half-normal */
        double density = sqrt(2 / M_PI) * exp(-x * x / 2) * step, d = M_SQRT2 * s * x;
        double p = 1 / (1 + exp(-d)), H = (log1p(exp(-d)) + d * (1 - p)) / M_LN2;
        m[0] += density * p, m[1] += density * p * p, m[2] += density * H, m[3] += density * H * H;
    }
    return (TwoKeys){m[0], sqrt(m[1] - m[0] * m[0]), m[2], sqrt(m[3] - m[2] * m[2])};
}

static const double SPREADS[] = {0.3, 1, 3, 8};

/* Draws the scores of each pair (layer, head) from N(0, s^2), with s of its own. */
static void draw_scores(size_t part, size_t B, size_t T) {
    make_model(B, T);
    for (size_t pair = 0; pair < 4; pair++) {
        Rng rng = rng_make(5, RNG_SAMPLE, (uint32_t)pair);
        for (size_t i = 0; i < B * T * T; i++)
            set_score(pair, i / T, i % T, SPREADS[pair] * rng_normal(&rng, part * B * T * T + i));
    }
}

/* Measures these scores over `parts` batches of B, which is as many as the model holds at a time. */
static void statistics_of_normal_scores(size_t parts, size_t B, size_t T, HeadStatistics mean[4]) {
    for (size_t pair = 0; pair < 4; pair++) mean[pair] = (HeadStatistics){.score_max = -INFINITY};
    for (size_t part = 0; part < parts; part++) {
        HeadStatistics got[4];
        const size_t mark = memory_mark();
        draw_scores(part, B, T);
        assert_int_equal(model_slice(&model.shape, B), B);
        measure_heads(&model, B, T, got);
        for (size_t pair = 0; pair < 4; pair++) {
            mean[pair].score_std += got[pair].score_std * got[pair].score_std / (double)parts;
            mean[pair].score_max = fmax(mean[pair].score_max, got[pair].score_max);
            mean[pair].entropy += got[pair].entropy / (double)parts;
            mean[pair].max_weight += got[pair].max_weight / (double)parts;
        }
        memory_release(mark);
    }
    for (size_t pair = 0; pair < 4; pair++) mean[pair].score_std = sqrt(mean[pair].score_std);
}

/* Five standard errors everywhere. That of a standard deviation is s / sqrt(2 N); of the mean of what lies between 0
   and 1, with mean m, at most sqrt(m (1 - m) / rows) (Bhatia and Davis 2000). */
static void normal_scores(void **state) {
    (void)state;
    enum { PARTS = 2, B = 512, T = 16 };
    const double count = B * T * (T + 1) / 2.0, rows = B * (T - 1), unlikely = 2.87e-7; /* five sigma, one-sided */
    HeadStatistics got[4];
    statistics_of_normal_scores(PARTS, B / PARTS, T, got);
    for (size_t pair = 0; pair < 4; pair++) {
        double s = SPREADS[pair], entropies[T + 1], entropy = 0;
        assert_close(got[pair].score_std, s, 5 * s / sqrt(2 * count), "score_std, s = %g", s);
        /* P(all N below x s) = Phi(x)^N is uniform on 0 .. 1. */
        double quantile = exp(count * log1p(-0.5 * erfc(got[pair].score_max / s * M_SQRT1_2)));
        assert_that(quantile > unlikely && quantile < 1 - unlikely, "score_max, s = %g: quantile %g", s, quantile);
        expected_entropies(s, T, entropies);
        assert_close(entropies[2], expected_of_two(s).entropy, 1e-6, "two ways to integrate, s = %g", s);
        for (size_t n = 2; n <= T; n++) entropy += entropies[n] / (T - 1);
        assert_close(got[pair].entropy, entropy, 5 * sqrt(entropy * (1 - entropy) / rows), "entropy, s = %g", s);
    }
}

static void two_normal_scores(void **state) {
    (void)state;
    enum { PARTS = 20, B = 40000 };
    HeadStatistics got[4];
    statistics_of_normal_scores(PARTS, B / PARTS, 2, got);
    for (size_t pair = 0; pair < 4; pair++) {
        double s = SPREADS[pair];
        TwoKeys expected = expected_of_two(s);
        assert_close(got[pair].max_weight, expected.weight, 5 * expected.weight_std / sqrt(B), "max_weight, s = %g", s);
        assert_close(got[pair].entropy, expected.entropy, 5 * expected.entropy_std / sqrt(B), "entropy, s = %g", s);
    }
}

/* Compares one step's lines of attention.csv with the model as it stands, on the fixed batch, to the last digit. */
static const char *check_lines(Model *m, size_t B, const int32_t *tokens, size_t step, const char *line) {
    HeadStatistics heads[4];
    model_forward(m, &(Batch){.tokens = tokens, .B = B, .T = m->shape.T});
    measure_heads(m, B, m->shape.T, heads);
    for (size_t i = 0; i < 4; i++) {
        char expected[256];
        int length =
            snprintf(expected, sizeof expected, "%zu,%zu,%zu,%.6g,%.6g,%.6g,%.6g,%.6g,", step, i / 2, i % 2,
                     heads[i].score_std, heads[i].score_max, heads[i].entropy, heads[i].max_weight, heads[i].saturated);
        assert_that(strncmp(line, expected, (size_t)length) == 0, "%.80s is not %s", line, expected);
        line += strcspn(line, "\n") + 1; /* the rest is gradients: test_gradients_measure.c */
    }
    return line;
}

static void a_run_writes_them(void **state) {
    (void)state;
    static Run run;
    CONFIGURE("model.layers=2", "train.steps=8", "model.dropout=0.2", "log.attention_every=0", "train.batch=5");
    train("run", 2);
    run_open(&run, in("run"), NULL, 0, false);
    run_load_model(&run, &model, 0, 2);
    const Corpus corpus = corpus_load(in("corpus.txt"), NULL, 0.2, 16);
    int32_t tokens[5 * 16], targets[5 * 16];
    size_t B = validation_batch(&corpus, 5, 16, tokens, targets);
    real *last = copied_reals(model.parameters, model.tensors.flat);
    const char *line = contents(in("run/attention.csv"), NULL);
    line += strcspn(line, "\n") + 1;
    tensors_initialize(&model.tensors, &model.shape, INIT_UNIT, 1, model.threads, model.parameters);
    line = check_lines(&model, B, tokens, 0, line);
    memcpy(model.parameters, last, model.tensors.flat * sizeof *last);
    line = check_lines(&model, B, tokens, 8, line);
    assert_string_equal(line, "");
}

int main(void) {
#define STATISTICS_TEST(function) cmocka_unit_test_setup_teardown(function, temporary_enter, temporary_leave)
    const struct CMUnitTest tests[] = {
        STATISTICS_TEST(one_key_stands_out),
        STATISTICS_TEST(normal_scores),
        STATISTICS_TEST(two_normal_scores),
        STATISTICS_TEST(a_run_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
