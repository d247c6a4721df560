/* The iteration of newton_schulz.h. It multiplies symmetric matrices of the smaller side, of which only half is
   computed. A product with the whole matrix comes only at the end or, in bf16, after each iteration. */
#include "ops/newton_schulz.h"

#include <string.h>

#include "base/memory.h"
#include "gemm/matmul.h"

enum { ITERATIONS = 5 };
static const real A = (real)3.4445, B = (real)-4.775, C = (real)2.0315;

/* X (rows, columns) and its smaller side s. */
typedef struct {
    size_t rows, columns, s;
    const real *x;
    bool tall;
    Form form; /* of the operands of products */
} Whole;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

size_t newton_schulz_scratch(size_t rows, size_t columns, bool bf16) {
    const size_t s = smaller(rows, columns), whole = size_mul(rows, columns);
    return size_add(size_mul(4, size_mul(s, s)), bf16 ? size_mul(2, whole) : 0); /* G, Q, P, one more; two X */
}

double newton_schulz_flops(size_t rows, size_t columns, bool bf16) {
    const double s = (double)smaller(rows, columns), all = (double)rows * (double)columns;
    const int starts = bf16 ? ITERATIONS : 1;
    const int symmetric = 4 * ITERATIONS - 3 * starts; /* the first P is Q, and the last G is not needed */
    return s * s * s * symmetric + 3 * s * all * starts;
}

/* c (s,s) = alpha op(a) op(b), which is symmetric: the lower half is computed and copied to the upper half. */
static void symmetric_product(Orientation op_a, Orientation op_b, size_t s, size_t k, Form form, real alpha,
                              const real *a, const real *b, size_t stride, real *c) {
    enum { BLOCK = 16 };
    const Operand left = {a, stride, form}, right = {b, stride, form};
    const Product product = {.op_a = op_a,
                             .op_b = op_b,
                             .m = s,
                             .n = s,
                             .k = k,
                             .a = left,
                             .b = right,
                             .ldc = s,
                             .alpha = alpha,
                             .triangle = LOWER_C};
    matmul_product(&product, c);
    for (size_t block = 0; block < s; block += BLOCK)
        for (size_t i = block + 1; i < s; i++)
            for (size_t j = block; j < block + BLOCK && j < i; j++) c[j * s + i] = c[i * s + j];
}

/* g (s,s) = X X^T, or X^T X if X is tall. */
static void gram(const Whole *o, real *g) {
    symmetric_product(o->tall ? TRANSPOSED : PLAIN, o->tall ? PLAIN : TRANSPOSED, o->s, o->tall ? o->rows : o->columns,
                      o->form, 1, o->x, o->x, o->columns, g);
}

/* q (s,s) = identity I + B G + C G^2 */
static void quintic(const Whole *o, real identity, const real *g, real *q) {
    symmetric_product(PLAIN, PLAIN, o->s, o->s, o->form, C, g, g, o->s, q);
    for (size_t j = 0; j < o->s * o->s; j++) q[j] += B * g[j];
    for (size_t j = 0; j < o->s; j++) q[j * o->s + j] += identity;
}

/* Returns P (s,s), the product of the Q of all iterations that start from X. It is in scratch (4 s s). */
static const real *polynomial(const Whole *o, real *scratch) {
    const size_t n = o->s * o->s;
    real *g = scratch, *q = g + n, *p = q + n, *other = p + n, *swap;
    gram(o, g);
    quintic(o, A, g, p);
    memcpy(q, p, n * sizeof *q);
    for (int i = 1; i < ITERATIONS; i++) {
        symmetric_product(PLAIN, PLAIN, o->s, o->s, o->form, 1, q, g, o->s, other);
        symmetric_product(PLAIN, PLAIN, o->s, o->s, o->form, 1, q, other, o->s, g);
        quintic(o, A, g, q);
        symmetric_product(PLAIN, PLAIN, o->s, o->s, o->form, 1, q, p, o->s, other);
        swap = p;
        p = other;
        other = swap;
    }
    return p;
}

/* y (rows, columns) += alpha (P + identity I) X, or alpha X (P + identity I) if X is tall. */
static void apply(const Whole *o, real alpha, const real *p, real identity, real *y, size_t ldy) {
    for (size_t i = 0; i < o->rows && identity != 0; i++)
        for (size_t j = 0; j < o->columns; j++) y[i * ldy + j] += alpha * identity * o->x[i * o->columns + j];
    const Operand x = {o->x, o->columns, o->form}, square = {p, o->s, o->form};
    const Product product = {.m = o->rows,
                             .n = o->columns,
                             .k = o->s,
                             .a = o->tall ? x : square,
                             .b = o->tall ? square : x,
                             .accumulate = true,
                             .ldc = ldy,
                             .alpha = alpha};
    matmul_product(&product, y);
}

/* y += alpha times the X after all iterations, each of which rounds the last X anew: Q - A I is the rounded operand. */
static void iterate_rounded(Whole *o, real alpha, real *y, size_t ldy, real *scratch) {
    const size_t all = o->rows * o->columns;
    real *g = scratch, *q = g + o->s * o->s, *next = scratch + 4 * o->s * o->s, *spare = next + all;
    for (int i = 1; i <= ITERATIONS; i++) {
        gram(o, g);
        quintic(o, 0, g, q);
        if (i == ITERATIONS) break;
        memset(next, 0, all * sizeof *next);
        apply(o, 1, q, A, next, o->columns);
        o->x = next;
        next = spare;
        spare = (real *)o->x;
    }
    apply(o, alpha, q, A, y, ldy);
}

void newton_schulz(size_t rows, size_t columns, const real *x, bool bf16, real alpha, real *y, size_t ldy,
                   real *scratch) {
    Whole o = {rows, columns, smaller(rows, columns), x, rows > columns, bf16 ? FORM_ROUNDED : FORM_REAL};
    if (bf16) iterate_rounded(&o, alpha, y, ldy, scratch);
    else apply(&o, alpha, polynomial(&o, scratch), 0, y, ldy);
}
