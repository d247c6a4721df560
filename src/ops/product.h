/* What a product of matrices is: c (m,n) = alpha op(a) (m,k) op(b) (k,n), or c plus that. */
#ifndef SQRTDK_OPS_PRODUCT_H
#define SQRTDK_OPS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

typedef enum { PLAIN, TRANSPOSED } Orientation;

/* Where half of it need not be computed, since a query sees no later key. With d = `diagonal`:
   LOWER_C: nobody reads c[i][j] with j > i + d, which may be left as it was.
   LOWER_A: op(a)[i][p] is zero for p > i + d.      UPPER_A: op(a)[i][p] is zero for i > p + d. */
typedef enum { WHOLE, LOWER_C, LOWER_A, UPPER_A } Triangle;

typedef struct {
    Orientation op_a, op_b; /* a is stored (m,k) when PLAIN and (k,m) when TRANSPOSED, b likewise */
    bool accumulate;
    size_t m, n, k;
    size_t lda, ldb, ldc; /* distance between rows as stored */
    real alpha;
    Triangle triangle;
    size_t diagonal;
} Product;

#endif
