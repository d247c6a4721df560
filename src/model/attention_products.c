/* The three matrix products of a tile of queries with its keys: matmul_product with what every tile has in common, and
   with the half of the product that causality leaves out. The stages and the product with the values call them. */

#include "model/attention_stages.h"

static void multiply(const QueryTile *t, Orientation op_a, Orientation op_b, size_t m, size_t n, size_t k, real alpha,
                     Operand a, Operand b, bool adds, real *c, size_t ldc, Triangle triangle) {
    matmul_product(
        &(Product){op_a, op_b, adds, m, n, k, a.stride, b.stride, ldc, alpha, triangle, t->first, t->operands}, a.rows,
        b.rows, c);
}

/* x from the tile's first query on. */
static Operand queries_of(const QueryTile *t, Operand x) {
    const size_t size = t->operands == OPERANDS_BF16 ? sizeof(Bf16) : sizeof(real);
    return (Operand){(const char *)x.rows + t->first * x.stride * size, x.stride};
}

void queries_by_keys(real *panel, const QueryTile *t, size_t D, real alpha, Operand x, Operand y) {
    multiply(t, PLAIN, TRANSPOSED, t->count, t->keys, D, alpha, queries_of(t, x), y, false, panel, t->stride, LOWER_C);
}

Operand panel_operand(const real *panel, const Head *h, const QueryTile *t) {
    if (!h->rounded) return (Operand){panel, t->stride};
    bf16_round(h->rounded, t->stride, panel, t->stride, t->count, t->stride);
    return (Operand){h->rounded, t->stride};
}

void panel_by_keys(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, Operand panel, Operand x) {
    multiply(t, PLAIN, PLAIN, t->count, D, t->keys, alpha, panel, x, false, y, y_stride, LOWER_A);
}

void panel_by_queries(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, Operand panel, Operand x,
                      bool adds) {
    multiply(t, TRANSPOSED, PLAIN, t->keys, D, t->count, alpha, panel, queries_of(t, x), adds, y, y_stride, UPPER_A);
}
