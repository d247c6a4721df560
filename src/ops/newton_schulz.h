/* Muon's approximate orthogonalization: all singular values of a matrix become about 1 (.68 to 1.14 where they were at
   least a hundredth of its norm), its singular vectors stay (Jordan et al. 2024, "Muon: an optimizer for hidden
   layers").

   In that paper X starts as the matrix, and is replaced five times: A = X X^T, X = a X + (b A + c A^2) X. This file
   computes the same on the smaller side alone ("Gram Newton-Schulz", Zhang, Amsel, Chen and Dao 2026). In each
   iteration Q = a I + b G + c G^2, the Gram matrix G = X X^T becomes Q G Q, and X becomes Q X. So the result is P X,
   where P is the product of all Q. G, Q and P are symmetric and commute, so half of each product is enough. In float
   the result is within about 1e-3 of the exact iteration's, for any matrix.

   In bf16 the rounding errors of large eigenvalues of G are larger than the small eigenvalues, and every Q multiplies
   these errors. Two things keep the errors small. First, the iteration restarts after every second Q, as in the paper
   of 2026: X becomes P X, and G is computed anew. Second, multiples of the identity are added without rounding: with Q
   = q + a I and P = p + c I, only products of q, p, G and X are rounded. For matrices whose smaller side is 16 or more,
   the result is then within 6 % of the exact iteration's, by the Frobenius norm (tests/test_optimizer.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

/* y += alpha times the orthogonalized x. Both are (rows, columns), and the rows of y are `ldy` apart. The
   Frobenius norm of x must be at most 1. `bf16` rounds the operands of products. Runs on the calling thread alone;
   scratch has newton_schulz_scratch numbers. */
void newton_schulz(size_t rows, size_t columns, const real *x, bool bf16, real alpha, real *y, size_t ldy,
                   real *scratch);
size_t newton_schulz_scratch(size_t rows, size_t columns, bool bf16);

/* The floating-point operations of newton_schulz. A symmetric product, of which half is computed, counts as half. */
double newton_schulz_flops(size_t rows, size_t columns, bool bf16);
