/* Linear layer y = x W + b in GPT-2's orientation, W (in, out). `operands` are matmul's. Where x or dy are bf16, their
   rows are bf16_stride apart. */
#pragma once

#include "base/range.h"
#include "gemm/matmul.h"

/* y (rows, out) = x (rows, in) w (in, out) + b (out); b may be NULL. Overwrites y. Plain: plain_linear_forward. */
void linear_forward(real *y, const void *x, const void *w, const real *b, size_t rows, size_t in, size_t out,
                    Operands operands);

/* dL/dx = dL/dy W^T. Overwrites dx (rows, in). With OPERANDS_A_BF16 dy is bf16. Plain: plain_linear_backward. */
void linear_backward_input(real *dx, const void *dy, const void *w, size_t rows, size_t in, size_t out,
                           Operands operands);

/* The two functions above for operands that are rounded, with y and dx handed over in strips (matmul_strips). */
void linear_forward_strips(const void *x, const void *w, const real *b, size_t rows, size_t in, size_t out,
                           Operands operands, const StripConsumer *consumer);
void linear_backward_input_strips(const void *dy, const void *w, size_t rows, size_t in, size_t out, Operands operands,
                                  const StripConsumer *consumer);

/* dL/dW = x^T dL/dy, for `tile` of W only: threads split the tiles of W, so that each entry is one sum over all rows in
   one order. Adds to the tile of dw (in, out), or overwrites it. With OPERANDS_A_BF16 x is bf16, with OPERANDS_B_BF16
   dy is. Plain: plain_linear_backward. */
void linear_backward_weight(real *dw, const void *x, const void *dy, size_t rows, size_t in, size_t out, Tile tile,
                            bool accumulate, Operands operands);

/* dL/db = column sums of dL/dy, for `columns` only. Adds to db (out). With OPERANDS_B_BF16 dy is bf16. Plain:
   plain_linear_backward. */
void linear_backward_bias(real *restrict db, const void *restrict dy, size_t rows, size_t out, Range columns,
                          Operands operands);
