#include "ops/softmax.h"

#include <math.h>

#include "ops/elementary.h"

enum { LANES = 16 };

HOT real row_maximum(const real *x, size_t n) {
    real lane[LANES], maximum = -(real)INFINITY;
    for (size_t l = 0; l < LANES; l++) lane[l] = maximum;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
    for (; j < n; j++) maximum = x[j] > maximum ? x[j] : maximum;
    for (size_t l = 0; l < LANES; l++) maximum = lane[l] > maximum ? lane[l] : maximum;
    return maximum;
}

HOT real row_exponentials(real *y, const real *x, size_t n, real maximum) {
    real lane[LANES] = {0}, sum = 0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            real e = exp_real(x[j + l] - maximum);
            y[j + l] = e;
            lane[l] += e;
        }
    }
    for (; j < n; j++) sum += y[j] = exp_real(x[j] - maximum);
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

HOT void row_scale(real *y, size_t n, real factor) {
    for (size_t j = 0; j < n; j++) y[j] *= factor;
}

HOT real row_dot(const real *x, const real *y, size_t n) {
    real lane[LANES] = {0}, sum = 0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += x[j + l] * y[j + l];
    for (; j < n; j++) sum += x[j] * y[j];
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}
