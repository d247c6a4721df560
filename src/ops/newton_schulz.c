/* The iteration of newton_schulz.h on the Gram matrix: nothing but products of symmetric matrices of the smaller side,
   of which half is computed, and one product with the whole matrix at the end. */
#include "ops/newton_schulz.h"

#include <string.h>

#include "base/memory.h"
#include "ops/matmul.h"

enum { ITERATIONS = 5 };
static const real A = (real)3.4445, B = (real)-4.775, C = (real)2.0315;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

size_t newton_schulz_scratch(size_t rows, size_t columns) {
    const size_t s = smaller(rows, columns);
    return size_mul(4, size_mul(s, s)); /* G, Q, P and one more */
}

double newton_schulz_flops(size_t rows, size_t columns) {
    const double s = (double)smaller(rows, columns), all = (double)rows * (double)columns;
    const double symmetric = 4 * ITERATIONS - 3; /* the first P is Q, and the last G is not needed */
    return s * s * s * symmetric + s * all + 2 * s * all;
}

/* c (s,s) = alpha op(a) op(b), which is symmetric: its lower half is computed, and copied to the upper. */
static void symmetric_product(Orientation op_a, Orientation op_b, size_t s, size_t k, real alpha, const real *a,
                              const real *b, size_t stride, real *c) {
    enum { BLOCK = 16 };
    matmul_product(&(Product){op_a, op_b, false, s, s, k, stride, stride, s, alpha, LOWER_C, 0, false}, a, b, c);
    for (size_t block = 0; block < s; block += BLOCK)
        for (size_t i = block + 1; i < s; i++)
            for (size_t j = block; j < block + BLOCK && j < i; j++) c[j * s + i] = c[i * s + j];
}

/* c = alpha a b, all (s,s) */
static void multiply(size_t s, real alpha, const real *a, const real *b, real *c) {
    symmetric_product(PLAIN, PLAIN, s, s, alpha, a, b, s, c);
}

void newton_schulz(size_t rows, size_t columns, const real *x, size_t ldx, real alpha, real *y, size_t ldy,
                   real *scratch) {
    const bool tall = rows > columns;
    const size_t s = smaller(rows, columns), n = s * s;
    real *g = scratch, *q = g + n, *p = q + n, *other = p + n, *swap; /* (s,s) */
    symmetric_product(tall ? TRANSPOSED : PLAIN, tall ? PLAIN : TRANSPOSED, s, tall ? rows : columns, 1, x, x, ldx, g);
    for (int i = 0; i < ITERATIONS; i++) {
        multiply(s, C, g, g, q);
        for (size_t j = 0; j < n; j++) q[j] += B * g[j];
        for (size_t j = 0; j < s; j++) q[j * s + j] += A;
        if (i == 0) memcpy(p, q, n * sizeof *p);
        else {
            multiply(s, 1, q, p, other);
            swap = p;
            p = other;
            other = swap;
        }
        if (i + 1 == ITERATIONS) break; /* the last G is not needed */
        multiply(s, 1, q, g, other);
        multiply(s, 1, q, other, g);
    }
    if (tall) matmul(false, PLAIN, PLAIN, rows, columns, s, alpha, x, ldx, p, s, true, y, ldy);
    else matmul(false, PLAIN, PLAIN, rows, columns, s, alpha, p, s, x, ldx, true, y, ldy);
}
