/* The exact figures of a row of attention, as integrals. Given |q|, the scores are s X_j with s = |q| / divisor and X_j
   independent N(0, 1), and 1 / Z^m = (1 / (m-1)!) integral of t^(m-1) e^(-tZ) dt makes a product of a ratio of sums
   over the keys. Derivation: docs/theory.md.

   All integrals are computed by the trapezoidal rule. Its error falls exponentially with the step where the
   integrand is smooth and dies away on both sides, as every one does here (Trefethen and Weideman 2014). Three
   integrals are nested: over ln |q| (a node each), over y = ln t, and over x, one key's normal number. e^(k z)
   exp(-e^z), z = y + s x, is a bump for k >= 1 and a step down for k = 0. */
#include <math.h>

#include "theory/theory.h"

enum { NODES = 200 /* on either side */ };
#define X_MAX 8.6     /* the normal density there is 3e-17 */
#define Z_LOW (-42.0) /* e^z is lost beside 1 */
#define Z_HIGH 4.0    /* exp(-e^z) = 2e-24 */
#define Y_STEP 0.5    /* error e^(-pi^2 / step) = 3e-9 of what is integrated */

/* The figures given |q|. */
typedef struct {
    double weight;
    double entropy, max_weight;
    double across, along; /* E |w|^2 and E (sum w_j X_j)^2 over r, w_j = p_j (r_j - <p, r>) */
} Node;

/* The integrals over x for one y: t^k E[X^p e^(k s X) exp(-t e^(s X))], and `top`, E[e^z exp(-e^z) C^(n-1)] with C the
   part of `one` below X: a key is the largest when the n - 1 others lie below it. */
typedef struct {
    double one;                    /* p = 0, k = 0 */
    double of0[5], of1[4], of2[5]; /* p = 0, 1, 2; by k */
    double top;
} Moments;

static double nonnegative_power(double base, size_t exponent) { return exponent ? pow(base, (double)exponent) : 1; }

/* The integral of f = phi exp(-e^z) up to a grid point: `sum`, which is h times the sum over the points before it,
   half of f itself, and the end terms of Euler and Maclaurin. The argument `f` is f times h. */
static double part_below(double s, double h, double sum, double f, double x, double e) {
    double slope = -x - s * e, bend = -1 - s * s * e, third = -s * s * s * e;
    double f1 = f * slope, f3 = f * (slope * slope * slope + 3 * slope * bend + third);
    return fmax(0, sum + f / 2 - h * f1 / 12 + h * h * h * f3 / 720);
}

static Moments integrate_x(size_t n, double s, double y) {
    const double h = fmin(.2, .25 / s);
    Moments m = {0};
    const double end = fmin(X_MAX, (Z_HIGH - y) / s);
    for (int i = 0; h * i - X_MAX <= end; i++) {
        double x = h * i - X_MAX, e = exp(y + s * x), f = h * exp(-x * x / 2 - e) / sqrt(2 * M_PI);
        double bump = e * f; /* k = 1 */
        if (bump > 1e-25) m.top += bump * nonnegative_power(part_below(s, h, m.one, f, x, e), n - 1);
        m.one += f;
        for (int k = 1; k <= 4; k++) {
            m.of0[k] += bump;
            if (k < 4) m.of1[k] += bump * x;
            m.of2[k] += bump * x * x;
            bump *= e;
        }
    }
    return m;
}

/* Adds what one point y contributes to the integrals over y; see docs/theory.md for the sums over one, two, three
   keys. */
static void add_point(Node *node, const Moments *m, size_t keys, double y, double *log_sum, double *p2) {
    const double n = (double)keys, two = n * (n - 1), three = two * (n - 2), step = Y_STEP;
    double l1 = nonnegative_power(m->one, keys - 1), l2 = nonnegative_power(m->one, keys - 2);
    double l3 = keys > 2 ? nonnegative_power(m->one, keys - 3) : 0;
    const double *a = m->of0, *b = m->of1, *c = m->of2;
    *log_sum += step * (exp(-exp(y)) - l1 * m->one);
    *p2 += step * n * a[2] * l1;
    node->max_weight += step * n * m->top;
    /* sum p^2 - 2 sum p^3 + (sum p^2)^2 */
    node->across += step * (n * a[2] * l1 - n * a[3] * l1 + (n * a[4] * l1 + two * a[2] * a[2] * l2) / 6);
    /* sum p^2 X^2 - 2 (sum p^2 X)(sum p X) + (sum p^2)(sum p X)^2 */
    node->along +=
        step * (n * c[2] * l1 - (n * c[3] * l1 + two * b[2] * b[1] * l2) +
                (n * c[4] * l1 + two * (2 * b[3] * b[1] + c[2] * a[2]) * l2 + three * a[2] * b[1] * b[1] * l3) / 6);
}

/* The integrals over y, given s. The entropy is ln Z - s sum p_j X_j, whose second mean is s^2 (1 - E sum p^2) by
   parts (Stein). */
static void integrate_y(Node *node, size_t keys, double s) {
    const double edge = X_MAX * s, low = Z_LOW - edge - log((double)keys);
    double log_sum = 0, p2 = 0;
    const int steps = (int)ceil((edge + Z_HIGH - low) / Y_STEP);
    for (int i = 0; i <= steps; i++) {
        const double y = low + Y_STEP * i;
        const Moments m = integrate_x(keys, s, y);
        add_point(node, &m, keys, y, &log_sum, &p2);
    }
    node->entropy = log_sum - s * s * (1 - p2);
}

/* The outer integral has nodes in u = ln |q|, where the density of a chi is proportional to exp(d u - e^(2u) / 2):
   it peaks at e^(2u) = d. */
TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads) {
    TheoryExact exact = {.score_var = (double)d_k / (divisor * divisor), .max_weight = keys == 1};
    const double d = (double)d_k, peak = log(d) / 2, step = fmin(.2, .7 / sqrt(2 * d));
    Node nodes[2 * NODES + 1] = {0};
    double total = 0, square = 0;
    if (keys < 2) return exact; /* one weight, 1: nothing to integrate */
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
    for (int i = 0; i <= 2 * NODES; i++) {
        const double u = peak + (i - NODES) * step, weight = exp(d * (u - peak) - (exp(2 * u) - d) / 2);
        if (weight < 1e-15) continue;
        nodes[i].weight = weight;
        integrate_y(&nodes[i], keys, exp(u) / divisor);
    }
    for (int i = 0; i <= 2 * NODES; i++) total += nodes[i].weight;
    for (int i = 0; i <= 2 * NODES; i++) {
        const Node *node = &nodes[i];
        const double weight = node->weight / total;
        exact.entropy += weight * node->entropy;
        exact.max_weight += weight * node->max_weight;
        square += weight * ((d - 1) * node->across + node->along);
    }
    exact.grad_rms = sqrt(square) / divisor;
    return exact;
}

/* The variance of an additive score is E tanh^2(sqrt(2) z), z ~ N(0, 1), since d_k entries of v have variance 1 /
   d_k each. The squares of d_k cosines add up to 1. */
TheoryExact theory_exact_scoring(size_t d_k, size_t keys, TheoryScoring scoring, size_t threads) {
    const double divisor = divisor_value(scoring.divisor, d_k), d = (double)d_k;
    const double variances[THEORY_SCORE_COUNT] = {d, .519975745667, 1 / d, d, NAN};
    if (scoring.score == THEORY_DOT) return theory_exact(d_k, keys, divisor, threads);
    return (TheoryExact){variances[scoring.score] / (divisor * divisor), NAN, NAN, NAN};
}
