/* The three matrix products of a tile of queries with its keys: matmul_product with what every tile has in common, and
   with the half of the product that causality leaves out. The stages and the product with the values call them. */

#include "model/attention_stages.h"

static void multiply(const QueryTile *t, Orientation op_a, Orientation op_b, size_t m, size_t n, size_t k, real alpha,
                     Operand a, Operand b, bool adds, real *c, size_t ldc, Triangle triangle) {
    const Product product = {.op_a = op_a,
                             .op_b = op_b,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .b = b,
                             .accumulate = adds,
                             .ldc = ldc,
                             .alpha = alpha,
                             .triangle = triangle,
                             .diagonal = t->first};
    matmul_product(&product, c);
}

void queries_by_keys(real *panel, const Head *h, const QueryTile *t, real alpha, Operand x, Operand y) {
    multiply(t, PLAIN, TRANSPOSED, t->count, t->keys, h->a->D, alpha, operand_from(x, t->first, 0), y, false, panel,
             t->stride, LOWER_C);
}

void panel_by_keys(real *y, size_t y_stride, const Head *h, const QueryTile *t, real alpha, const real *panel,
                   Operand x) {
    multiply(t, PLAIN, PLAIN, t->count, h->a->D, t->keys, alpha, (Operand){panel, t->stride, FORM_REAL}, x, false, y,
             y_stride, LOWER_A);
}

void panel_by_queries(real *y, size_t y_stride, const Head *h, const QueryTile *t, real alpha, const real *panel,
                      Operand x, bool adds) {
    multiply(t, TRANSPOSED, PLAIN, t->keys, h->a->D, t->count, alpha, (Operand){panel, t->stride, FORM_REAL},
             operand_from(x, t->first, 0), adds, y, y_stride, UPPER_A);
}
