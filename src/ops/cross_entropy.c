#include "ops/cross_entropy.h"

#include <math.h>

#include "ops/softmax.h"

void cross_entropy_forward(real *losses, real *sums, real *logits, const int32_t *targets, size_t rows, size_t V) {
    for (size_t r = 0; r < rows; r++) {
        real *z = logits + r * V;
        real target = z[targets[r]], maximum = row_maximum(z, V);
        sums[r] = row_exponentials(z, z, V, maximum);
        losses[r] = (real)log((double)sums[r]) + (maximum - target);
    }
}

void cross_entropy_backward(real *logits, const real *sums, const int32_t *targets, real weight, size_t rows,
                            size_t V) {
    for (size_t r = 0; r < rows; r++) {
        row_scale(logits + r * V, V, weight / sums[r]);
        logits[r * V + (size_t)targets[r]] -= weight;
    }
}
