/* exp, and loops over one row, to be inlined into MULTIVERSIONED functions. Sums and maxima run over a fixed number of
   lanes, so that they vectorize and their order does not depend on the width of the machine's vectors. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/real.h"

#ifdef REAL_DOUBLE
static inline __attribute__((always_inline)) double exp_real(double x) { return exp(x); }
static inline __attribute__((always_inline)) double tanh_real(double x) { return tanh(x); }
#else
/* Below this, exp_real is 0. WebAssembly has another number (lab/live/live.mk). */
#ifndef EXP_LEAST
#define EXP_LEAST (-86.6f)
#endif
/* exp(x) without branches, so that the compiler vectorizes it; within 2 units in the last place (tests/test_exp.c
   tries a million arguments). 0 below -86.6, where the true value is under 3e-38; infinity above 88.72; NaN stays NaN.
   x = n ln 2 + r with |r| <= ln 2 / 2, the polynomial of Cephes' expf (Moshier 1989) for e^r, and 2^n from its bits. */
static inline __attribute__((always_inline)) float exp_real(float x) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    union {
        float value;
        uint32_t bits;
    } shifted = {.value = x * 0x1.715476p0f + round}, scale;
    float n = shifted.value - round;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* 2^(n-1), then times 2: a float's exponent ends below 2^128. */
    scale.bits = (shifted.bits - 0x4B400000 + 126) << 23;
    float e = p * scale.value * 2.0f;
    /* Beyond these bounds the exponent has overflowed. If x is a NaN, so is e, and both comparisons are false. */
    e = x >= 88.73f ? INFINITY : e;
    return x < EXP_LEAST ? 0.0f : e;
}

/* tanh(x), likewise within 3 units in the last place: the polynomial of Cephes' tanhf below .625, where the other form
   would cancel, and 1 - 2 / (e^(2|x|) + 1) above. */
static inline __attribute__((always_inline)) float tanh_real(float x) {
    const float size = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float large = copysignf(1 - 2 / (exp_real(2 * size) + 1), x);
    return size < 0.625f ? p * z * x + x : large;
}
#endif

enum { LANES = 16 };

/* A vector of LANES numbers, which may begin anywhere in an array. */
typedef real Lanes __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));

/* The sum of the lanes: their upper half is added to the lower, until one lane is left. */
static inline __attribute__((always_inline)) real lanes_sum(const Lanes *lanes) {
    real lane[LANES];
    *(Lanes *)lane = *lanes;
    UNROLLED
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* Sets `lanes` to the n entries at x. If n is less than LANES, the other lanes become `rest`. A loop over single
   entries at the end of a row would be wrong here: the compiler may make vectors of some entries, and this choice
   decides which products are fused with the sums they are added to. */
static inline __attribute__((always_inline)) void lanes_load(Lanes *lanes, const real *x, size_t n, real rest) {
    if (n >= LANES) {
        *lanes = *(const Lanes *)x;
    } else {
        *lanes = rest - (Lanes){0};
        memcpy(lanes, x, n * sizeof *x);
    }
}

typedef __typeof__((Lanes){0} > (Lanes){0}) LaneMask;

/* y becomes x in the lanes where the mask is set, and stays in the others. */
static inline __attribute__((always_inline)) void lanes_replace(Lanes *y, const LaneMask *mask, const Lanes *x) {
    *y = (Lanes)((*mask & (LaneMask)*x) | (~*mask & (LaneMask)*y));
}

/* max_j x_j over n entries, -INFINITY for none; a NaN is ignored. */
static inline __attribute__((always_inline)) real lanes_maximum(const real *x, size_t n) {
    Lanes largest = -(real)INFINITY - (Lanes){0};
    real lane[LANES], maximum = -(real)INFINITY;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        const Lanes *next = (const Lanes *)(x + j);
        const LaneMask is_larger = *next > largest;
        lanes_replace(&largest, &is_larger, next);
    }
    for (; j < n; j++) maximum = x[j] > maximum ? x[j] : maximum;
    *(Lanes *)lane = largest;
    UNROLLED
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
    Lanes sum = {0}, a, b;
    for (size_t j = 0; j < n; j += LANES) {
        lanes_load(&a, x + j, n - j, 0);
        lanes_load(&b, y + j, n - j, 0);
        sum += a * b;
    }
    return lanes_sum(&sum);
}

/* sum_j x_j */
static inline __attribute__((always_inline)) real lanes_total(const real *x, size_t n) {
    Lanes sum = {0}, a;
    for (size_t j = 0; j < n; j += LANES) {
        lanes_load(&a, x + j, n - j, 0);
        sum += a;
    }
    return lanes_sum(&sum);
}

/* sum_j (x_j - mean)^2 */
static inline __attribute__((always_inline)) real lanes_squares(const real *x, real mean, size_t n) {
    Lanes sum = {0}, a;
    for (size_t j = 0; j < n; j += LANES) {
        lanes_load(&a, x + j, n - j, mean);
        a -= mean;
        sum += a * a;
    }
    return lanes_sum(&sum);
}
