/* Drawing a case and measuring its rows. */
#include "theory/claims_sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "model/tensors.h"
#include "theory/exact.h"

enum { KEYS_MAX = 64, SIDE = 64 /* entries of q and k where d_k is something else */ };

static double dot(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

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
static size_t vector_room(const Case *c) { return c->queries ? c->d_k : c->d_k + 1; }
static void make_vector(double *x, const Case *c, double deviation) {
    double shared = c->correlation > 0 ? sqrt(c->correlation) * x[c->d_k] : 0, own = sqrt(1 - c->correlation);
    for (size_t i = 0; i < c->d_k; i++) x[i] = (deviation > 0 ? deviation : 1) * (shared + own * x[i]);
}

/* Rows that share their keys. x: the queries, then the keys. */
static void dot_rows(const Case *c, size_t queries, double *x, Row *rows) {
    const size_t d = c->d_k, room = vector_room(c);
    const double rest = sqrt(1 - c->alignment * c->alignment);
    double scores[KEYS_MAX];
    for (size_t j = 0; j < c->keys; j++) make_vector(x + (queries + j) * room, c, c->k_std);
    for (double *q = x; q < x + queries * room; q += room) {
        make_vector(q, c, c->q_std);
        for (size_t j = 0; j < c->keys; j++) {
            double *k = x + (queries + j) * room;
            for (size_t i = 0; c->alignment > 0 && i < d; i++) k[i] = c->alignment * q[i] + rest * k[i];
            scores[j] = dot(q, k, d) / (c->cosine ? sqrt(dot(q, q, d) * dot(k, k, d)) : 1);
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
                         tanh(dot(x + u * 2 * (size_t)SIDE, q_and_k, 2 * (size_t)SIDE) / sqrt(SIDE));
    measure_row(c, scores, row);
}

/* o = sum p_j v_j, L = <g, o>: softmax meets g.v_j where the theory has r_j. x: q, the keys, g, the values. */
static void value_row(const Case *c, const double *x, Row *row) {
    const double *k = x + SIDE, *g = k + c->keys * SIDE, *v = g + SIDE;
    double scores[KEYS_MAX], r[KEYS_MAX], p[KEYS_MAX], mean = 0, square = 0;
    for (size_t j = 0; j < c->keys; j++) scores[j] = dot(x, k + j * SIDE, SIDE);
    for (size_t j = 0; j < c->keys; j++) r[j] = c->value_scale * dot(g, v + j * SIDE, SIDE);
    measure_row(c, scores, row);
    size_t top = theory_softmax(scores, c->keys, 1, p).top;
    for (size_t j = 0; j < c->keys; j++) mean += p[j] * (r[j] - r[top]);
    for (size_t i = 0; i < SIDE; i++) {
        double sum = 0;
        for (size_t j = 0; j < c->keys; j++) sum += p[j] * (r[j] - r[top] - mean) * k[j * SIDE + i];
        square += sum * sum;
    }
    row->gradient = sqrt(square);
}

/* Normal numbers for one row, or for one matrix. */
static size_t numbers_drawn(const Case *c, size_t queries) {
    if (c->from == FROM_ADDITIVE) return c->d_k * 2 * (size_t)SIDE + c->keys * (2 * (size_t)SIDE + c->d_k);
    if (c->from == FROM_VALUES) return 2 * (c->keys + 1) * SIDE;
    return (queries + c->keys) * vector_room(c);
}

static bool draw_rows(Sample *s, const Rng *rng, Error *err) {
    const Case *c = s->of;
    const size_t queries = c->queries ? c->queries : 1, drawn = numbers_drawn(c, queries);
    double *x = malloc(drawn * sizeof *x);
    if (!x) return error_set(err, STATUS_FAILED, "no memory for %zu queries and keys", queries + c->keys);
    for (size_t row = 0; row < c->rows; row += queries) {
        rng_fill_normal(rng, row / queries * ((drawn + 3) / 4 * 4), drawn, x);
        if (c->from == FROM_ADDITIVE)
            additive_row(c, x, &s->rows[row]);
        else if (c->from == FROM_VALUES)
            value_row(c, x, &s->rows[row]);
        else
            dot_rows(c, queries, x, &s->rows[row]);
    }
    free(x);
    return true;
}

static bool count_parameters(const Case *c, double *count, Error *err) {
    ModelShape shape = {.T = 8, .C = c->width, .F = c->width, .V = 8, .L = 1, .pre_norm = true};
    TensorTable table;
    shape.attention.H = c->heads, shape.attention.D = c->d_k;
    if (!tensors_make(&table, &shape, err)) return false;
    for (const Tensor *t = table.items; t < table.items + table.count; t++)
        if (t->role == ATTN_W || t->role == ATTN_PROJ_W) *count += (double)t->count;
    tensors_free(&table);
    return true;
}

bool sample_draw(Sample *s, const Case *c, uint64_t seed, uint32_t claim, size_t threads, Error *err) {
    /* The lower half of the streams is for values of d_k (theory_measure). */
    const Rng rng = rng_make(seed, RNG_THEORY, 0x80000000u | claim << 8 | c->stream);
    int signal; /* seen by claims_run, which then prints nothing */
    uint32_t own[4];
    *s = (Sample){.of = c, .count = c->rows};
    if (c->from == FROM_THEORY) { /* another seed for each claim, or all would share their draws */
        rng_block(&rng, 0, own);
        seed = (uint64_t)own[0] << 32 | own[1];
        return theory_measure(c->d_k, c->keys, c->rows, seed, threads, &c->divisor, 1, &s->theory, &signal, err);
    }
    s->rows = calloc(c->rows, sizeof *s->rows);
    if (!s->rows) return error_set(err, STATUS_FAILED, "no memory for %zu rows", c->rows);
    if (c->from == FROM_MODEL) return count_parameters(c, &s->rows->parameters, err);
    if (c->from == FROM_INTEGRALS) {
        s->rows->entropy = theory_exact(c->d_k, c->keys, divisor_value(c->divisor, c->d_k), threads).entropy;
        s->rows->evenness = s->rows->entropy / log((double)c->keys);
    } else if (c->from == FROM_ROW) {
        measure_row(c, c->row, s->rows);
    } else {
        return draw_rows(s, &rng, err);
    }
    return true;
}

void sample_free(Sample *s) {
    free(s->rows);
    s->rows = NULL;
}
