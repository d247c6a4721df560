/* Linear layer y = x W + b in GPT-2's orientation, W (in, out). x, W and dL/dy are operands of gemm/matmul.h, which are
   multiplied as they are, or rounded to bf16 (`rounds`); W may be packed, for linear_backward_input transposed. */
#pragma once

#include "base/range.h"
#include "gemm/matmul.h"

/* y (rows, out) = x (rows, in) w (in, out) + b (out); b may be NULL. Overwrites y. Plain: plain_linear_forward. */
void linear_forward(real *y, Operand x, Operand w, const real *b, size_t rows, size_t in, size_t out, bool rounds);

/* dL/dx = dL/dy W^T. Overwrites dx (rows, in). Plain: plain_linear_backward. */
void linear_backward_input(real *dx, Operand dy, Operand w, size_t rows, size_t in, size_t out, bool rounds);

/* dL/dW = x^T dL/dy, for `tile` of W only: threads split the tiles of W, so that each entry is one sum over all rows in
   one order. Adds to the tile of dw (in, out), or overwrites it. Plain: plain_linear_backward. */
void linear_backward_weight(real *dw, Operand x, Operand dy, size_t rows, size_t out, Tile tile, bool accumulate,
                            bool rounds);

/* dL/db = column sums of dL/dy, for `columns` only. Adds to db (out). Plain: plain_linear_backward. */
void linear_backward_bias(real *restrict db, Operand dy, size_t rows, Range columns);
