/* Muon's approximate orthogonalization: all singular values of a matrix become about 1 (.68 to 1.14 where they were at
   least a hundredth of its norm), its singular vectors stay (Jordan et al. 2024, "Muon: an optimizer for hidden
   layers").

   In that paper X starts as the matrix, and is replaced five times: G = X X^T, X = Q X with Q = a I + b G + c G^2.

   In float this file computes the same on the smaller side alone ("Gram Newton-Schulz", Zhang, Amsel, Chen and Dao
   2026): the Gram matrix G becomes Q G Q in each iteration, and the result is P X, where P is the product of all Q. G,
   Q and P are symmetric and commute, so half of each product is enough. The result is within about 1e-3 of the exact
   iteration's, for any matrix.

   In bf16 the rounding errors of large eigenvalues of G are larger than the small eigenvalues, and every further Q
   would multiply these errors. So each iteration computes G from X, as the first paper does, of which half is enough,
   too; and a X is added without rounding, so that only products of b G + c G^2, G and X are rounded. By the Frobenius
   norm the result is within 6 % of the exact iteration's for random matrices of any rank whose smaller side is 16 or
   more. It is within 13 % in the worst cases that tests/test_optimizer.c tries: few rows, repeated or alone, and rows
   or columns of very different size. In such a matrix the rounding errors of a column have the same sign and add up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

/* Adds alpha times the orthogonalized x to y. Both are (rows, columns), and the rows of y are `ldy` apart. The
   Frobenius norm of x must be at most 1. `bf16` rounds the operands of products. Runs on the calling thread alone;
   scratch has newton_schulz_scratch numbers. */
void newton_schulz(size_t rows, size_t columns, const real *x, bool bf16, real alpha, real *y, size_t ldy,
                   real *scratch);
size_t newton_schulz_scratch(size_t rows, size_t columns, bool bf16);

/* Returns the floating-point operations of newton_schulz. A symmetric product, of which half is computed, counts as
   half. */
double newton_schulz_flops(size_t rows, size_t columns, bool bf16);
