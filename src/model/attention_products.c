/* The three matrix products of a tile of queries with its keys: matmul_product with what every tile has in common, and
   with the half of the product that causality leaves out. The stages and the product with the values call them. */

#include "model/attention_stages.h"

static void multiply(const Head *h, const QueryTile *t, Orientation op_a, Orientation op_b, size_t m, size_t n,
                     size_t k, real alpha, Operand a, Operand b, bool adds, real *c, size_t ldc, Triangle triangle) {
    const Operands operands =
        operands_rounded(h->a->bf16) | (a.bf16 ? OPERANDS_A_BF16 : 0) | (b.bf16 ? OPERANDS_B_BF16 : 0);
    matmul_product(&(Product){op_a, op_b, adds, m, n, k, a.stride, b.stride, ldc, alpha, triangle, t->first, operands},
                   a.rows, b.rows, c);
}

/* x from the tile's first query on. */
static Operand queries_of(const QueryTile *t, Operand x) {
    const size_t size = x.bf16 ? sizeof(Bf16) : sizeof(real);
    return (Operand){(const char *)x.rows + t->first * x.stride * size, x.stride, x.bf16};
}

void queries_by_keys(real *panel, const Head *h, const QueryTile *t, real alpha, Operand x, Operand y) {
    multiply(h, t, PLAIN, TRANSPOSED, t->count, t->keys, h->a->D, alpha, queries_of(t, x), y, false, panel, t->stride,
             LOWER_C);
}

void panel_by_keys(real *y, size_t y_stride, const Head *h, const QueryTile *t, real alpha, const real *panel,
                   Operand x) {
    multiply(h, t, PLAIN, PLAIN, t->count, h->a->D, t->keys, alpha, (Operand){panel, t->stride, false}, x, false, y,
             y_stride, LOWER_A);
}

void panel_by_queries(real *y, size_t y_stride, const Head *h, const QueryTile *t, real alpha, const real *panel,
                      Operand x, bool adds) {
    multiply(h, t, TRANSPOSED, PLAIN, t->keys, h->a->D, t->count, alpha, (Operand){panel, t->stride, false},
             queries_of(t, x), adds, y, y_stride, UPPER_A);
}
