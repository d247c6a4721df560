/* The figures of a claim: each case is drawn, every row of scores is measured, and a reduction makes one figure of the
   rows. */
#include "theory/claims.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "model/tensors.h"

enum { DK_MAX = 1024, KEYS_MAX = 64, SIDE = 64 /* entries of q and k where d_k is something else */ };

/* bf16 has eight significant bits, and exponents enough for any score here. */
static double round_bf16(double x) {
    int power;
    double fraction = frexp(x, &power);
    return ldexp(nearbyint(ldexp(fraction, 8)), power - 8);
}

/* The largest change of a weight when softmax gets other scores. */
static double weight_gap(const double *p, const double *other_scores, size_t keys) {
    double q[KEYS_MAX], gap = 0;
    theory_softmax(other_scores, keys, 1, q);
    for (size_t j = 0; j < keys; j++) gap = fmax(gap, fabs(p[j] - q[j]));
    return gap;
}

static void measure_row(const Case *c, const double *scores, Row *row) {
    const double divisor = divisor_value(c->divisor, c->d_k), multiplier = scale_multiplier(c->divisor, c->d_k);
    const double n = (double)c->keys, percent = 100 / n;
    double p[KEYS_MAX], divided[KEYS_MAX], rounded[KEYS_MAX], sum = 0, squares = 0, exps = 0, safe_exps = 0;
    const TheoryRow weights = theory_softmax(scores, c->keys, multiplier, p);
    for (size_t j = 0; j < c->keys; j++) {
        double score = multiplier * scores[j];
        sum += scores[j];
        squares += scores[j] * scores[j];
        exps += exp(score);
        safe_exps += exp(score - multiplier * scores[weights.top]);
        row->largest = fmax(row->largest, fabs(score));
        row->inside += fabs(score) <= 1 ? percent : 0;
        row->beyond += fabs(score) > c->format_max ? percent : 0;
        row->steep += p[j] * (1 - p[j]) > .01 ? percent : 0;
        divided[j] = scores[j] / divisor;
        rounded[j] = round_bf16(score);
    }
    row->score = multiplier * sum / n;
    row->square = multiplier * multiplier * squares / n;
    row->exp_overflow = exps > c->format_max ? 100 : 0;
    row->safe_overflow = safe_exps > c->format_max ? 100 : 0;
    row->entropy = weights.entropy;
    row->evenness = weights.entropy / log(n);
    row->top_weight = weights.max_weight;
    row->key_share = scores[c->key] / sum;
    row->key_weight = p[c->key];
    row->key_derivative = p[c->key] * (1 - p[c->key]);
    row->bf16_error = weight_gap(p, rounded, c->keys);
    row->temperature_gap = weight_gap(p, divided, c->keys);
}

/* Each vector has a number more, which its entries share when they correlate; those of matrices do not. */
static size_t vector_length(const Case *c) { return c->queries ? c->d_k : c->d_k + 1; }
static void make_vector(double *x, const Case *c, double deviation) {
    double shared = c->correlation > 0 ? sqrt(c->correlation) * x[c->d_k] : 0, own = sqrt(1 - c->correlation);
    for (size_t i = 0; i < c->d_k; i++) x[i] = (deviation > 0 ? deviation : 1) * (shared + own * x[i]);
}

/* Rows that share their keys. x: the queries, then the keys. */
static void dot_rows(const Case *c, size_t queries, double *x, Row *rows) {
    const size_t d = c->d_k, length = vector_length(c);
    const double rest = sqrt(1 - c->alignment * c->alignment);
    double scores[KEYS_MAX];
    for (size_t j = 0; j < c->keys; j++) make_vector(x + (queries + j) * length, c, c->k_std);
    for (double *q = x; q < x + queries * length; q += length) {
        make_vector(q, c, c->q_std);
        for (size_t j = 0; j < c->keys; j++) {
            double *k = x + (queries + j) * length;
            for (size_t i = 0; c->alignment > 0 && i < d; i++) k[i] = c->alignment * q[i] + rest * k[i];
            scores[j] = theory_dot(q, k, d) / (c->cosine ? sqrt(theory_dot(q, q, d) * theory_dot(k, k, d)) : 1);
        }
        measure_row(c, scores, rows++);
    }
}

/* Entries of W1 and W2 have variance 1/64, so that each adds variance 1 to a unit; those of v have variance 1. x: W1
   and W2 side by side, then q, k and v of each key. */
static void additive_row(const Case *c, const double *x, Row *row) {
    const double *q_and_k = x + c->d_k * 2 * (size_t)SIDE;
    double scores[KEYS_MAX] = {0};
    for (size_t j = 0; j < c->keys; j++, q_and_k += 2 * (size_t)SIDE + c->d_k)
        for (size_t u = 0; u < c->d_k; u++)
            scores[j] += q_and_k[2 * (size_t)SIDE + u] *
                         tanh(theory_dot(x + u * 2 * (size_t)SIDE, q_and_k, 2 * (size_t)SIDE) / sqrt(SIDE));
    measure_row(c, scores, row);
}

/* x: q, the keys, then r, which softmax meets (theory.h); or what stands for it where o = sum p_j v_j and L = <g, o>,
   the products of g with the values: g, the values. */
static void gradient_row(const Case *c, const double *x, Row *row) {
    const size_t d = c->d_k;
    const double *k = x + d, *r = k + c->keys * d, multiplier = scale_multiplier(c->divisor, d);
    double scores[KEYS_MAX], products[KEYS_MAX], p[KEYS_MAX], sum[DK_MAX];
    for (size_t j = 0; j < c->keys; j++) {
        scores[j] = theory_dot(x, k + j * d, d);
        products[j] = c->from == FROM_VALUES ? c->value_scale * theory_dot(r, r + (j + 1) * d, d) : r[j];
    }
    measure_row(c, scores, row);
    const size_t top = theory_softmax(scores, c->keys, multiplier, p).top;
    row->gradient = theory_gradient_norm(p, products, k, c->keys, d, top, multiplier, sum);
    row->gradient_square = row->gradient * row->gradient;
}

static size_t numbers_drawn(const Case *c, size_t queries) {
    switch (c->from) {
    case FROM_ADDITIVE: return c->d_k * 2 * (size_t)SIDE + c->keys * (2 * (size_t)SIDE + c->d_k);
    case FROM_VALUES: return 2 * (c->keys + 1) * c->d_k;
    case FROM_THEORY: return (c->keys + 1) * c->d_k + c->keys;
    default: return (queries + c->keys) * vector_length(c);
    }
}

/* Ends early after a caught signal. */
static bool draw_rows(const Case *c, const Rng *rng, size_t threads, Row *rows, Error *err) {
    const size_t queries = c->queries ? c->queries : 1, drawn = numbers_drawn(c, queries);
    double *numbers = malloc(threads * drawn * sizeof *numbers);
    if (!numbers) return failed(err, "no memory for %zu queries and keys", queries + c->keys);
#pragma omp parallel for num_threads((int)threads)
    for (size_t row = 0; row < c->rows; row += queries) {
        double *x = numbers + (size_t)omp_get_thread_num() * drawn;
        if (interrupt_signal()) continue;
        rng_fill_normal(rng, row / queries * ((drawn + 3) / 4 * 4), drawn, x);
        if (c->from == FROM_ADDITIVE) additive_row(c, x, &rows[row]);
        else if (c->from == FROM_SCORES) dot_rows(c, queries, x, &rows[row]);
        else gradient_row(c, x, &rows[row]);
    }
    free(numbers);
    return true;
}

static bool count_parameters(const Case *c, double *count, Error *err) {
    ModelShape shape = {.T = 8, .C = 512, .F = 512, .V = 8, .L = 1, .pre_norm = true};
    TensorTable table;
    shape.attention.H = c->heads, shape.attention.D = c->d_k;
    if (!tensors_make(&table, &shape, err)) return false;
    for (const Tensor *t = table.items; t < table.items + table.count; t++)
        if (t->role == ATTN_W || t->role == ATTN_PROJ_W) *count += (double)t->count;
    tensors_free(&table);
    return true;
}

/* rows (c->rows), all zero. */
static bool fill_rows(const Case *c, const Rng *rng, size_t threads, Row *rows, Error *err) {
    switch (c->from) {
    case FROM_MODEL: return count_parameters(c, &rows->parameters, err);
    case FROM_ROW: measure_row(c, c->row, rows); return true;
    case FROM_INTEGRALS:
        rows->entropy = theory_exact(c->d_k, c->keys, divisor_value(c->divisor, c->d_k), threads).entropy;
        rows->evenness = rows->entropy / log((double)c->keys);
        return true;
    default: return draw_rows(c, rng, threads, rows, err);
    }
}

bool claim_measure(const Claim *claim, uint32_t number, uint64_t seed, size_t threads,
                   Figure figures[STATISTICS_MAX][CASES_MAX], Error *err) {
    for (size_t i = 0; i < CASES_MAX && claim->cases[i].d_k; i++) {
        const Case *c = &claim->cases[i];
        /* The lower half of the streams is theory_measure's. */
        Rng rng = rng_make(seed, RNG_THEORY, 0x80000000u | number << 8 | c->stream);
        uint32_t own[4]; /* another seed for each claim, or all that are FROM_THEORY would share their draws */
        rng_block(&rng, 0, own);
        if (c->from == FROM_THEORY) rng = rng_make((uint64_t)own[0] << 32 | own[1], RNG_THEORY, (uint32_t)c->d_k);
        Row *rows = calloc(c->rows, sizeof *rows);
        double *x = malloc(c->rows * sizeof *x);
        bool ok = (rows && x) || failed(err, "no memory for %zu rows", c->rows);
        ok = ok && fill_rows(c, &rng, threads, rows, err);
        for (const Statistic *s = claim->statistics; ok && s < claim->statistics + STATISTICS_MAX && s->take; s++) {
            for (size_t r = 0; r < c->rows; r++) memcpy(&x[r], (const char *)&rows[r] + s->field, sizeof *x);
            figures[s - claim->statistics][i] = s->take(x, c->rows);
        }
        free(rows);
        free(x);
        if (!ok) return false;
    }
    return true;
}

static Figure figure_of(Estimate e) { return (Figure){e.value, e.value - 5 * e.error, e.value + 5 * e.error}; }

/* A single row has no error. */
static Estimate mean_and_error(const double *x, size_t n) { return n > 1 ? estimate_mean(x, n) : (Estimate){*x, 0}; }

Figure mean_of(double *x, size_t n) { return figure_of(mean_and_error(x, n)); }

Figure root_of(double *x, size_t n) { return figure_of(theory_root(mean_and_error(x, n))); }

Figure excess_of(double *x, size_t n) {
    const double mean = mean_and_error(x, n).value;
    for (size_t i = 0; i < n; i++) x[i] *= x[i];
    const Estimate square = mean_and_error(x, n);
    return figure_of((Estimate){square.value / (mean * mean) - 3, square.error});
}

Figure largest_of(double *x, size_t n) {
    double largest = -INFINITY;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, x[i]);
    return (Figure){largest, largest, largest};
}

Figure median_of_rows(double *x, size_t n) { return figure_of(estimate_median(x, n)); }

/* Median and 95 % range of matrices, x (n). */
static Figure range_of(double *x, size_t n) {
    sort_numbers(x, n);
    return (Figure){quantile(x, n, .5), x[n / 40], x[n - 1 - n / 40]};
}

Figure matrix_mean_of(double *x, size_t n) {
    for (size_t m = 0; m < n / MATRIX_ROWS; m++) x[m] = mean_of(x + m * MATRIX_ROWS, MATRIX_ROWS).value;
    return range_of(x, n / MATRIX_ROWS);
}

Figure matrix_largest_of(double *x, size_t n) {
    for (size_t m = 0; m < n / MATRIX_ROWS; m++) x[m] = largest_of(x + m * MATRIX_ROWS, MATRIX_ROWS).value;
    return range_of(x, n / MATRIX_ROWS);
}
