/* The loss of each row of logits and its gradient, both in place: the forward pass leaves the exponentials of softmax
   in the logits, so that the backward pass needs neither an exponential nor an array of its own. */
#include "ops/cross_entropy.h"

#include <string.h>

#include "ops/lanes.h"

MULTIVERSIONED void cross_entropy_rows(real *losses, real *sums, real *logits, const int32_t *targets, size_t rows,
                                       size_t V) {
    for (size_t r = 0; r < rows; r++) {
        real *z = logits + r * V;
        losses[r] = 0;
        if (targets[r] < 0) continue;
        const real target = z[targets[r]], maximum = lanes_maximum(z, V);
        sums[r] = 0;
        lanes_exponentials(z, z, V, maximum);
        for (size_t v = V / LANES * LANES; v < V; v++) sums[r] += z[v];
        sums[r] += lanes_total(z, V / LANES * LANES);
        losses[r] = (real)log((double)sums[r]) + (maximum - target);
    }
}

MULTIVERSIONED void cross_entropy_rows_backward(real *logits, const real *sums, const int32_t *targets, real weight,
                                                size_t rows, size_t V) {
    for (size_t r = 0; r < rows; r++) {
        if (targets[r] < 0) {
            memset(logits + r * V, 0, V * sizeof *logits);
            continue;
        }
        lanes_scale(logits + r * V, V, weight / sums[r]);
        logits[r * V + (size_t)targets[r]] -= weight;
    }
}

size_t cross_entropy_correct(const real *logits, const int32_t *targets, size_t rows, size_t V) {
    size_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        const real *z = logits + r * V;
        correct += targets[r] >= 0 && lanes_maximum(z, V) == z[targets[r]];
    }
    return correct;
}
