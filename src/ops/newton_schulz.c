/* The iteration of newton_schulz.h on the Gram matrix. It multiplies symmetric matrices of the smaller side, of which
   only half is computed. A product with the whole matrix comes only at the end and before each restart. */
#include "ops/newton_schulz.h"

#include <string.h>

#include "base/memory.h"
#include "gemm/matmul.h"

enum { ITERATIONS = 5, RESTART = 2 /* in bf16, iterations until it restarts */ };
static const real A = (real)3.4445, B = (real)-4.775, C = (real)2.0315;

/* X (rows, columns) and its smaller side s. */
typedef struct {
    size_t rows, columns, s;
    const real *x;
    bool tall;
    Operands operands; /* of products */
} Whole;

/* The symmetric matrix p + shift I (s,s). */
typedef struct {
    real *p, shift;
} Shifted;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

size_t newton_schulz_scratch(size_t rows, size_t columns, bool bf16) {
    const size_t s = smaller(rows, columns), whole = size_mul(rows, columns);
    return size_add(size_mul(4, size_mul(s, s)), bf16 ? size_mul(2, whole) : 0); /* G, Q, P, one more; two X */
}

double newton_schulz_flops(size_t rows, size_t columns, bool bf16) {
    const double s = (double)smaller(rows, columns), all = (double)rows * (double)columns;
    const int starts = bf16 ? (ITERATIONS + RESTART - 1) / RESTART : 1;
    const int symmetric =
        4 * ITERATIONS - 3 * starts; /* after a start the first P is Q, and the last G is not needed */
    return s * s * s * symmetric + 3 * s * all * starts;
}

/* c (s,s) = alpha op(a) op(b), plus the old c if `add` is true. The result is symmetric: the lower half is computed
   and copied to the upper half. */
static void symmetric_product(Orientation op_a, Orientation op_b, size_t s, size_t k, Operands operands, bool add,
                              real alpha, const real *a, const real *b, size_t stride, real *c) {
    enum { BLOCK = 16 };
    matmul_product(&(Product){op_a, op_b, add, s, s, k, stride, stride, s, alpha, LOWER_C, 0, operands}, a, b, c);
    for (size_t block = 0; block < s; block += BLOCK)
        for (size_t i = block + 1; i < s; i++)
            for (size_t j = block; j < block + BLOCK && j < i; j++) c[j * s + i] = c[i * s + j];
}

/* out = (q + a I) (z + b I) - a b I for the shifts a and b, all (s,s) and symmetric. b is 0 where a is. */
static void multiply(const Whole *o, Shifted q, Shifted z, real *out) {
    const size_t s = o->s;
    const bool shifted = q.shift != 0;
    for (size_t i = 0; i < s && shifted; i++)
        for (size_t j = 0; j <= i; j++) out[i * s + j] = q.shift * z.p[i * s + j] + z.shift * q.p[i * s + j];
    symmetric_product(PLAIN, PLAIN, s, s, o->operands, shifted, 1, q.p, z.p, s, out);
}

/* Returns P, the product of the Q of `iterations` iterations that start from X. Its p is in scratch (4 s s). */
static Shifted polynomial(const Whole *o, int iterations, real *scratch) {
    const size_t s = o->s, n = s * s;
    real *other = scratch + 3 * n, *swap; /* (s,s) */
    Shifted g = {scratch, 0}, q = {scratch + n, o->operands == OPERANDS_ROUNDED ? A : 0}, p = {scratch + 2 * n, 1};
    symmetric_product(o->tall ? TRANSPOSED : PLAIN, o->tall ? PLAIN : TRANSPOSED, s, o->tall ? o->rows : o->columns,
                      o->operands, false, 1, o->x, o->x, o->columns, g.p);
    for (int i = 0; i < iterations; i++) {
        symmetric_product(PLAIN, PLAIN, s, s, o->operands, false, C, g.p, g.p, s, q.p);
        for (size_t j = 0; j < n; j++) q.p[j] += B * g.p[j];
        for (size_t j = 0; j < s; j++) q.p[j * s + j] += A - q.shift;
        if (i == 0) memcpy(p.p, q.p, n * sizeof *p.p);
        else {
            multiply(o, q, p, other);
            swap = p.p;
            p.p = other;
            other = swap;
        }
        p.shift *= q.shift;
        if (i + 1 == iterations) break; /* the last G is not needed */
        multiply(o, q, g, other);
        multiply(o, q, (Shifted){other, 0}, g.p);
    }
    return p;
}

/* y (rows, columns) += alpha P X, or alpha X P if X is tall. */
static void apply(const Whole *o, real alpha, Shifted p, real *y, size_t ldy) {
    for (size_t i = 0; i < o->rows && p.shift != 0; i++)
        for (size_t j = 0; j < o->columns; j++) y[i * ldy + j] += alpha * p.shift * o->x[i * o->columns + j];
    const Product product = {PLAIN,      PLAIN, true,  o->rows, o->columns, o->s,       o->s,
                             o->columns, ldy,   alpha, WHOLE,   0,          o->operands};
    matmul_product(&product, o->tall ? o->x : p.p, o->tall ? p.p : o->x, y);
}

void newton_schulz(size_t rows, size_t columns, const real *x, bool bf16, real alpha, real *y, size_t ldy,
                   real *scratch) {
    const size_t s = smaller(rows, columns), all = rows * columns;
    real *next = scratch + 4 * s * s, *spare = bf16 ? next + all : NULL; /* in bf16: (rows, columns) each */
    Whole o = {rows, columns, s, x, rows > columns, operands_rounded(bf16)};
    int left = ITERATIONS;
    for (; bf16 && left > RESTART; left -= RESTART) {
        memset(next, 0, all * sizeof *next);
        apply(&o, 1, polynomial(&o, RESTART, scratch), next, columns);
        o.x = next;
        next = spare;
        spare = scratch + 4 * s * s;
    }
    apply(&o, alpha, polynomial(&o, left, scratch), y, ldy);
}
