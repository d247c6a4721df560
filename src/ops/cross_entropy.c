#include "ops/cross_entropy.h"

#include <math.h>

#include "ops/lanes.h"

/* Rows of softmax: a maximum, the exponentials below it and their sum, and what they are multiplied by. */
MULTIVERSIONED static real maximum_of(const real *x, size_t n) { return lanes_maximum(x, n); }
MULTIVERSIONED static real exponentials(real *x, size_t n, real maximum) {
    return lanes_exponentials(x, x, n, maximum);
}
MULTIVERSIONED static void scale(real *x, size_t n, real factor) { lanes_scale(x, n, factor); }

void cross_entropy_forward(real *losses, real *sums, real *logits, const int32_t *targets, size_t rows, size_t V) {
    for (size_t r = 0; r < rows; r++) {
        real *z = logits + r * V;
        real target = z[targets[r]], maximum = maximum_of(z, V);
        sums[r] = exponentials(z, V, maximum);
        losses[r] = (real)log((double)sums[r]) + (maximum - target);
    }
}

void cross_entropy_backward(real *logits, const real *sums, const int32_t *targets, real weight, size_t rows,
                            size_t V) {
    for (size_t r = 0; r < rows; r++) {
        scale(logits + r * V, V, weight / sums[r]);
        logits[r * V + (size_t)targets[r]] -= weight;
    }
}
