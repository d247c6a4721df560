/* ./train theory against mathematics that does not share a line with it: closed forms, quadrature in one to three
   dimensions for two keys, limits of flat and of saturated weights. Monte Carlo must be within five of its standard
   errors, and those errors must be right. Seeds are fixed, so a test that passes once passes always. For any number of
   keys lab/tests/theory_numpy.py has other random numbers, and lab/docs/claims.py --test exact integrals. */
#include "support.h"

#include "lab/theory/theory.h"

enum { FIGURES = 7, FOUR = THEORY_DIVISORS, OTHERS = THEORY_SCORINGS - THEORY_DIVISORS };
static const char *const NAMES[FIGURES] = {"score_mean", "score_var", "entropy",    "max_weight",
                                           "grad_mean",  "grad_rms",  "grad_median"};

static Estimate figure(const TheoryFigures *f, int i) {
    const Estimate all[FIGURES] = {f->score_mean, f->score_var, f->entropy,    f->max_weight,
                                   f->grad_mean,  f->grad_rms,  f->grad_median};
    return all[i];
}
#define assert_within(estimate, expected, ...)                                                                         \
    assert_close((estimate).value, expected, 5 * (estimate).error, __VA_ARGS__)

static void normals_in_blocks_are_the_numbers_one_by_one(void) {
    Rng rng = rng_make(3, RNG_THEORY, 5);
    double x[64];
    for (size_t first = 0; first < 9; first++)
        for (size_t count = 0; count < 40; count++) {
            theory_normals(&rng, first, count, x);
            for (size_t i = 0; i < count; i++)
                assert_close(x[i], rng_normal(&rng, first + i), 0, "number %zu of %zu from %zu", i, count, first);
        }
}

static void softmax_rows(void) {
    const double row[4] = {.5, -1, 2, .25};
    double p[4], e[4], sum = 0, entropy = 0;
    for (int j = 0; j < 4; j++) p[j] = .5 * row[j];
    SoftmaxRow r = softmax_row(p, 4);
    for (int j = 0; j < 4; j++) sum += e[j] = exp(.5 * row[j]);
    for (int j = 0; j < 4; j++) entropy -= e[j] / sum * log(e[j] / sum);
    for (int j = 0; j < 4; j++) assert_close(p[j], e[j] / sum, 1e-15, "weight %d", j);
    assert_close(r.entropy, entropy, 1e-14, "entropy");
    assert_close(r.max_weight, e[2] / sum, 1e-15, "largest weight");
    assert_int_equal(r.top, 2);
    /* Saturated: two keys 100 apart. 1 - p and the entropy, (1 + 100) e^-100, are not lost beside 1. */
    p[0] = 0, p[1] = -100;
    r = softmax_row(p, 2);
    assert_close(p[1], exp(-100), 1e-58, "what is left of a saturated row");
    assert_close(r.entropy, 101 * exp(-100), 1e-55, "its entropy");
}

/* Measures scorings of a d_k: `count` of them, from number `first` on. */
static void measure(size_t d_k, size_t keys, size_t samples, uint64_t seed, size_t threads, size_t first, size_t count,
                    TheoryFigures *figures) {
    TheoryScoring scorings[THEORY_SCORINGS];
    theory_scorings(d_k, scorings);
    theory_measure(d_k, keys, samples, seed, threads, scorings + first, count, figures);
}

static void one_key_has_nothing_to_choose(void) {
    TheoryFigures f[FOUR];
    measure(16, 1, 100, 1, 1, 0, FOUR, f);
    for (int s = 0; s < FOUR; s++)
        for (int i = 2; i < FIGURES; i++) {
            assert_close(figure(&f[s], i).value, i == 3, 0, "%s", NAMES[i]);
            assert_close(figure(&f[s], i).error, 0, 0, "error of %s", NAMES[i]);
        }
}

/* Uniform weights: p = 1/n, |w|^2 has mean (n-1)/n^2, and q's part of the keys is as any other. */
static void a_large_divisor_gives_uniform_weights(void) {
    const TheoryScoring huge = {.divisor = {SCALE_NUMBER, 1e5}};
    for (size_t n = 2; n <= 50; n += 16)
        for (size_t d = 1; d <= 101; d += 50) {
            TheoryFigures f;
            theory_measure(d, n, 1000, 5, 1, &huge, 1, &f);
            assert_close(f.entropy.value, log((double)n), 1e-6, "entropy");
            assert_close(f.max_weight.value, 1 / (double)n, 1e-3 / (double)n, "largest weight");
            assert_within(f.grad_rms, sqrt((double)d * (double)(n - 1)) / (double)n / 1e5, "gradient");
        }
}

/* n (n-1) integral of phi^2 Phi^(n-2): the density of the gap between the two largest of n normal numbers, at 0. */
static double gap_density(size_t n) {
    double sum = 0, h = .01;
    for (double x = -9; x < 9; x += h) {
        double phi = exp(-x * x / 2) / sqrt(2 * M_PI);
        sum += h * phi * phi * pow(.5 * erfc(-x / sqrt(2)), (double)n - 2);
    }
    return (double)n * (double)(n - 1) * sum;
}
/* Saturated weights: only the two largest scores matter, and only where their gap is of order 1 out of s = |q| /
   divisor. With g the density above, over E 1/s: E H = pi^2/6 g, E (1 - p_max) = ln 2 g, E |w|^2 = 1/3 g. */
static void saturated_weights_leave_two_keys(void) {
    for (size_t n = 2; n <= 16; n *= 8) {
        const size_t d = 4096;
        const double g = gap_density(n) / 64, rms = sqrt((double)d / 3 * g);
        TheoryFigures f;
        measure(d, n, 4000, 3, 1, 0, 1, &f);
        assert_close(f.entropy.value, M_PI * M_PI / 6 * g, 5 * f.entropy.error, "entropy of %zu keys", n);
        assert_close(f.max_weight.value, 1 - log(2) * g, 5 * f.max_weight.error, "largest of %zu keys", n);
        assert_close(f.grad_rms.value, rms, 5 * f.grad_rms.error, "gradient of %zu keys", n);
    }
}

/* Two keys. Given R = |q| the gap of the scores is s sqrt(2) x, s = R / divisor, x normal; the keys differ by sqrt(2) x
   along q and by sqrt(2) chi_(d-1) across; w = p (1-p) (r1 - r2) (1, -1). Midpoint sums over R, x and chi. */
typedef struct {
    double entropy, max, grad_mean, grad_square;
} TwoKeys;

/* The density of a chi with d degrees of freedom, up to a factor; d = 0 is a point at 0. */
static double chi_range(size_t d, double *from) {
    double center = sqrt((double)d);
    *from = fmax(0, center - 6);
    return d ? center + 6.5 - *from : 0;
}
static double chi_density(size_t d, double r) {
    double top = d > 1 ? .5 * ((double)d - 1) * (log((double)d - 1) - 1) : 0;
    return exp(((double)d - 1) * log(r) - r * r / 2 - top);
}
static TwoKeys two_keys(size_t d, double divisor) {
    enum { RADII = 160, GAPS = 400, ACROSS = 60 };
    double from, across_from, width = chi_range(d, &from), across_width = chi_range(d - 1, &across_from), total = 0;
    double lengths[GAPS], squares[GAPS];
    TwoKeys sum = {0};
    for (int i = 0; i < GAPS; i++) { /* E sqrt(x^2 + chi^2) and E (x^2 + chi^2) */
        double x = 9 * (i + .5) / GAPS, weights = 0;
        lengths[i] = 0;
        for (int a = 0; a < ACROSS; a++) {
            double chi = across_from + across_width * (a + .5) / ACROSS, weight = d > 1 ? chi_density(d - 1, chi) : 1;
            lengths[i] += weight * sqrt(x * x + chi * chi);
            weights += weight;
        }
        lengths[i] /= weights;
        squares[i] = x * x + (double)(d - 1);
    }
    for (int k = 0; k < RADII; k++) {
        double r = from + width * (k + .5) / RADII, weight = chi_density(d, r);
        for (int i = 0; i < GAPS; i++) {
            double x = 9 * (i + .5) / GAPS, gap = sqrt(2) * x * r / divisor, rest = exp(-gap), p = 1 / (1 + rest);
            double w = weight * exp(-x * x / 2), pq = p * p * rest;
            total += w;
            sum.entropy += w * (log1p(rest) + p * rest * gap);
            sum.max += w * p;
            sum.grad_mean += w * pq * lengths[i];
            sum.grad_square += w * pq * pq * squares[i];
        }
    }
    /* E |r1 - r2| = 2 / sqrt(pi), E (r1 - r2)^2 = 2; the keys' sqrt(2) */
    return (TwoKeys){sum.entropy / total, sum.max / total, sum.grad_mean / total * 2 / sqrt(M_PI) * sqrt(2) / divisor,
                     sum.grad_square / total * 4 / divisor / divisor};
}

static void two_keys_are_integrals(void) {
    static const size_t d_k[] = {1, 2, 3, 16, 64};
    for (size_t i = 0; i < COUNT_OF(d_k); i++) {
        TheoryFigures f[FOUR];
        TheoryScoring scorings[THEORY_SCORINGS];
        theory_scorings(d_k[i], scorings);
        theory_measure(d_k[i], 2, 10000, 11, 1, scorings, FOUR, f);
        for (int s = 0; s < FOUR; s++) {
            const double c = divisor_value(scorings[s].divisor, d_k[i]);
            const TwoKeys t = two_keys(d_k[i], c);
            assert_within(f[s].entropy, t.entropy, "entropy, d_k %zu / %g", d_k[i], c);
            assert_within(f[s].max_weight, t.max, "largest weight, d_k %zu / %g", d_k[i], c);
            assert_within(f[s].grad_mean, t.grad_mean, "gradient, d_k %zu / %g", d_k[i], c);
            assert_within(f[s].grad_rms, sqrt(t.grad_square), "its root mean square, d_k %zu / %g", d_k[i], c);
        }
    }
}

/* Makes 400 small measurements: 95 in 100 must lie within two standard errors of the truth, which a large one gives, 68
   in 100 within one. */
static void errors_are_standard_errors(void) {
    enum { REPEATS = 400, D = 8, KEYS = 5, SQRT_DK = 1 };
    TheoryFigures truth;
    int one[FIGURES] = {0}, two[FIGURES] = {0};
    measure(D, KEYS, 200000, 1, 1, SQRT_DK, 1, &truth);
    for (uint64_t seed = 1000; seed < 1000 + REPEATS; seed++) {
        TheoryFigures f;
        measure(D, KEYS, 200, seed, 1, SQRT_DK, 1, &f);
        for (int k = 0; k < FIGURES; k++) {
            double z = fabs(figure(&f, k).value - figure(&truth, k).value) / figure(&f, k).error;
            one[k] += z < 1;
            two[k] += z < 2;
        }
    }
    for (int k = 0; k < FIGURES; k++) {
        assert_close(one[k] / (double)REPEATS, .6827, .09, "%s within one standard error", NAMES[k]);
        assert_close(two[k] / (double)REPEATS, .9545, .045, "%s within two standard errors", NAMES[k]);
    }
}

/* One sample. */
typedef struct {
    size_t d_k, keys;
    double *q, *v, *k, *r;
} Draw;

/* L = <r, softmax(scores / divisor)> by the definitions, with none of the program's code. */
static double loss(const Draw *x, const double *q, const TheoryScoring *scoring) {
    const char *name = scoring->name;
    double total = strcmp(name, "sink") == 0, weighted = 0;
    for (size_t j = 0; j < x->keys; j++) {
        double dot = 0, additive = 0, qq = 0, kk = 0, score;
        for (size_t i = 0; i < x->d_k; i++) {
            const double k = x->k[j * x->d_k + i];
            dot += q[i] * k;
            additive += x->v[i] * tanh(q[i] + k);
            qq += q[i] * q[i];
            kk += k * k;
        }
        score = strcmp(name, "additive") == 0  ? additive
                : strcmp(name, "cosine") == 0  ? dot / sqrt(qq * kk)
                : strcmp(name, "softcap") == 0 ? 30 * tanh(dot / 30)
                                               : dot;
        total += exp(score / divisor_value(scoring->divisor, x->d_k));
        weighted += x->r[j] * exp(score / divisor_value(scoring->divisor, x->d_k));
    }
    return weighted / total;
}

/* A derivative by central differences of fourth order. */
static double difference_norm(const Draw *x, const TheoryScoring *scoring) {
    static const double steps[4] = {-2, -1, 1, 2}, factors[4] = {1, -8, 8, -1};
    const double h = 1e-3;
    double q[64], square = 0;
    for (size_t i = 0; i < x->d_k; i++) {
        double slope = 0;
        memcpy(q, x->q, x->d_k * sizeof *q);
        for (int s = 0; s < 4; s++) {
            q[i] = x->q[i] + steps[s] * h;
            slope += factors[s] * loss(x, q, scoring) / (12 * h);
        }
        square += slope * slope;
    }
    return sqrt(square);
}

/* The sample's numbers, drawn as theory_measure draws them. */
static void draw_sample(const Draw *x, uint64_t seed, size_t sample) {
    const size_t count = x->d_k + x->keys * x->d_k + x->keys;
    const Rng rng = rng_make(seed, RNG_THEORY, (uint32_t)x->d_k),
              v_rng = rng_make(seed, RNG_THEORY, 1u << 30 | (uint32_t)x->d_k);
    const uint64_t first = sample * ((count + 3) / 4 * 4);
    theory_normals(&rng, first, x->d_k, x->q);
    theory_normals(&rng, first + x->d_k, x->keys * x->d_k, x->k);
    theory_normals(&rng, first + x->d_k + x->keys * x->d_k, x->keys, x->r);
    theory_normals(&v_rng, sample * ((x->d_k + 3) / 4 * 4), x->d_k, x->v);
    for (size_t i = 0; i < x->d_k; i++) x->v[i] /= sqrt((double)x->d_k);
}

/* Two samples are drawn; theory_measure gives their mean. Without a choice the gradient is 0, but for rounding. */
static void gradients_are_finite_differences(void) {
    enum { D = 64, KEYS = 9 };
    const double rounding = sizeof(real) == 8 ? 1e-7 : 1e-4;
    double q[D], v[D], k[KEYS * D], r[KEYS];
    TheoryScoring all[THEORY_SCORINGS];
    TheoryFigures f[THEORY_SCORINGS];
    for (uint64_t seed = 0; seed < 24; seed++) {
        const Draw x = {seed % 3 ? seed % 3 == 1 ? 7 : D : 1, seed % 2 ? KEYS : 1, q, v, k, r};
        double norms[THEORY_SCORINGS] = {0};
        theory_scorings(x.d_k, all);
        theory_measure(x.d_k, x.keys, 2, seed, 1, all, THEORY_SCORINGS, f);
        for (size_t sample = 0; sample < 2; sample++) {
            draw_sample(&x, seed, sample);
            for (int s = 0; s < THEORY_SCORINGS; s++) norms[s] += difference_norm(&x, &all[s]) / 2;
        }
        for (int s = 0; s < THEORY_SCORINGS; s++)
            assert_close(f[s].grad_mean.value, norms[s], rounding / 100 + rounding * norms[s], "%s, d_k %zu, %zu keys",
                         all[s].name, x.d_k, x.keys);
    }
}

/* Variances are known of all but the cap's; one key is no choice, but with a sink it is; a cap far above the scores is
   none; and a cosine's derivative is 0, but for rounding, where d_k is 1. */
static void other_scores_have_the_figures_they_should(void) {
    enum { SQRT_DK = 1, ADDITIVE = 0, COSINE, SINK, SOFTCAP };
    TheoryFigures f[OTHERS], dot[FOUR], one[OTHERS];
    double square = 0, total = 0;
    for (double z = -9; z <= 9; z += .001) {
        square += exp(-z * z / 2) * tanh(sqrt(2) * z) * tanh(sqrt(2) * z);
        total += exp(-z * z / 2);
    }
    measure(64, 20, 4000, 5, 1, FOUR, OTHERS, f);
    measure(64, 20, 4000, 5, 1, 0, FOUR, dot);
    for (int s = ADDITIVE; s <= SINK; s++) {
        assert_within(f[s].score_mean, 0, "mean of other score %d", s);
        assert_within(f[s].score_var, s == ADDITIVE ? square / total : 1, "variance of other score %d", s);
    }
    /* A sink's scores are those of the dot product. */
    assert_memory_equal(&f[SINK].score_var, &dot[SQRT_DK].score_var, sizeof(Estimate));
    assert_true(f[SOFTCAP].score_var.value < dot[0].score_var.value && f[SOFTCAP].entropy.value > dot[0].entropy.value);
    measure(1, 1, 500, 5, 1, FOUR, OTHERS, one);
    for (int s = 0; s < OTHERS; s++)
        assert_that((one[s].entropy.value > .3) == (s == SINK) && (one[s].grad_rms.value > 0) == (s == SINK),
                    "one key, other score %d", s);
    measure(1, 20, 500, 5, 1, FOUR, OTHERS, one);
    assert_true(isfinite(one[ADDITIVE].grad_rms.value) && one[ADDITIVE].grad_rms.value > 0);
    assert_close(one[COSINE].grad_rms.value, 0, 1e-5 * one[ADDITIVE].grad_rms.value,
                 "a cosine of one entry is 1 or -1");
}

static void threads_and_company_change_no_bit(void) {
    TheoryFigures one[THEORY_SCORINGS], other[THEORY_SCORINGS], alone;
    measure(37, 9, 333, 21, 1, 0, THEORY_SCORINGS, one);
    for (size_t threads = 2; threads <= 7; threads++) {
        measure(37, 9, 333, 21, threads, 0, THEORY_SCORINGS, other);
        assert_memory_equal(one, other, sizeof one);
    }
    for (size_t s = 0; s < THEORY_SCORINGS; s++) {
        measure(37, 9, 333, 21, 2, s, 1, &alone);
        assert_memory_equal(&one[s], &alone, sizeof alone);
    }
    measure(37, 9, 333, 22, 1, 0, FOUR, other);
    for (int k = 0; k < FIGURES; k++)
        assert_that(figure(&one[1], k).value != figure(&other[1], k).value, "%s of another seed", NAMES[k]);
}

static void too_much_is_refused(void) {
    TheoryFigures f;
    assert_fails(STATUS_FAILED, "the keys and samples need ",
                 measure(THEORY_DK_MAX, THEORY_KEYS_MAX, 2, 1, 1000, 0, 1, &f));
}

int main(void) {
    if (sizeof(real) == 8)
        return RUN_TESTS(TEST(gradients_are_finite_differences), TEST(other_scores_have_the_figures_they_should));
    return RUN_TESTS(TEST(normals_in_blocks_are_the_numbers_one_by_one), TEST(softmax_rows),
                     TEST(one_key_has_nothing_to_choose), TEST(a_large_divisor_gives_uniform_weights),
                     TEST(saturated_weights_leave_two_keys), TEST(two_keys_are_integrals),
                     TEST(errors_are_standard_errors), TEST(gradients_are_finite_differences),
                     TEST(other_scores_have_the_figures_they_should), TEST(threads_and_company_change_no_bit),
                     TEST(too_much_is_refused));
}
