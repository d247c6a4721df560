/* Entropy, largest weight and gradient: what softmax makes of scores that are divided or not. */
#include <math.h>
#include <stdlib.h>

#include "theory/claims_try.h"
#include "theory/exact.h"

enum { NONE, SCALED, PAIR };
static const ScaleDivisor DIVISORS[PAIR] = {{.mode = SCALE_NONE}, {.mode = SCALE_SQRT_DK}};

/* Undivided and divided by the root of d_k. Another seed for each claim, or all would share their draws. */
static bool measure_pair(const Trial *t, size_t d_k, size_t keys, size_t samples, TheoryFigures figures[PAIR],
                         Error *err) {
    int signal; /* seen by claims_run, which then prints nothing */
    uint32_t seed[4];
    Rng rng = trial_rng(t, 0);
    rng_block(&rng, 0, seed);
    for (int s = 0; s < PAIR; s++) figures[s] = (TheoryFigures){0};
    return theory_measure(d_k, keys, samples, (uint64_t)seed[0] << 32 | seed[1], t->threads, DIVISORS, PAIR, figures,
                          &signal, err);
}

/* The share of a row's weights with p (1 - p) > 0.01. */
static bool share_above(const Trial *t, size_t keys, double multiplier, double *share, Error *err) {
    const Population population = {.d_k = 64, .keys = keys, .rows = 1000};
    double p[64], *scores = population_scores(&population, trial_rng(t, 0), err);
    size_t above = 0;
    if (!scores) return false;
    for (size_t row = 0; row < population.rows; row++) {
        theory_softmax(scores + row * keys, keys, multiplier, p);
        for (size_t j = 0; j < keys; j++) above += p[j] * (1 - p[j]) > .01;
    }
    free(scores);
    *share = (double)above / (double)(population.rows * keys);
    return true;
}

bool try_derivative(const Trial *t, Outcome *o, Error *err) {
    const double small[5] = {-3, -1, 0, 1, 3}, large[5] = {-24, -10, 0, 10, 24};
    double p[5], none, few, many, least = 1, most = 0;
    theory_softmax(small, 5, 1, p);
    for (int i = 0; i < 5; i++) least = fmin(least, p[i] * (1 - p[i]));
    theory_softmax(large, 5, 1, p);
    for (int i = 0; i < 5; i++) most = fmax(most, p[i] * (1 - p[i]));
    if (!share_above(t, 64, 1, &none, err) || !share_above(t, 10, .125, &few, err) ||
        !share_above(t, 64, .125, &many, err))
        return false;
    outcome_measured(
        o,
        "in the rows of claims 4 and 5 at most %.1g, and at least %.4f; at d_k 64, undivided and 64 keys, %.1f %% of the weights have more than 0.01; divided %.0f %% with 10 keys, %.0f %% with 64",
        most, least, 100 * none, 100 * few, 100 * many);
    if (none < .01 && many > .99 && least > .01)
        outcome_why(o, VERDICT_RIGHT, "So it is, in the rows and at random.");
    else if (many > 2 * none)
        outcome_why(
            o, VERDICT_PARTLY,
            "The direction is right, the bar is not: with n keys a weight is about 1/n, and p(1-p) no more than that.");
    else
        outcome_why(o, VERDICT_WRONG, "Dividing makes no such difference.");
    return true;
}

bool try_entropy(const Trial *t, Outcome *o, Error *err) {
    static const size_t d_k[3] = {16, 64, 256};
    static const double stated[PAIR][3] = {{2.1, .8, .2}, {2.3, 2.3, 2.3}};
    TheoryFigures f[3][PAIR];
    int agree = 0;
    for (int i = 0; i < 3; i++) {
        if (!measure_pair(t, d_k[i], 10, 4000, f[i], err)) return false;
        for (int s = 0; s < PAIR; s++)
            agree += fabs(f[i][s].entropy.value - stated[s][i]) < .05 + 5 * f[i][s].entropy.error;
    }
    bool falls =
        f[0][NONE].entropy.value > f[1][NONE].entropy.value && f[1][NONE].entropy.value > f[2][NONE].entropy.value;
    bool level = fabs(f[2][SCALED].entropy.value - f[0][SCALED].entropy.value) < .1;
    outcome_measured(
        o,
        "undivided %.2f / %.2f / %.2f, divided %.2f / %.2f / %.2f nats, ± %.2f; %.2f is the most that 10 keys can have",
        f[0][NONE].entropy.value, f[1][NONE].entropy.value, f[2][NONE].entropy.value, f[0][SCALED].entropy.value,
        f[1][SCALED].entropy.value, f[2][SCALED].entropy.value, f[0][NONE].entropy.error, log(10));
    if (agree == 2 * 3)
        outcome_why(o, VERDICT_RIGHT, "All six figures agree.");
    else if (falls && level)
        outcome_why(
            o, VERDICT_PARTLY,
            "Figures that agree: %d of 6. It does fall without the divisor and stay with it; but ln 10 = 2.3 is the entropy of weights all equal, and scores of variance 1 do not give those.",
            agree);
    else
        outcome_why(o, VERDICT_WRONG, "Figures that agree: %d of 6, and the trend is another.", agree);
    return true;
}

/* The mean of the rows' largest weights, and the largest of all, of matrices of 10 queries on the same 10 keys: what 95
   in 100 of them have. */
static bool matrix_ranges(const Trial *t, size_t d, double multiplier, double mean_range[2], double top_range[2],
                          Error *err) {
    enum { SIDE = 10, MATRICES = 400, CUT = MATRICES / 40 };
    const size_t drawn = d * 2 * SIDE;
    double *q = malloc(drawn * sizeof *q), *k = q + SIDE * d, means[MATRICES], tops[MATRICES];
    Rng rng = trial_rng(t, (uint32_t)log2((double)d));
    if (!q) return error_set(err, STATUS_FAILED, "no memory for a matrix of queries");
    for (size_t m = 0; m < MATRICES; m++) {
        rng_fill_normal(&rng, m * drawn, drawn, q);
        means[m] = tops[m] = 0;
        for (size_t i = 0; i < SIDE; i++) {
            double scores[SIDE] = {0}, p[SIDE];
            for (size_t j = 0; j < SIDE; j++)
                for (size_t x = 0; x < d; x++) scores[j] += q[i * d + x] * k[j * d + x];
            double top = theory_softmax(scores, SIDE, multiplier, p).max_weight;
            means[m] += top / SIDE;
            tops[m] = fmax(tops[m], top);
        }
    }
    free(q);
    estimate_median(means, MATRICES); /* sorts */
    estimate_median(tops, MATRICES);
    mean_range[0] = means[CUT], mean_range[1] = means[MATRICES - 1 - CUT];
    top_range[0] = tops[CUT], top_range[1] = tops[MATRICES - 1 - CUT];
    return true;
}

bool try_largest(const Trial *t, Outcome *o, Error *err) {
    static const double stated[PAIR][3] = {{.342, .891, .998}, {.289, .276, .301}};
    int by_mean[PAIR] = {0}, by_top[PAIR] = {0};
    outcome_measured(o, "95 of 100 matrices have, as mean of the rows' largest weights,");
    for (int s = 0; s < PAIR; s++) {
        outcome_measured(o, s ? "; divided" : " undivided");
        for (int i = 0; i < 3; i++) {
            double mean[2], top[2];
            size_t d_k = (size_t)16 << 2 * i;
            if (!matrix_ranges(t, d_k, scale_multiplier(DIVISORS[s], d_k), mean, top, err)) return false;
            outcome_measured(o, "%s %.2f to %.2f", i ? "," : "", mean[0], mean[1]);
            by_mean[s] += stated[s][i] >= mean[0] && stated[s][i] <= mean[1];
            by_top[s] += stated[s][i] >= top[0] && stated[s][i] <= top[1];
        }
    }
    int best = by_mean[0] + by_mean[1] > by_top[0] + by_top[1] ? by_mean[0] + by_mean[1] : by_top[0] + by_top[1];
    outcome_measured(o, "; %d of the 6 stated figures are such means, %d such a matrix's single largest weight",
                     by_mean[0] + by_mean[1], by_top[0] + by_top[1]);
    if (best == 2 * 3)
        outcome_why(o, VERDICT_RIGHT, "All six figures can come from one such matrix.");
    else
        outcome_why(o, best ? VERDICT_PARTLY : VERDICT_WRONG,
                    "As means of rows, %d of the 3 undivided figures and %d of the 3 divided ones can be had.",
                    by_mean[NONE], by_mean[SCALED]);
    return true;
}

/* The exponent b of y ~ x^b, by least squares on logarithms, x growing by a constant factor. */
static double exponent(const double *y, int n, double log_factor) {
    double middle = (n - 1) / 2.0, xy = 0, xx = 0;
    for (int i = 0; i < n; i++) {
        xy += (i - middle) * log(y[i]);
        xx += (i - middle) * (i - middle);
    }
    return xy / xx / log_factor;
}

bool try_gradient(const Trial *t, Outcome *o, Error *err) {
    enum { SIZES = 4 };
    double mean[PAIR][SIZES], rms[SIZES], median[SIZES];
    for (int i = 0; i < SIZES; i++) {
        TheoryFigures f[PAIR];
        if (!measure_pair(t, (size_t)16 << 2 * i, 10, 4000, f, err)) return false;
        for (int s = 0; s < PAIR; s++) mean[s][i] = f[s].grad_mean.value;
        rms[i] = f[NONE].grad_rms.value;
        median[i] = f[NONE].grad_median.value;
    }
    double unscaled = exponent(mean[NONE], SIZES, log(4)), scaled = exponent(mean[SCALED], SIZES, log(4));
    outcome_measured(
        o,
        "10 keys, d_k 16 / 64 / 256 / 1024: mean undivided %.2f / %.2f / %.2f / %.2f (about d_k^%.2f), its root mean square about d_k^%.2f, its median %.2g / %.2g / %.2g / %.2g; mean divided %.2f / %.2f / %.2f / %.2f",
        mean[NONE][0], mean[NONE][1], mean[NONE][2], mean[NONE][3], unscaled, exponent(rms, SIZES, log(4)), median[0],
        median[1], median[2], median[3], mean[SCALED][0], mean[SCALED][1], mean[SCALED][2], mean[SCALED][3]);
    bool level = fabs(scaled) < .1, falls = fabs(unscaled + 1) < .2, dies = median[3] < median[0] / 64;
    bool bursts = exponent(rms, SIZES, log(4)) > .1 && fabs(unscaled) < .2;
    if (level && falls)
        outcome_why(o, VERDICT_RIGHT, "Both exponents are as stated.");
    else if (level && dies && bursts)
        outcome_why(
            o, VERDICT_PARTLY,
            "Divided it is constant. Undivided the typical row loses it far faster than 1/d_k, but the few rows with two keys nearly level get ever more, so that the mean stays.");
    else
        outcome_why(o, level ? VERDICT_PARTLY : VERDICT_WRONG, "Undivided it goes as d_k^%.2f, divided as d_k^%.2f.",
                    unscaled, scaled);
    return true;
}

bool try_sharper(const Trial *t, Outcome *o, Error *err) {
    TheoryFigures f[3][PAIR];
    bool sharper = true;
    for (int i = 0; i < 3; i++) {
        if (!measure_pair(t, (size_t)32 << 2 * i, 8, 4000, f[i], err)) return false;
        sharper = sharper && f[i][NONE].entropy.value < f[i][SCALED].entropy.value / 2;
    }
    outcome_measured(
        o,
        "largest weight %.2f / %.2f / %.2f undivided, %.2f / %.2f / %.2f divided; entropy %.2f / %.2f / %.2f and %.2f / %.2f / %.2f nats",
        f[0][NONE].max_weight.value, f[1][NONE].max_weight.value, f[2][NONE].max_weight.value,
        f[0][SCALED].max_weight.value, f[1][SCALED].max_weight.value, f[2][SCALED].max_weight.value,
        f[0][NONE].entropy.value, f[1][NONE].entropy.value, f[2][NONE].entropy.value, f[0][SCALED].entropy.value,
        f[1][SCALED].entropy.value, f[2][SCALED].entropy.value);
    outcome_why(
        o, sharper ? VERDICT_RIGHT : VERDICT_WRONG,
        "Undivided the entropy is %sless than half of the divided one. Whether training suffers is measured by training: docs/results.md.",
        sharper ? "" : "not ");
    return true;
}

/* The other two divisors: the variance stated, and what the weights look like. */
static bool try_divisor(const Trial *t, ScaleMode mode, double stated, Outcome *o, Error *err) {
    const ScaleDivisor divisor = {.mode = mode};
    const Population population = {.d_k = 64, .keys = 64, .rows = 1000};
    double *scores = population_scores(&population, trial_rng(t, 0), err), c = scale_multiplier(divisor, 64);
    if (!scores) return false;
    Estimate variance = rows_mean_square(scores, population.rows, 64, c);
    Estimate entropy = rows_entropy(scores, population.rows, 64, c),
             plain = rows_entropy(scores, population.rows, 64, .125);
    free(scores);
    double share = entropy.value / log(64);
    bool same = fabs(variance.value - stated) < 5 * variance.error;
    outcome_measured(o, "d_k 64, 64 keys: variance %.4g ± %.1g; entropy %.3f of the possible (divided by √d_k: %.3f)",
                     variance.value, variance.error, share, plain.value / log(64));
    bool right = same && (mode != SCALE_DK || share > .99);
    outcome_why(o, right ? VERDICT_RIGHT : VERDICT_WRONG,
                "The variance is %s%s. Whether it trains worse is another question: docs/results.md.",
                same ? "what is stated" : "not what is stated",
                mode != SCALE_DK ? ""
                : share > .99    ? ", and the weights are nearly uniform"
                                 : ", but the weights are not uniform");
    return true;
}
bool try_divisor_dk(const Trial *t, Outcome *o, Error *err) { return try_divisor(t, SCALE_DK, 1.0 / 64, o, err); }
bool try_divisor_2sqrt(const Trial *t, Outcome *o, Error *err) { return try_divisor(t, SCALE_2SQRT_DK, .25, o, err); }

bool try_britz(const Trial *t, Outcome *o, Error *err) {
    double entropy[4];
    (void)err;
    for (int i = 0; i < 4; i++) entropy[i] = theory_exact((size_t)128 << i, 64, 1, t->threads).entropy / log(64);
    outcome_measured(
        o, "no translation; but with random q, k and 64 keys the entropy is %.3f / %.3f / %.3f / %.3f of the possible",
        entropy[0], entropy[1], entropy[2], entropy[3]);
    outcome_why(
        o, VERDICT_OUTSIDE,
        "BLEU takes a translation model. Its queries and keys are a trained recurrent network's, not N(0, 1), so those entropies do not carry over.");
    return true;
}
