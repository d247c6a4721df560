/* The three matrix products of a tile of queries with its keys: matmul_product with what every tile has in common, and
   with the half of the product that causality leaves out. The stages and the product with the values call them. */

#include "model/attention_stages.h"

static void multiply(const QueryTile *t, Orientation op_a, Orientation op_b, size_t m, size_t n, size_t k, real alpha,
                     const real *a, size_t lda, const real *b, size_t ldb, bool adds, real *c, size_t ldc,
                     Triangle triangle) {
    matmul_product(&(Product){op_a, op_b, adds, m, n, k, lda, ldb, ldc, alpha, triangle, t->first, t->operands}, a, b,
                   c);
}

void queries_by_keys(real *panel, const QueryTile *t, size_t D, real alpha, const real *x, size_t x_stride,
                     const real *y, size_t y_stride) {
    multiply(t, PLAIN, TRANSPOSED, t->count, t->keys, D, alpha, x, x_stride, y, y_stride, false, panel, t->stride,
             LOWER_C);
}

void panel_by_keys(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel, const real *x,
                   size_t x_stride) {
    multiply(t, PLAIN, PLAIN, t->count, D, t->keys, alpha, panel, t->stride, x, x_stride, false, y, y_stride, LOWER_A);
}

void panel_by_queries(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel,
                      const real *x, size_t x_stride, bool adds) {
    multiply(t, TRANSPOSED, PLAIN, t->keys, D, t->count, alpha, panel, t->stride, x, x_stride, adds, y, y_stride,
             UPPER_A);
}
