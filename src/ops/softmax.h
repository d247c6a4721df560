/* Rows of softmax and of its gradient. The maximum is subtracted first, so nothing overflows; it starts at -INFINITY.
   Sums run over lanes (ops/lanes.h). */
#ifndef SQRTDK_OPS_SOFTMAX_H
#define SQRTDK_OPS_SOFTMAX_H

#include <stddef.h>

#include "base/real.h"

/* max_j x_j over n >= 1 entries (a NaN is passed over here and comes out of the sum). */
real row_maximum(const real *x, size_t n);
/* y_j = exp(x_j - maximum); returns their sum. y may be x. */
real row_exponentials(real *y, const real *x, size_t n, real maximum);
/* y_j *= factor */
void row_scale(real *y, size_t n, real factor);

#endif
