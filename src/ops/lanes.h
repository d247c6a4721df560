/* Loops over one row, to be compiled into MULTIVERSIONED functions. Sums and maxima run over a fixed number of lanes,
   so that they vectorise and their order does not depend on the width of the machine's vectors. */
#pragma once

#include <math.h>
#include <stddef.h>

#include "base/real.h"
#include "ops/elementary.h"

enum { LANES = 16 };

/* One vector of them, read from and written to anywhere in an array. */
typedef real Lanes __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));

/* By halves, as vectors do it. */
static inline __attribute__((always_inline)) real lanes_sum(const Lanes *lanes) {
    real lane[LANES];
    *(Lanes *)lane = *lanes;
#pragma GCC unroll 4
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* max_j x_j over n entries, -INFINITY without any; a NaN is passed over. */
static inline __attribute__((always_inline)) real lanes_maximum(const real *x, size_t n) {
    real lane[LANES], maximum = -(real)INFINITY;
    for (size_t l = 0; l < LANES; l++) lane[l] = maximum;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
    for (; j < n; j++) maximum = x[j] > maximum ? x[j] : maximum;
#pragma GCC unroll 4
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    return lane[0] > maximum ? lane[0] : maximum;
}

/* y_j = exp(x_j - maximum); returns their sum. y may be x. */
static inline __attribute__((always_inline)) real lanes_exponentials(real *y, const real *x, size_t n, real maximum) {
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
    return sum + lanes_sum((const Lanes *)lane);
}

/* y_j *= factor */
static inline __attribute__((always_inline)) void lanes_scale(real *y, size_t n, real factor) {
    for (size_t j = 0; j < n; j++) y[j] *= factor;
}

/* sum_j x_j y_j */
static inline __attribute__((always_inline)) real lanes_dot(const real *x, const real *y, size_t n) {
    Lanes sum = {0};
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) sum += *(const Lanes *)(x + j) * *(const Lanes *)(y + j);
    real rest = 0;
    for (; j < n; j++) rest += x[j] * y[j];
    return lanes_sum(&sum) + rest;
}
