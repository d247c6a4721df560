/* The scores themselves: their distribution, what they are when queries and keys are not as the argument assumes, and
   whether they fit the formats they are kept in. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "theory/claims_try.h"

/* Mean square of the scores divided by `divisor`: their variance, as their mean is 0. */
static bool mean_square(const Trial *t, uint32_t part, Population population, double divisor, Estimate *estimate,
                        Error *err) {
    double *scores = population_scores(&population, trial_rng(t, part), err);
    if (!scores) return false;
    *estimate = rows_mean_square(scores, population.rows, population.keys, 1 / divisor);
    free(scores);
    return true;
}

/* E s^4 / (E s^2)^2 - 3, which is 0 for a normal number. q.k is a sum of d_k products, each with E (q_i k_i)^4 = 9. */
bool try_normal(const Trial *t, Outcome *o, Error *err) {
    static const size_t d_k[3] = {1, 4, 64};
    bool normal = true, unit = true;
    for (uint32_t i = 0; i < 3; i++) {
        const Population population = {.d_k = d_k[i], .keys = 1, .rows = 200000};
        double *s = population_scores(&population, trial_rng(t, i), err), root = sqrt((double)d_k[i]);
        if (!s) return false;
        Estimate second = rows_mean_square(s, population.rows, 1, 1 / root);
        for (size_t row = 0; row < population.rows; row++) s[row] *= s[row];
        Estimate fourth = rows_mean_square(s, population.rows, 1, 1 / (double)d_k[i]);
        free(s);
        double excess = fourth.value / (second.value * second.value) - 3;
        normal = normal && fabs(excess) < 5 * fourth.error;
        unit = unit && fabs(second.value - 1) < 5 * second.error;
        outcome_measured(o, "%sd_k %zu: variance %.3f, excess kurtosis %.2f (exact %.2f)", i ? "; " : "", d_k[i],
                         second.value, excess, 6 / (double)d_k[i]);
    }
    if (normal && unit)
        outcome_why(o, VERDICT_RIGHT, "Second and fourth moments are those of N(0, 1).");
    else if (unit)
        outcome_why(
            o, VERDICT_PARTLY,
            "Mean 0 and variance 1, yes; normal only in the limit of large d_k, and the scores of a row share their q, so the row's own variance is |q|²/d_k.");
    else
        outcome_why(o, VERDICT_WRONG, "The variance is not 1.");
    return true;
}

bool try_batchnorm(const Trial *t, Outcome *o, Error *err) {
    const Population twice = {.d_k = 64, .keys = 16, .rows = 2000, .q_std = 2};
    Estimate variance;
    if (!mean_square(t, 0, twice, 8, &variance, err)) return false;
    outcome_measured(
        o,
        "with q twice as long the divided scores have variance %.2f ± %.2f; normalised by what is measured they would have 1",
        variance.value, variance.error);
    bool same = fabs(variance.value - 1) < .1;
    outcome_why(
        o, same ? VERDICT_RIGHT : VERDICT_WRONG,
        same
            ? "The variance comes out as 1 whatever goes in."
            : "BatchNorm divides by what it measures; √d_k is a constant, right for one size of q and k and corrected by nothing.");
    return true;
}

bool try_cross_attention(const Trial *t, Outcome *o, Error *err) {
    const Population plain = {.d_k = 768, .keys = 49, .rows = 100};
    Population loud = plain, correlated = plain;
    Estimate variance[3];
    loud.k_std = 4;
    correlated.correlation = .1;
    double root = sqrt(768);
    if (!mean_square(t, 0, plain, root, &variance[0], err) || !mean_square(t, 1, loud, root, &variance[1], err) ||
        !mean_square(t, 2, correlated, root, &variance[2], err))
        return false;
    outcome_measured(
        o,
        "49 keys, d_k 768, divided by √768: variance %.2f ± %.2f for unit entries; %.1f ± %.1f (exact 16) where the image's have deviation 4; %.1f ± %.1f (exact %.1f) where the entries of a vector correlate by 0.1",
        variance[0].value, variance[0].error, variance[1].value, variance[1].error, variance[2].value,
        variance[2].error, 1 + 767 * .01);
    bool aligned = fabs(variance[1].value - 1) < .1 && fabs(variance[2].value - 1) < .1;
    outcome_why(
        o, aligned ? VERDICT_RIGHT : VERDICT_WRONG,
        aligned
            ? "The divided scores have variance 1 in all three cases."
            : "The variance is tr(Cov q · Cov k) / d_k. A constant takes no notice of it; a normalisation of q and k would.");
    return true;
}

bool try_own_dk(const Trial *t, Outcome *o, Error *err) {
    const Population head = {.d_k = 64, .keys = 64, .rows = 1000};
    double *scores = population_scores(&head, trial_rng(t, 0), err);
    if (!scores) return false;
    Estimate own = rows_mean_square(scores, head.rows, 64, 1 / sqrt(64)),
             whole = rows_mean_square(scores, head.rows, 64, 1 / sqrt(512));
    Estimate own_entropy = rows_entropy(scores, head.rows, 64, 1 / sqrt(64)),
             whole_entropy = rows_entropy(scores, head.rows, 64, 1 / sqrt(512));
    free(scores);
    outcome_measured(
        o,
        "8 heads of d_k 64 in d_model 512: variance %.3f ± %.3f over √64, %.3f over √512; entropy %.2f and %.2f of %.2f nats",
        own.value, own.error, whole.value, own_entropy.value, whole_entropy.value, log(64));
    bool right = fabs(own.value - 1) < 5 * own.error && fabs(whole.value - 1) > 5 * whole.error;
    outcome_why(
        o, right ? VERDICT_RIGHT : VERDICT_WRONG,
        right ? "A head's score is a sum of its own d_k products. (The weights' distribution is logged: attention.csv.)"
              : "The head's own d_k does not give variance 1, or d_model does.");
    return true;
}

bool try_mup(const Trial *t, Outcome *o, Error *err) {
    double aligned[3], random[3];
    for (uint32_t i = 0; i < 3; i++) {
        Population population = {.d_k = (size_t)64 << 2 * i, .keys = 8, .rows = 400};
        Estimate variance;
        if (!mean_square(t, i, population, (double)population.d_k, &variance, err)) return false;
        random[i] = sqrt(variance.value);
        population.alignment = .5;
        double *scores = population_scores(&population, trial_rng(t, 3 + i), err);
        if (!scores) return false;
        aligned[i] = rows_mean(scores, population.rows, population.keys, 1 / (double)population.d_k).value;
        free(scores);
    }
    outcome_measured(
        o,
        "d_k 64 / 256 / 1024: keys that correlate with q by 0.5 score %.2f / %.2f / %.2f over d_k, %.1f / %.1f / %.1f over √d_k; unrelated keys ± %.3f / %.3f / %.3f over d_k",
        aligned[0], aligned[1], aligned[2], 8 * aligned[0], 16 * aligned[1], 32 * aligned[2], random[0], random[1],
        random[2]);
    bool level = fabs(aligned[2] / aligned[0] - 1) < .1, fades = fabs(random[2] / random[0] - .25) < .05;
    if (level && fades)
        outcome_why(
            o, VERDICT_PARTLY,
            "Its premise holds: where keys are aligned with queries, as training may make them, scores grow as d_k; at random, as √d_k. Whether hyper-parameters then transfer is not measured here.");
    else
        outcome_why(o, VERDICT_WRONG, "Its premise does not hold here.");
    return true;
}

/* `x` to the nearest number with so many significant bits; infinite where it is beyond what the format has. Subnormal
   numbers are kept as if there were an exponent for them: nothing here is that small. */
typedef struct {
    int bits;
    double largest;
} Format;
static const Format HALF = {11, 65504}, BFLOAT = {8, 0x1.FEp127};

static double rounded(double x, Format format) {
    int power;
    double share = frexp(x, &power), near = ldexp(nearbyint(ldexp(share, format.bits)), power - format.bits);
    return fabs(near) > format.largest ? copysign(INFINITY, x) : near;
}

/* Rows of unit queries and keys, undivided: their largest score, how many rows have one whose exponential overflows,
   and how many weights come out wrong when it does. */
bool try_float(const Trial *t, Outcome *o, Error *err) {
    const Population population = {.d_k = 1024, .keys = 64, .rows = 300};
    double *scores = population_scores(&population, trial_rng(t, 0), err), largest = 0;
    size_t naive = 0, subtracted = 0, overflows = 0;
    if (!scores) return false;
    for (size_t row = 0; row < population.rows; row++) {
        const double *s = scores + row * population.keys;
        float sum = 0, below = 0, top = -INFINITY;
        for (size_t j = 0; j < population.keys; j++) {
            top = fmaxf(top, (float)s[j]);
            largest = fmax(largest, fabs(s[j]));
            overflows += isinf((float)s[j]) != 0;
        }
        for (size_t j = 0; j < population.keys; j++) {
            sum += expf((float)s[j]);
            below += expf((float)s[j] - top);
        }
        naive += isinf(sum) != 0;
        subtracted += isinf(below) != 0;
    }
    free(scores);
    outcome_measured(
        o,
        "d_k 1024, %zu scores: the largest is %.0f, a float holds %.1g; exp of the bare scores overflows in %.0f %% of the rows, with the row's maximum subtracted in %zu",
        population.rows * population.keys, largest, (double)FLT_MAX, 100 * (double)naive / (double)population.rows,
        subtracted);
    if (overflows)
        outcome_why(o, VERDICT_RIGHT, "%zu scores overflow.", overflows);
    else if (naive && !subtracted)
        outcome_why(
            o, VERDICT_WRONG,
            "Not the scores but their exponentials overflow, from %.1f on, and only in a softmax that does not subtract the maximum first.",
            log((double)FLT_MAX));
    else
        outcome_why(o, VERDICT_WRONG, "Nothing overflows.");
    return true;
}

/* How many of `count` products of aligned vectors (a position that looks at itself: k = q), entries of deviation a,
   overflow when the sum is kept in half precision; with the query divided first, or not. */
static size_t aligned_overflows(const Trial *t, size_t count, double a, double divisor) {
    enum { D = 64 };
    Rng rng = trial_rng(t, 1);
    size_t overflows = 0;
    for (size_t i = 0; i < count; i++) {
        double x[D], sum = 0;
        rng_fill_normal(&rng, i * D, D, x);
        for (size_t j = 0; j < D; j++) {
            double k = rounded(a * x[j], HALF);
            sum = rounded(sum + rounded(k / divisor, HALF) * k, HALF);
        }
        overflows += isinf(sum) != 0;
    }
    return overflows;
}

/* The largest score and partial sum in half precision are those of double but for rounding; so only their size counts.
 */
bool try_half(const Trial *t, Outcome *o, Error *err) {
    enum { ROWS = 500, KEYS = 64, D = 64, COUNT = 500 };
    const Population wide = {.d_k = 1024, .keys = KEYS, .rows = 200}, head = {.d_k = D, .keys = KEYS, .rows = ROWS};
    double *scores = population_scores(&wide, trial_rng(t, 2), err), largest = 0, off[2] = {0, 0};
    size_t overflows = 0, naive[2] = {0, 0};
    if (!scores) return false;
    for (size_t i = 0; i < wide.rows * KEYS; i++) {
        largest = fmax(largest, fabs(scores[i]));
        overflows += isinf(rounded(scores[i], HALF)) != 0;
    }
    free(scores);
    if (!(scores = population_scores(&head, trial_rng(t, 0), err))) return false;
    for (size_t row = 0; row < ROWS; row++)
        for (int divided = 0; divided < 2; divided++) {
            double s[KEYS], coarse[KEYS], p[KEYS], p_coarse[KEYS], worst = 0, sum = 0;
            for (size_t j = 0; j < KEYS; j++) {
                s[j] = scores[row * KEYS + j] / (divided ? 8 : 1);
                coarse[j] = rounded(s[j], BFLOAT);
                sum = rounded(sum + rounded(exp(s[j]), HALF), HALF);
            }
            theory_softmax(s, KEYS, 1, p);
            theory_softmax(coarse, KEYS, 1, p_coarse);
            for (size_t j = 0; j < KEYS; j++) worst = fmax(worst, fabs(p_coarse[j] - p[j]));
            off[divided] += worst / ROWS;
            naive[divided] += isinf(sum) != 0;
        }
    free(scores);
    size_t plain = aligned_overflows(t, COUNT, 1, 1), large = aligned_overflows(t, COUNT, 48, 1),
           after = aligned_overflows(t, COUNT, 48, 8);
    outcome_measured(
        o,
        "unit entries, d_k 1024: the largest of %zu scores is %.0f, fp16 holds %.0f. exp of bare scores (d_k 64, 64 keys) overflows fp16 in %.0f %% of the rows, divided in %.0f %%. q·q of d_k 64 overflows in %.0f %% of the cases with entries of deviation 1, %.0f %% with 48, %.0f %% with 48 and q divided by 8 first. bf16 has a float's range but 8 bits: the worst weight of a row is off by %.2g undivided, %.2g divided",
        wide.rows * KEYS, largest, HALF.largest, 100.0 * (double)naive[0] / ROWS, 100.0 * (double)naive[1] / ROWS,
        100.0 * (double)plain / COUNT, 100.0 * (double)large / COUNT, 100.0 * (double)after / COUNT, off[0], off[1]);
    if (overflows || plain)
        outcome_why(o, VERDICT_RIGHT, "Scores of unit queries and keys overflow.");
    else if (large && after < large)
        outcome_why(
            o, VERDICT_WRONG,
            "It takes entries of deviation %.0f and more, or exp without the maximum subtracted. Dividing helps with the first only if q is divided before the product.",
            sqrt(HALF.largest / D));
    else
        outcome_why(o, VERDICT_WRONG, "Nothing overflows.");
    return true;
}
