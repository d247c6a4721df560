/* What might stand in the divisor's place: additive attention, scaled values, a temperature, normalised queries and
   keys. */
#include <math.h>
#include <stdlib.h>

#include "theory/claims_try.h"

/* Variance of the score v.tanh(W1 q + W2 k), (d 64, `hidden`), entries of W1 and W2 of variance 1/64, so that each adds
   variance 1, and v of variance 1. Each draw of W1 and W2 serves `REPEATS` triples (q, k, v). Also the largest |score|.
 */
static bool additive_variance(const Trial *t, uint32_t part, size_t hidden, Estimate *variance, double *largest,
                              Error *err) {
    enum { DRAWS = 60, REPEATS = 10 };
    const size_t D = 64;
    const size_t matrix = hidden * 2 * D, drawn = matrix + REPEATS * (2 * D + hidden);
    Rng rng = trial_rng(t, part);
    double *w = malloc(drawn * sizeof *w), square[DRAWS];
    if (!w) return error_set(err, STATUS_FAILED, "no memory for additive attention of %zu units", hidden);
    *largest = 0;
    for (size_t draw = 0; draw < DRAWS; draw++) {
        rng_fill_normal(&rng, draw * ((drawn + 3) / 4 * 4), drawn, w);
        square[draw] = 0;
        for (size_t i = 0; i < REPEATS; i++) {
            const double *x = w + matrix + i * (2 * D + hidden), *v = x + 2 * D; /* x: q, then k */
            double score = 0;
            for (size_t u = 0; u < hidden; u++) {
                double sum = 0;
                for (size_t j = 0; j < 2 * D; j++) sum += w[u * 2 * D + j] * x[j];
                score += v[u] * tanh(sum / sqrt((double)D));
            }
            square[draw] += score * score / REPEATS;
            *largest = fmax(*largest, fabs(score));
        }
    }
    free(w);
    *variance = estimate_mean(square, DRAWS);
    return true;
}

bool try_additive(const Trial *t, Outcome *o, Error *err) {
    Estimate few, many;
    double ignored, largest;
    if (!additive_variance(t, 0, 16, &few, &ignored, err) || !additive_variance(t, 1, 512, &many, &largest, err))
        return false;
    outcome_measured(
        o,
        "v·tanh(W1 q + W2 k) with 16 / 512 hidden units: v of unit variance, score variance %.1f ± %.1f / %.0f ± %.0f; v of variance 1/units, %.2f / %.2f. The largest at 512 is %.0f",
        few.value, few.error, many.value, many.error, few.value / 16, many.value / 512, largest);
    bool grows = many.value > 4 * few.value, level = fabs(many.value / 512 / (few.value / 16) - 1) < .5;
    if (!grows)
        outcome_why(o, VERDICT_RIGHT, "The variance does not grow with the number of units.");
    else if (level)
        outcome_why(
            o, VERDICT_OTHER_REASON,
            "tanh bounds each unit, not their sum, which grows as q·k does. It is v's initial variance of 1/units, as usual, that keeps the score: the divisor is inside v.");
    else
        outcome_why(o, VERDICT_WRONG, "The score's variance grows in either case.");
    return true;
}

/* Operations for one score, projections of q and k done once and left out. */
bool try_additive_cost(const Trial *t, Outcome *o, Error *err) {
    enum { D = 64 };
    const int dot_product = 2 * D, additive = 3 * D; /* add, then multiply and add */
    (void)t, (void)err;
    outcome_measured(
        o,
        "for one score with d_k and hidden units 64: q·k %d operations; additive %d and %d times tanh (counted, not timed)",
        dot_product, additive, D);
    outcome_why(o, additive > dot_product ? VERDICT_RIGHT : VERDICT_WRONG,
                additive > dot_product
                    ? "It needs more arithmetic, and of all scores together only q·k is a product of matrices."
                    : "It needs no more operations.");
    return true;
}

/* o = sum p_j v_j, L = <g, o>: softmax meets g.v_j where the theory has r_j. Entropy of the row and |dL/dq|, values
   times `scale`. */
static bool value_scaling(const Trial *t, double scale, Estimate *entropy, double *gradient, Error *err) {
    enum { D = 64, KEYS = 32, ROWS = 400, VALUES = (KEYS + 1) * D, DRAWN = 2 * VALUES };
    double *x = malloc(DRAWN * sizeof *x), entropies[ROWS], norms[ROWS];
    const double *q = x, *k = x + D, *g = x + VALUES, *v = g + D;
    Rng rng = trial_rng(t, 0);
    if (!x) return error_set(err, STATUS_FAILED, "no memory for a row of values");
    for (size_t row = 0; row < ROWS; row++) {
        double scores[KEYS] = {0}, r[KEYS] = {0}, p[KEYS], mean = 0, square = 0;
        rng_fill_normal(&rng, row * DRAWN, DRAWN, x);
        for (size_t j = 0; j < KEYS; j++)
            for (size_t i = 0; i < D; i++) {
                scores[j] += q[i] * k[j * D + i];
                r[j] += g[i] * scale * v[j * D + i];
            }
        TheoryRow weights = theory_softmax(scores, KEYS, 1, p);
        entropies[row] = weights.entropy;
        for (size_t j = 0; j < KEYS; j++) mean += p[j] * (r[j] - r[weights.top]);
        for (size_t i = 0; i < D; i++) {
            double sum = 0;
            for (size_t j = 0; j < KEYS; j++) sum += p[j] * (r[j] - r[weights.top] - mean) * k[j * D + i];
            square += sum * sum;
        }
        norms[row] = sqrt(square);
    }
    free(x);
    *entropy = estimate_mean(entropies, ROWS);
    *gradient = estimate_median(norms, ROWS).value;
    return true;
}

bool try_values(const Trial *t, Outcome *o, Error *err) {
    Estimate whole, eighth;
    double gradient, gradient_eighth;
    if (!value_scaling(t, 1, &whole, &gradient, err) || !value_scaling(t, .125, &eighth, &gradient_eighth, err))
        return false;
    outcome_measured(
        o, "d_k 64, 32 keys, undivided scores: entropy %.3f with V, %.3f with V / 8; median of |dL/dq| %.3g and %.3g",
        whole.value, eighth.value, gradient, gradient_eighth);
    bool cures = eighth.value > whole.value || gradient_eighth > gradient;
    outcome_why(o, cures ? VERDICT_WRONG : VERDICT_RIGHT,
                cures ? "Scaling V changes the weights, or makes the gradient larger."
                      : "The weights do not contain V: they stay as they are, and the gradient shrinks with it.");
    return true;
}

bool try_temperature(const Trial *t, Outcome *o, Error *err) {
    enum { D = 64, KEYS = 64, ROWS = 1000 };
    Population population = {.d_k = D, .keys = KEYS, .rows = ROWS};
    double *scores = population_scores(&population, trial_rng(t, 0), err), farthest = 0;
    if (!scores) return false;
    for (size_t row = 0; row < ROWS; row++) {
        double hot[KEYS], divided[KEYS], p[KEYS], *s = scores + row * KEYS;
        theory_softmax(s, KEYS, 1 / sqrt(D), hot);
        for (size_t j = 0; j < KEYS; j++) divided[j] = s[j] / sqrt(D);
        theory_softmax(divided, KEYS, 1, p);
        for (size_t j = 0; j < KEYS; j++) farthest = fmax(farthest, fabs(p[j] - hot[j]));
    }
    Estimate plain = rows_entropy(scores, ROWS, KEYS, 1 / sqrt(D));
    free(scores);
    population.cosine = true;
    if (!(scores = population_scores(&population, trial_rng(t, 0), err))) return false;
    Estimate bare = rows_entropy(scores, ROWS, KEYS, 1), scaled = rows_entropy(scores, ROWS, KEYS, sqrt(D));
    free(scores);
    outcome_measured(
        o,
        "d_k 64, 64 keys: a temperature of √d_k changes no weight (largest difference %.1g); entropy of cosines %.3f, of cosines times √d_k %.3f, of divided scores %.3f, uniform %.3f",
        farthest, bare.value, scaled.value, plain.value, log(KEYS));
    bool temperature = farthest < 1e-12, cosine = fabs(scaled.value - plain.value) < .05;
    bool flat = bare.value > .99 * log(KEYS);
    if (temperature && cosine)
        outcome_why(
            o, VERDICT_RIGHT,
            "A temperature is the divisor by another name; cosines do as well if a scale of about √d_k goes with them%s.",
            flat ? ", and alone are as good as uniform" : "");
    else
        outcome_why(o, temperature || cosine ? VERDICT_PARTLY : VERDICT_WRONG, "%s does not give the same weights.",
                    temperature ? "Normalising" : "A temperature");
    return true;
}

bool try_qk_norm(const Trial *t, Outcome *o, Error *err) {
    enum { D = 64, KEYS = 64, ROWS = 500 };
    Population population = {.d_k = D, .keys = KEYS, .rows = ROWS};
    Estimate dot_product[2], cosine[2];
    for (int grown = 0; grown < 2; grown++) {
        population.q_std = population.k_std = grown ? 10 : 1;
        for (int normalised = 0; normalised < 2; normalised++) {
            population.cosine = normalised;
            double *scores = population_scores(&population, trial_rng(t, 0), err);
            if (!scores) return false;
            (normalised ? cosine : dot_product)[grown] =
                rows_entropy(scores, ROWS, KEYS, normalised ? sqrt(D) : 1 / sqrt(D));
            free(scores);
        }
    }
    outcome_measured(
        o,
        "q and k ten times as long: entropy of q·k / √d_k falls from %.3f to %.3f, of cosines times √d_k from %.3f to %.3f",
        dot_product[0].value, dot_product[1].value, cosine[0].value, cosine[1].value);
    bool kept = fabs(cosine[1].value - cosine[0].value) < .001, lost = dot_product[1].value < dot_product[0].value / 2;
    outcome_why(
        o, kept && lost ? VERDICT_RIGHT : VERDICT_WRONG,
        kept && lost
            ? "No score leaves ± its learned scale, however long q and k become; the divisor has no such hold. What that does to training is not measured here."
            : "Normalised scores follow the length of q and k too, or the divided ones do not.");
    return true;
}
