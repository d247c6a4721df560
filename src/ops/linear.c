/* A linear layer is a product in each direction: y from x, dx from dy, dW from both. */
#include "ops/linear.h"

#include "gemm/bf16.h"

/* x (rows, k) times W or, if that is TRANSPOSED, W^T; its result has n columns. */
static Product product_with(Orientation as, size_t rows, size_t n, size_t k, Operand x, Operand w, bool rounds) {
    return (Product){.op_b = as, .m = rows, .n = n, .k = k, .a = x, .b = w, .rounds = rounds, .ldc = n, .alpha = 1};
}

void linear_forward(real *y, Operand x, Operand w, const real *b, size_t rows, size_t in, size_t out, bool rounds) {
    Product product = product_with(PLAIN, rows, out, in, x, w, rounds);
    product.bias = b;
    matmul_product(&product, y);
}

void linear_backward_input(real *dx, Operand dy, Operand w, size_t rows, size_t in, size_t out, bool rounds) {
    const Product product = product_with(TRANSPOSED, rows, in, out, dy, w, rounds);
    matmul_product(&product, dx);
}

void linear_backward_weight(real *dw, Operand x, Operand dy, size_t rows, size_t out, Tile tile, bool accumulate,
                            bool rounds) {
    const size_t row = tile.rows.begin, column = tile.columns.begin;
    const Product product = {.op_a = TRANSPOSED,
                             .m = range_size(tile.rows),
                             .n = range_size(tile.columns),
                             .k = rows,
                             .a = operand_from(x, 0, row),
                             .b = operand_from(dy, 0, column),
                             .rounds = rounds,
                             .accumulate = accumulate,
                             .ldc = out,
                             .alpha = 1};
    matmul_product(&product, dw + row * out + column);
}

/* Goes row by row, since dy is in memory in that order. */
MULTIVERSIONED void linear_backward_bias(real *restrict db, Operand dy, size_t rows, Range columns) {
    const Bf16 *kept = dy.rows;
    const real *restrict values = dy.rows;
    for (size_t r = 0; dy.form == FORM_BF16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) db[c] += bf16_value(kept[r * dy.stride + c]);
    for (size_t r = 0; dy.form == FORM_REAL && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) db[c] += values[r * dy.stride + c];
}
