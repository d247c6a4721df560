/* A linear layer is a product in each direction: y from x, dx from dy, dW from both. The bias is copied into y before
   the product adds to it, so it costs no second loop over y. */
#include "ops/linear.h"

#include <string.h>

#include "ops/bf16.h"

/* The distance between rows of x. */
static size_t stride_of(Operands operands, size_t in) { return operands == OPERANDS_A_BF16 ? bf16_stride(in) : in; }

void linear_forward(real *y, const void *x, const real *w, const real *b, size_t rows, size_t in, size_t out,
                    Operands operands) {
    if (b)
        for (size_t r = 0; r < rows; r++) memcpy(y + r * out, b, out * sizeof *y);
    matmul(operands, PLAIN, PLAIN, rows, out, in, 1, x, stride_of(operands, in), w, out, b != NULL, y, out);
}

void linear_backward_input(real *dx, const real *dy, const real *w, size_t rows, size_t in, size_t out,
                           Operands operands) {
    matmul(operands, PLAIN, TRANSPOSED, rows, in, out, 1, dy, out, w, out, false, dx, in);
}

void linear_backward_weight(real *dw, const void *x, const real *dy, size_t rows, size_t in, size_t out, Tile tile,
                            Operands operands) {
    const size_t row = tile.rows.begin, column = tile.columns.begin;
    const void *from = operands == OPERANDS_A_BF16 ? (const void *)((const Bf16 *)x + row) : (const real *)x + row;
    matmul(operands, TRANSPOSED, PLAIN, range_size(tile.rows), range_size(tile.columns), rows, 1, from,
           stride_of(operands, in), dy + column, out, true, dw + row * out + column, out);
}

/* The columns are summed PIECE at a time, in registers. */
enum { PIECE = 64 };
static inline __attribute__((always_inline)) void add_columns(real *sums, const real *x, size_t rows, size_t stride,
                                                              size_t width) {
    real sum[PIECE];
    for (size_t c = 0; c < width; c++) sum[c] = sums[c];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) sum[c] += x[r * stride + c];
    for (size_t c = 0; c < width; c++) sums[c] = sum[c];
}

MULTIVERSIONED void linear_backward_bias(real *db, const real *dy, size_t rows, size_t out, Range columns) {
    size_t c = columns.begin;
    for (; c + PIECE <= columns.end; c += PIECE) add_columns(db + c, dy + c, rows, out, PIECE);
    if (c < columns.end) add_columns(db + c, dy + c, rows, out, columns.end - c);
}
