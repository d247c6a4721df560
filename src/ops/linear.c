/* A linear layer is a product in each direction: y from x, dx from dy, dW from both. The bias is copied into y before
   the product adds to it, so it costs no second loop over y. */
#include "ops/linear.h"

#include <string.h>

#include "ops/bf16.h"

/* The distance between rows of x, and of dy. */
static size_t x_stride(bool bf16, size_t in) { return bf16 ? bf16_stride(in) : in; }
static size_t dy_stride(bool bf16, size_t out) { return bf16 ? bf16_stride_in_place(out) : out; }

/* The address of a column in the first row of x. */
static const void *from_column(bool bf16, const void *x, size_t column) {
    return bf16 ? (const void *)((const Bf16 *)x + column) : (const real *)x + column;
}

void linear_forward(real *y, const void *x, const real *w, const real *b, size_t rows, size_t in, size_t out,
                    Operands operands) {
    if (b)
        for (size_t r = 0; r < rows; r++) memcpy(y + r * out, b, out * sizeof *y);
    matmul(operands, PLAIN, PLAIN, rows, out, in, 1, x, x_stride(operand_is_bf16(operands, OPERANDS_A_BF16), in), w,
           out, b != NULL, y, out);
}

void linear_backward_input(real *dx, const void *dy, const real *w, size_t rows, size_t in, size_t out,
                           Operands operands) {
    matmul(operands, PLAIN, TRANSPOSED, rows, in, out, 1, dy,
           dy_stride(operand_is_bf16(operands, OPERANDS_A_BF16), out), w, out, false, dx, in);
}

void linear_backward_weight(real *dw, const void *x, const void *dy, size_t rows, size_t in, size_t out, Tile tile,
                            bool accumulate, Operands operands) {
    const size_t row = tile.rows.begin, column = tile.columns.begin;
    const bool x_bf16 = operand_is_bf16(operands, OPERANDS_A_BF16),
               dy_bf16 = operand_is_bf16(operands, OPERANDS_B_BF16);
    matmul(operands, TRANSPOSED, PLAIN, range_size(tile.rows), range_size(tile.columns), rows, 1,
           from_column(x_bf16, x, row), x_stride(x_bf16, in), from_column(dy_bf16, dy, column), dy_stride(dy_bf16, out),
           accumulate, dw + row * out + column, out);
}

/* Goes row by row, since dy is in memory in that order. */
MULTIVERSIONED void linear_backward_bias(real *restrict db, const void *restrict dy, size_t rows, size_t out,
                                         Range columns, Operands operands) {
    const bool bf16 = operand_is_bf16(operands, OPERANDS_B_BF16);
    const size_t stride = dy_stride(bf16, out);
    for (size_t r = 0; bf16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) db[c] += bf16_value(((const Bf16 *)dy)[r * stride + c]);
    for (size_t r = 0; !bf16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) db[c] += ((const real *)dy)[r * stride + c];
}
