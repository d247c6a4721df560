/* All integrals by the trapezoidal rule, whose error falls exponentially with the step where the integrand is smooth
   and dies away on both sides, as every one here (Trefethen and Weideman 2014). Three of them, nested: over ln |q|
   (a node each), over y = ln t, and over x, one key's normal number. e^(k z) exp(-e^z), z = y + s x, is a bump for
   k >= 1 and a step down for k = 0, so only a band of x matters for each y. */
#include "theory/exact.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { NODES_MAX = 400 };
#define X_MAX 8.6     /* the normal density there is 3e-17 */
#define Z_LOW (-42.0) /* e^z is lost beside 1 */
#define Z_HIGH 4.0    /* exp(-e^z) = 2e-24 */
#define Y_STEP 0.5    /* error e^(-pi^2 / step) = 3e-9 of what is integrated */

typedef struct {
    double weight, s; /* of ln |q|; the scores' standard deviation */
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

typedef struct {
    size_t n, count; /* keys; points of x */
    double s, h;     /* x_i = h i - X_MAX */
    double *density; /* (count), times h */
    double *below;   /* (count + 1): sums of it */
} Grid;

static double nonnegative_power(double base, size_t exponent) { return exponent ? pow(base, (double)exponent) : 1; }

/* The integral of f = phi exp(-e^z) up to a grid point, h times the sum so far being `sum`: half of f itself, and the
   end terms of Euler and Maclaurin. `f` is times h. */
static double part_below(const Grid *g, double sum, double f, double x, double e) {
    double slope = -x - g->s * e, bend = -1 - g->s * g->s * e, third = -g->s * g->s * g->s * e, h = g->h;
    double f1 = f * slope, f3 = f * (slope * slope * slope + 3 * slope * bend + third);
    return fmax(0, sum + f / 2 - h * f1 / 12 + h * h * h * f3 / 720);
}

static Moments integrate_x(const Grid *g, double y) {
    Moments m = {0};
    double from = (Z_LOW - y) / g->s, to = (Z_HIGH - y) / g->s;
    size_t low = from <= -X_MAX ? 0 : from >= X_MAX ? g->count : (size_t)ceil((from + X_MAX) / g->h);
    size_t high = to < -X_MAX ? 0 : to >= X_MAX ? g->count : (size_t)floor((to + X_MAX) / g->h) + 1;
    m.one = g->below[low < g->count ? low : g->count];
    for (size_t i = low; i < high && i < g->count; i++) {
        double x = g->h * (double)i - X_MAX, e = exp(y + g->s * x), f = g->density[i] * exp(-e);
        double bump = e * f; /* k = 1 */
        if (bump > 1e-25) m.top += bump * nonnegative_power(part_below(g, m.one, f, x, e), g->n - 1);
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

/* What an integral over y adds at one of its points; see docs/theory.md for the sums over one, two, three keys. */
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

static bool grid_make(Grid *g, size_t n, double s) {
    g->n = n;
    g->s = s;
    g->h = fmin(.2, .25 / s);
    g->count = (size_t)ceil(2 * X_MAX / g->h) + 1;
    g->density = malloc((2 * g->count + 1) * sizeof(double));
    if (!g->density) return false;
    g->below = g->density + g->count;
    g->below[0] = 0;
    for (size_t i = 0; i < g->count; i++) {
        double x = g->h * (double)i - X_MAX;
        g->density[i] = g->h * exp(-x * x / 2) / sqrt(2 * M_PI);
        g->below[i + 1] = g->below[i] + g->density[i];
    }
    return true;
}

/* Given s. The entropy is ln Z - s sum p_j X_j, whose second mean is s^2 (1 - E sum p^2) by parts (Stein). */
static bool node_fill(Node *node, size_t keys) {
    Grid g;
    double log_sum = 0, p2 = 0, edge = X_MAX * node->s, low = Z_LOW - edge - log((double)keys);
    if (!grid_make(&g, keys, node->s)) return false;
    int steps = (int)ceil((edge + Z_HIGH - low) / Y_STEP);
    for (int i = 0; i <= steps; i++) {
        double y = low + Y_STEP * i;
        Moments m = integrate_x(&g, y);
        add_point(node, &m, keys, y, &log_sum, &p2);
    }
    free(g.density);
    node->entropy = log_sum - node->s * node->s * (1 - p2);
    return true;
}

/* Nodes in u = ln |q|, where the density of a chi is proportional to exp(d u - e^(2u) / 2): it peaks at e^(2u) = d. */
static size_t make_nodes(size_t d_k, double divisor, Node *nodes) {
    const double d = (double)d_k, peak = log(d) / 2, step = fmin(.2, .7 / sqrt(2 * d));
    double top = d * peak - d / 2, total = 0;
    size_t count = 0;
    for (int side = -1; side <= 1; side += 2)
        for (int i = side > 0; count < NODES_MAX; i++) {
            double u = peak + side * i * step, weight = exp(d * u - exp(2 * u) / 2 - top);
            if (weight < 1e-15) break;
            nodes[count++] = (Node){.weight = weight, .s = exp(u) / divisor};
            total += weight;
        }
    for (size_t i = 0; i < count; i++) nodes[i].weight /= total;
    return count;
}

TheoryExact theory_exact(size_t d_k, size_t keys, double divisor, size_t threads) {
    TheoryExact exact = {.score_var = (double)d_k / (divisor * divisor), .max_weight = keys == 1};
    Node nodes[NODES_MAX];
    double square = 0;
    if (keys < 2) return exact; /* one weight, 1: nothing to integrate */
    int count = (int)make_nodes(d_k, divisor, nodes);
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
    for (int i = 0; i < count; i++)
        if (!node_fill(&nodes[i], keys)) nodes[i].weight = NAN; /* no memory: the figures become NaN */
    for (int i = 0; i < count; i++) {
        const Node *node = &nodes[i];
        exact.entropy += node->weight * node->entropy;
        exact.max_weight += node->weight * node->max_weight;
        square += node->weight * ((double)(d_k - 1) * node->across + node->along);
    }
    exact.grad_rms = sqrt(square) / divisor;
    return exact;
}
