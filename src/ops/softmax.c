#include "ops/softmax.h"

#include "ops/lanes.h"

HOT real row_maximum(const real *x, size_t n) { return lanes_maximum(x, n); }

HOT real row_exponentials(real *y, const real *x, size_t n, real maximum) {
    return lanes_exponentials(y, x, n, maximum);
}

HOT void row_scale(real *y, size_t n, real factor) { lanes_scale(y, n, factor); }
