/* A linear layer is a product in each direction: y from x, dx from dy, dW from both. The bias is copied into y before
   the product adds to it, so it costs no second loop over y. */
#include "ops/linear.h"

#include <string.h>

#include "gemm/bf16.h"

/* The distance between rows of x or dy. */
static size_t stride_of(bool bf16, size_t width) { return bf16 ? bf16_stride(width) : width; }

/* The address of a column in the first row of x or dy. */
static const void *from_column(bool bf16, const void *x, size_t column) {
    return bf16 ? (const void *)((const Bf16 *)x + column) : (const real *)x + column;
}

/* x (rows, k) times W or, if that is TRANSPOSED, W^T; its result has n columns. */
static Product product_with(Orientation w, size_t rows, size_t n, size_t k, Operands operands) {
    return (Product){.op_a = PLAIN,
                     .op_b = w,
                     .m = rows,
                     .n = n,
                     .k = k,
                     .lda = stride_of(operand_is_bf16(operands, OPERANDS_A_BF16), k),
                     .ldb = w == PLAIN ? n : k,
                     .ldc = n,
                     .alpha = 1,
                     .operands = operands};
}

void linear_forward(real *y, const void *x, const void *w, const real *b, size_t rows, size_t in, size_t out,
                    Operands operands) {
    Product product = product_with(PLAIN, rows, out, in, operands);
    product.accumulate = b != NULL;
    if (b)
        for (size_t r = 0; r < rows; r++) memcpy(y + r * out, b, out * sizeof *y);
    matmul_product(&product, x, w, y);
}

void linear_backward_input(real *dx, const void *dy, const void *w, size_t rows, size_t in, size_t out,
                           Operands operands) {
    const Product product = product_with(TRANSPOSED, rows, in, out, operands);
    matmul_product(&product, dy, w, dx);
}

void linear_forward_strips(const void *x, const void *w, const real *b, size_t rows, size_t in, size_t out,
                           Operands operands, const StripConsumer *consumer) {
    const Product product = product_with(PLAIN, rows, out, in, operands);
    matmul_strips(&product, x, w, b, consumer);
}

void linear_backward_input_strips(const void *dy, const void *w, size_t rows, size_t in, size_t out, Operands operands,
                                  const StripConsumer *consumer) {
    const Product product = product_with(TRANSPOSED, rows, in, out, operands);
    matmul_strips(&product, dy, w, NULL, consumer);
}

void linear_backward_weight(real *dw, const void *x, const void *dy, size_t rows, size_t in, size_t out, Tile tile,
                            bool accumulate, Operands operands) {
    const size_t row = tile.rows.begin, column = tile.columns.begin;
    const bool x_bf16 = operand_is_bf16(operands, OPERANDS_A_BF16),
               dy_bf16 = operand_is_bf16(operands, OPERANDS_B_BF16);
    const size_t m = range_size(tile.rows), n = range_size(tile.columns);
    matmul_product(&(Product){TRANSPOSED, PLAIN, accumulate, m, n, rows, stride_of(x_bf16, in), stride_of(dy_bf16, out),
                              out, 1, WHOLE, 0, operands},
                   from_column(x_bf16, x, row), from_column(dy_bf16, dy, column), dw + row * out + column);
}

/* Goes row by row, since dy is in memory in that order. */
MULTIVERSIONED void linear_backward_bias(real *restrict db, const void *restrict dy, size_t rows, size_t out,
                                         Range columns, Operands operands) {
    const bool bf16 = operand_is_bf16(operands, OPERANDS_B_BF16);
    const size_t stride = stride_of(bf16, out);
    for (size_t r = 0; bf16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) db[c] += bf16_value(((const Bf16 *)dy)[r * stride + c]);
    for (size_t r = 0; !bf16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) db[c] += ((const real *)dy)[r * stride + c];
}
