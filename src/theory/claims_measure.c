/* What is measured of each claim: a line for each kind of figure, and the functions that these lines name. */
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "base/interrupt.h"
#include "base/rng.h"
#include "base/text.h"
#include "model/attention.h"
#include "theory/claims.h"

enum { DK_MAX = 1024, KEYS_MAX = 64, ROWS_MAX = 200000 };

/* A row of scores s, divided, and their weights p (n). */
typedef ClaimRow Row;
struct ClaimRow {
    size_t n, key; /* `key`: which one the figures of a single key are about */
    double limit;  /* the largest number of the format that overflows */
    double s[KEYS_MAX], p[KEYS_MAX];
    SoftmaxRow weights;
};

/* --- Quantities of a row; percentages of a whole row are 0 or 100 */

static double mean_power(const Row *r, double power) {
    double sum = 0;
    for (size_t j = 0; j < r->n; j++) sum += pow(r->s[j], power);
    return sum / (double)r->n;
}
double claim_score(const Row *r) { return mean_power(r, 1); }
double claim_square(const Row *r) { return mean_power(r, 2); } /* its mean is the variance, as scores have mean 0 */
static double fourth_power(const Row *r) { return mean_power(r, 4); }

static double percent_inside(const Row *r) { /* -1..1 */
    double count = 0;
    for (size_t j = 0; j < r->n; j++) count += fabs(r->s[j]) <= 1;
    return 100 * count / (double)r->n;
}
static double largest_score(const Row *r) { return r->s[r->weights.top]; }
static double overflow(const Row *r) { return largest_score(r) > r->limit ? 100 : 0; }
/* The sum of exp is exp(largest) over the largest weight; with the largest score subtracted, 1 over that weight. */
static double exp_overflow(const Row *r) { return exp(largest_score(r)) / r->weights.max_weight > r->limit ? 100 : 0; }
static double safe_exp_overflow(const Row *r) { return 1 / r->weights.max_weight > r->limit ? 100 : 0; }

static double entropy(const Row *r) { return r->weights.entropy; }
static double evenness(const Row *r) { return r->weights.entropy / log((double)r->n); }
static double max_weight(const Row *r) { return r->weights.max_weight; }

static double percent_steep(const Row *r) { /* weights whose derivative p (1 - p) is above 0.01 */
    double count = 0;
    for (size_t j = 0; j < r->n; j++) count += r->p[j] * (1 - r->p[j]) > .01;
    return 100 * count / (double)r->n;
}

static double key_share(const Row *r) { return r->s[r->key] / claim_score(r) / (double)r->n; }
static double key_weight(const Row *r) { return r->p[r->key]; }
static double key_derivative(const Row *r) { return r->p[r->key] * (1 - r->p[r->key]); }

/* The largest change of a weight when the scores are rounded to bf16. */
static double bf16_change(const Row *r) {
    real rounded[KEYS_MAX];
    double p[KEYS_MAX], change = 0; /* the weights of the rounded scores */
    for (size_t j = 0; j < r->n; j++) rounded[j] = (real)r->s[j];
    round_scores(PRECISION_BF16, rounded, r->n, NULL);
    for (size_t j = 0; j < r->n; j++) p[j] = (double)rounded[j];
    softmax_row(p, r->n);
    for (size_t j = 0; j < r->n; j++) change = fmax(change, fabs(p[j] - r->p[j]));
    return change;
}

/* --- Rows */

static double dot(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Draws x (d_k + 1). Entries that correlate share the last number. Vectors begin at multiples of four numbers. */
static void draw_vector(const Rng *rng, size_t index, size_t d_k, double std, double correlation, double *x) {
    rng_fill_normal(rng, index * ((d_k + 4) / 4 * 4), d_k + 1, x);
    const double shared = sqrt(correlation) * x[d_k], own = sqrt(1 - correlation);
    for (size_t i = 0; i < d_k; i++) x[i] = (std > 0 ? std : 1) * (shared + own * x[i]);
}

static void draw_row(const Rng *rng, const ClaimLine *line, size_t d_k, double divisor, size_t row, Row *r) {
    const size_t matrix = row / (line->queries ? line->queries : 1);
    const double rest = sqrt(1 - line->alignment * line->alignment);
    double q[DK_MAX + 1], k[DK_MAX + 1];
    *r = (Row){.n = line->keys, .key = (d_k - 1) % line->keys, .limit = line->limit};
    draw_vector(rng, row, d_k, line->q_std, line->correlation, q);
    for (size_t j = 0; j < r->n; j++) {
        draw_vector(rng, line->rows + matrix * r->n + j, d_k, line->k_std, line->correlation, k);
        for (size_t i = 0; i < d_k; i++) k[i] = line->alignment * q[i] + rest * k[i];
        r->s[j] = (line->fixed ? line->fixed[j] : dot(q, k, d_k)) / divisor;
        if (line->score == THEORY_COSINE) r->s[j] /= sqrt(dot(q, q, d_k) * dot(k, k, d_k));
    }
    for (size_t j = 0; j < r->n; j++) r->p[j] = r->s[j];
    r->weights = softmax_row(r->p, r->n);
}

static double values[ROWS_MAX]; /* the quantity of each row */

/* Streams of random numbers below 2^31 are theory_measure's. */
static void measure_rows(const ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    const Rng rng = rng_make(test->seed, RNG_THEORY, 0x80000000u | (uint32_t)d_k);
#pragma omp parallel for num_threads((int)test->threads)
    for (size_t row = 0; row < line->rows; row++) {
        Row r;
        if (interrupt_signal()) continue;
        draw_row(&rng, line, d_k, divisor, row, &r);
        values[row] = line->of(&r);
    }
}

/* --- What a line can measure */

static Figure figure_of(Estimate e) { return (Figure){e.value, e.error, e.value - 5 * e.error, e.value + 5 * e.error}; }
static Figure exactly(double x) { return figure_of((Estimate){x, 0}); }

Figure claim_mean(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    measure_rows(test, line, d_k, divisor);
    return line->rows > 1 ? figure_of(estimate_mean(values, line->rows)) : exactly(values[0]);
}

static Figure largest(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    measure_rows(test, line, d_k, divisor);
    sort_numbers(values, line->rows);
    return exactly(values[line->rows - 1]);
}

/* Every ten rows are a matrix, which has their mean. Returns what 95 of 100 matrices have. */
static Figure matrix_mean(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    const size_t matrices = line->rows / 10;
    measure_rows(test, line, d_k, divisor);
    for (size_t m = 0; m < matrices; m++) values[m] = estimate_mean(values + 10 * m, 10).value;
    sort_numbers(values, matrices);
    return (Figure){NAN, NAN, quantile(values, matrices, .025), quantile(values, matrices, .975)};
}

static Figure theory(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    const TheoryScoring scoring = {{SCALE_NUMBER, divisor}, line->score};
    TheoryFigures figures = {0};
    theory_measure(d_k, line->keys, line->rows, test->seed, test->threads, &scoring, 1, &figures);
    return figure_of(*(const Estimate *)((const char *)&figures + line->place));
}

/* The weights of attention in d_model 512, with `keys` heads. */
static Figure parameters(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    const AttentionConfig attention = {.H = line->keys, .D = d_k};
    (void)test, (void)divisor;
    return exactly(512 * (double)(attention_width_in(&attention) + attention_width_out(&attention)));
}

/* --- The lines, formatted by hand */
/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): parts of initializers take none */

#define NONE .divisor = {.mode = SCALE_NONE}
#define ROOT .divisor = {.mode = SCALE_SQRT_DK}
#define BOTH NONE, .both = true
#define D_K .divisor = {.mode = SCALE_DK}
#define TWO_ROOT .divisor = {.mode = SCALE_2SQRT_DK}
#define BY(x) .divisor = {SCALE_NUMBER, x}
#define SAID(tolerance, ...) \
    .within = tolerance, .said = {__VA_ARGS__}, .said_count = sizeof((double[]){__VA_ARGS__}) / sizeof(double)
#define OVERFLOWS SAID(99.99, 100) /* any, not all */
#define FP16 .limit = 65504
#define FIXED(...) .fixed = (const double[]){__VA_ARGS__}
#define MARKS FIXED(10, 80, 500, 4000, 20000)
#define LARGE FIXED(-24, -10, 0, 10, 24)
#define SMALL FIXED(-3, -1, 0, 1, 3)
#define FIVE {1, 2, 3, 4, 5}
#define THEORY(figure) .place = offsetof(TheoryFigures, figure)
#define ADDITIVE .score = THEORY_ADDITIVE
#define COSINE .score = THEORY_COSINE

/* Claim, label, what is measured, of what; keys, rows, each d_k, the divisor; what is said. */
static const ClaimLine LINES[] = {
    {1, "q·k", claim_mean, claim_score, 1, 1, {3}, BOTH, SAID(.01, .61, .35), FIXED(.5 * -.7 + -.3 * .4 + 1.2 * .9)},
    {1, "variance over 100000 random pairs", claim_mean, claim_square, 1, 100000, {3}, BOTH, SAID(0, 3, 1)},
    {2, "marks over their sum", claim_mean, key_share, 5, 1, FIVE, NONE, SAID(.0001, .00009, .00072, .0045, .036, .18), MARKS},
    {2, "softmax", claim_mean, key_weight, 5, 1, FIVE, NONE, MARKS},
    {2, "after dividing by √5 the last is", claim_mean, key_weight, 5, 1, {5}, ROOT, MARKS},
    {2, "p(1-p) is", claim_mean, key_derivative, 5, 1, FIVE, NONE, SAID(1e-6, 0, 0, 0, 0), MARKS},
    {3, "of 64000 scores at d_k 64, divided by 8, percent in -1..1:", claim_mean, percent_inside, 64, 1000, {64}, ROOT, SAID(.1, 100)},
    {3, "the largest is", largest, largest_score, 64, 1000, {64}, ROOT},
    {4, "softmax", claim_mean, key_weight, 5, 1, FIVE, NONE, SAID(.001, 0, 0, 0, 0, 1), LARGE},
    {5, "softmax", claim_mean, key_weight, 5, 1, FIVE, NONE, SAID(.001, .012, .089, .243, .661, .995), SMALL},
    {6, "p(1-p) in the row of claim 4 at most", claim_mean, key_derivative, 5, 1, {5}, NONE, SAID(.001, 0), LARGE},
    {6, "in the row of claim 5 at least", claim_mean, key_derivative, 5, 1, {1}, NONE, SMALL},
    {6, "at d_k 64, percent of the weights with more than 0.01: with 64 keys", claim_mean, percent_steep, 64, 1000, {64}, BOTH, SAID(1, 0, 100)},
    {6, "with 10 keys", claim_mean, percent_steep, 10, 1000, {64}, ROOT, SAID(1, 100)},
    {7, "entropy", claim_mean, entropy, 10, 4000, {16, 64, 256}, BOTH, SAID(.05, 2.1, .8, .2, 2.3, 2.3, 2.3)},
    {8, "mean of the rows' largest weights in 95 of 100 matrices", matrix_mean, max_weight, 10, 4000, {16, 64, 256}, BOTH, SAID(0, .342, .891, .998, .289, .276, .301), .queries = 10},
    {9, "10 keys, d_k 16 / 64 / 256 / 1024: mean", theory, NULL, 10, 2000, {16, 64, 256, 1024}, BOTH, SAID(.02, NAN, .86 / 4, .86 / 16, .86 / 64, .31, .31, .31, .31), THEORY(grad_mean)},
    {9, "root mean square", theory, NULL, 10, 2000, {16, 64, 256, 1024}, NONE, THEORY(grad_rms)},
    {9, "median", theory, NULL, 10, 2000, {16, 64, 256, 1024}, NONE, THEORY(grad_median)},
    {11, "variance of v·tanh(q + k), q and k in place of W1 q and W2 k: v of unit variance, 16 hidden units", theory, NULL, 10, 1000, {16}, BY(1 / 4.), ADDITIVE, THEORY(score_var)},
    {11, "512 hidden units", theory, NULL, 10, 1000, {512}, BY(1 / 22.627417), ADDITIVE, THEORY(score_var)},
    {11, "v of variance 1/units", theory, NULL, 10, 1000, {16, 512}, NONE, SAID(.05, .5, .5), ADDITIVE, THEORY(score_var)},
    {14, "d_k 1 / 4 / 64: variance", claim_mean, claim_square, 1, 200000, {1, 4, 64}, ROOT, SAID(0, 1, 1, 1)},
    {14, "fourth moment (of a normal number 3; exact 9 / 4.5 / 3.09)", claim_mean, fourth_power, 1, 200000, {1, 4, 64}, ROOT, SAID(0, 3, 3, 3)},
    {15, "variance of the divided scores with q twice as long (1 if normalized by what is measured)", claim_mean, claim_square, 16, 2000, {64}, ROOT, SAID(0, 1), .q_std = 2},
    {16, "d_k 1024: the largest of 19200 scores is", largest, largest_score, 64, 300, {1024}, NONE},
    {16, "percent of rows with one beyond a float's 3e+38:", claim_mean, overflow, 64, 300, {1024}, NONE, OVERFLOWS, .limit = FLT_MAX},
    {16, "percent of rows in which exp of the bare scores overflows:", claim_mean, exp_overflow, 64, 300, {1024}, NONE, .limit = FLT_MAX},
    {16, "with the row's maximum subtracted:", claim_mean, safe_exp_overflow, 64, 300, {1024}, NONE, .limit = FLT_MAX},
    {17, "unit entries, d_k 1024: the largest of 12800 scores is", largest, largest_score, 64, 200, {1024}, NONE},
    {17, "percent of rows with one beyond fp16's 65504:", claim_mean, overflow, 64, 200, {1024}, NONE, OVERFLOWS, FP16},
    {17, "percent of rows (d_k 64, 64 keys) in which exp of bare scores overflows fp16:", claim_mean, exp_overflow, 64, 500, {64}, BOTH, FP16},
    {17, "percent of q·q (d_k 64) beyond it, with entries of deviation 1:", claim_mean, overflow, 1, 500, {64}, NONE, OVERFLOWS, FP16, .alignment = 1},
    {17, "of deviation 48:", claim_mean, overflow, 1, 500, {64}, NONE, OVERFLOWS, FP16, .alignment = 1, .q_std = 48},
    {17, "of deviation 48, q divided by 8 first:", claim_mean, overflow, 1, 500, {64}, ROOT, FP16, .alignment = 1, .q_std = 48},
    {17, "bf16 has a float's range but 8 bits: the worst weight of a row is off by", claim_mean, bf16_change, 64, 500, {64}, BOTH},
    {18, "d_k 64, 64 keys: variance", claim_mean, claim_square, 64, 1000, {64}, D_K, SAID(0, 1 / 64.)},
    {18, "entropy as a share of the possible", claim_mean, evenness, 64, 1000, {64}, D_K, SAID(.01, 1)},
    {18, "divided by √d_k", claim_mean, evenness, 64, 1000, {64}, ROOT},
    {19, "d_k 64, 64 keys: variance", claim_mean, claim_square, 64, 1000, {64}, TWO_ROOT, SAID(0, .25)},
    {19, "entropy as a share of the possible", claim_mean, evenness, 64, 1000, {64}, TWO_ROOT},
    {19, "divided by √d_k", claim_mean, evenness, 64, 1000, {64}, ROOT},
    {21, "largest weight", claim_mean, max_weight, 8, 4000, {32, 128, 512}, BOTH},
    {21, "entropy", claim_mean, entropy, 8, 4000, {32, 128, 512}, BOTH, SAID(.43, .43, .43, .43) /* 0 to half of 1.72 */},
    {23, "49 keys, d_k 768, divided by √768: variance with unit entries", claim_mean, claim_square, 49, 100, {768}, ROOT},
    {23, "where the image's have deviation 4 (exact 16)", claim_mean, claim_square, 49, 100, {768}, ROOT, SAID(0, 1), .k_std = 4},
    {23, "where the entries of a vector correlate by 0.1 (exact 8.7)", claim_mean, claim_square, 49, 100, {768}, ROOT, SAID(0, 1), .correlation = .1},
    {24, "d_k 64, 32 keys, undivided scores: entropy, whatever V is,", claim_mean, entropy, 32, 1000, {64}, NONE, SAID(0, .5)},
    {24, "median of ‖dL/dq‖, proportional to V,", theory, NULL, 32, 1000, {64}, NONE, THEORY(grad_median)},
    {25, "d_k 64, 64 keys: entropy of divided scores", claim_mean, entropy, 64, 1000, {64}, ROOT},
    {25, "of cosines", claim_mean, entropy, 64, 1000, {64}, NONE, COSINE},
    {25, "of cosines times √d_k", claim_mean, entropy, 64, 1000, {64}, BY(1 / 8.), SAID(.05, 3.69), COSINE},
    {26, "8 heads of d_k 64 in d_model 512: variance over √64", claim_mean, claim_square, 64, 1000, {64}, ROOT, SAID(0, 1)},
    {26, "over √512", claim_mean, claim_square, 64, 1000, {64}, BY(22.627417)},
    {26, "entropy over √64", claim_mean, entropy, 64, 1000, {64}, ROOT},
    {26, "over √512", claim_mean, entropy, 64, 1000, {64}, BY(22.627417)},
    {27, "d_model 512: weights of 1 head of d_k 512", parameters, NULL, 1, 1, {512}, ROOT, SAID(0, 1048576)},
    {27, "8 heads of d_k 64 / 16 (the formula says 1048576 / 458752)", parameters, NULL, 8, 1, {64, 16}, ROOT, SAID(0, 1048576, 458752)},
    {29, "no translation; but with random q, k and 64 keys the entropy, as a share of the possible, is", claim_mean, evenness, 64, 1000, {128, 256, 512, 1024}, NONE},
    {30, "d_k 64 / 256 / 1024: keys that correlate with q by 0.5 score, over d_k,", claim_mean, claim_score, 8, 400, {64, 256, 1024}, D_K, SAID(0, .5, .5, .5), .alignment = .5},
    {30, "over √d_k", claim_mean, claim_score, 8, 400, {64, 256, 1024}, ROOT, .alignment = .5},
    {30, "variance of unrelated keys' scores, over d_k", claim_mean, claim_square, 8, 400, {64, 256, 1024}, D_K},
    {31, "entropy of q·k / √d_k", claim_mean, entropy, 64, 500, {64}, ROOT},
    {31, "with q and k ten times as long", claim_mean, entropy, 64, 500, {64}, ROOT, .q_std = 10, .k_std = 10},
    {31, "of cosines times √d_k", claim_mean, entropy, 64, 500, {64}, BY(1 / 8.), SAID(.05, 3.69), COSINE},
    {31, "with q and k ten times as long", claim_mean, entropy, 64, 500, {64}, BY(1 / 8.), SAID(.05, 3.69), COSINE, .q_std = 10, .k_std = 10},
};
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

/* A figure has the digits that its error leaves it: 0.75 ± 0.01. */
static void append_figure(Figure f, char *out, size_t size) {
    const int decimals = f.error > 0 ? (int)fmax(0, -floor(log10(f.error))) : 0;
    if (isnan(f.error)) text_append(out, size, "%.2f to %.2f", f.low, f.high);
    else if (f.error > 0) text_append(out, size, "%.*f ± %.*f", decimals, f.value, decimals, f.error);
    else text_append(out, size, f.value == floor(f.value) ? "%.0f" : "%.3g", f.value);
}

void claim_line(const ClaimLine *line, ClaimTest *test) {
    const size_t size = sizeof test->measured;
    const char *before = line->both ? " undivided " : " ";
    size_t i = 0;
    text_append(test->measured, size, "%s%s", *test->measured ? "; " : "", line->label);
    for (int divided = 0; divided <= line->both; divided++, before = ", divided ")
        for (const size_t *d_k = line->d_k; *d_k; d_k++, i++, before = " / ") {
            const double divisor = divided ? sqrt((double)*d_k) : divisor_value(line->divisor, *d_k);
            const double said = i < line->said_count ? line->said[i] : NAN;
            const Figure f = line->measure(test, line, *d_k, divisor);
            text_append(test->measured, size, "%s", before);
            append_figure(f, test->measured, size);
            test->said += isnan(said) ? 0 : 1;
            test->held += said >= f.low - line->within && said <= f.high + line->within;
        }
}

void claim_measure(size_t number, ClaimTest *test) {
    for (const ClaimLine *line = LINES; line < LINES + sizeof LINES / sizeof *LINES; line++)
        if (line->claim == number && !interrupt_signal()) claim_line(line, test);
    if (test->said > 1)
        text_append(test->measured, sizeof test->measured, "; %zu of %zu figures agree", test->held, test->said);
}
