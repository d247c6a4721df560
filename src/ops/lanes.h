/* exp, and loops over one row, to be inlined into MULTIVERSIONED functions. Sums and maxima run over a fixed number of
   lanes, so that they vectorize and their order does not depend on the width of the machine's vectors. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

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
    } shifted = {.value = x * 0x1.715476p0f + round}, scale, e;
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
    e.value = p * scale.value * 2.0f;
    /* Beyond these bounds the exponent has overflowed: e becomes infinity or 0. If x is a NaN, so is e, and both
       comparisons are false. Masks select, because from conditions gcc would also select between all that is computed
       from e later. */
    const uint32_t over = -(uint32_t)(x >= 88.73f), not_under = (uint32_t)(x < EXP_LEAST) - 1;
    e.bits = ((e.bits & ~over) | (0x7f800000 & over)) & not_under;
    return e.value;
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

/* A vector that registers of AVX2 can hold, elsewhere one of 16 bytes, as in NEON and WebAssembly; it may begin
   anywhere in an array. gcc keeps wider ones in memory. With AVX-512 two halves take as long as a whole: sums wait for
   the sum before. */
#ifdef __x86_64__
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
typedef real Vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef __typeof__((Vector){0} > (Vector){0}) VectorMask;
enum { VECTOR = VECTOR_BYTES / sizeof(real), VECTORS = LANES / VECTOR };

/* LANES numbers. */
typedef struct {
    Vector part[VECTORS];
} Lanes;

/* Goes through the parts of lanes. */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): p is declared. */
#define EACH_PART(p) UNROLLED for (size_t p = 0; p < VECTORS; p++)

static inline __attribute__((always_inline)) Lanes lanes_of(real value) {
    Lanes lanes = {0};
    EACH_PART(p) lanes.part[p] = value - (Vector){0};
    return lanes;
}
static inline __attribute__((always_inline)) Lanes lanes_at(const real *x) {
    Lanes lanes;
    EACH_PART(p) lanes.part[p] = *(const Vector *)(x + p * VECTOR);
    return lanes;
}
static inline __attribute__((always_inline)) void lanes_store(real *x, Lanes lanes) {
    EACH_PART(p) * (Vector *)(x + p * VECTOR) = lanes.part[p];
}

/* The sum of the lanes: their upper half is added to the lower, until one lane is left. */
static inline __attribute__((always_inline)) real lanes_sum(Lanes lanes) {
    real lane[VECTOR];
    UNROLLED
    for (size_t half = VECTORS / 2; half > 0; half /= 2)
        for (size_t p = 0; p < half; p++) lanes.part[p] += lanes.part[p + half];
    *(Vector *)lane = lanes.part[0];
    UNROLLED
    for (size_t half = VECTOR / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* Returns where LANES entries of a row of n are, from j on: in the row or, at its end, in `last` (LANES), followed by
   `rest`. A loop over single entries at the end would be wrong here: the compiler may make vectors of some entries, and
   this choice decides which products are fused with the sums they are added to. */
static inline __attribute__((always_inline)) const real *lanes_from(const real *x, size_t j, size_t n, real *last,
                                                                    real rest) {
    if (n - j >= LANES) return x + j;
    for (size_t l = 0; l < LANES; l++) last[l] = l < n - j ? x[j + l] : rest;
    return last;
}

/* Raises each of LANES maxima to the entry at x, if that is larger. */
static inline __attribute__((always_inline)) void lanes_raise(Lanes *largest, const real *x) {
    const Lanes next = lanes_at(x);
    EACH_PART(p) {
        const VectorMask is_larger = next.part[p] > largest->part[p];
        largest->part[p] =
            (Vector)((is_larger & (VectorMask)next.part[p]) | (~is_larger & (VectorMask)largest->part[p]));
    }
}

/* The largest of the lanes. */
static inline __attribute__((always_inline)) real lanes_largest(Lanes lanes) {
    real lane[LANES];
    lanes_store(lane, lanes);
    UNROLLED
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    return lane[0];
}

/* max_j x_j over n entries, -INFINITY for none; a NaN is ignored. */
static inline __attribute__((always_inline)) real lanes_maximum(const real *x, size_t n) {
    Lanes largest = lanes_of(-(real)INFINITY);
    real last[LANES];
    for (size_t j = 0; j + LANES <= n; j += LANES) lanes_raise(&largest, x + j);
    lanes_raise(&largest, n >= LANES ? x + n - LANES : lanes_from(x, 0, n, last, -(real)INFINITY));
    return lanes_largest(largest);
}

/* y_j = exp(x_j - maximum). y may be x. */
static inline __attribute__((always_inline)) void lanes_exponentials(real *y, const real *x, size_t n, real maximum) {
    for (size_t j = 0; j < n; j++) y[j] = exp_real(x[j] - maximum);
}

/* Multiplies LANES entries at y. */
static inline __attribute__((always_inline)) void lanes_multiply(real *y, real factor) {
    Lanes lanes = lanes_at(y);
    EACH_PART(p) lanes.part[p] *= factor;
    lanes_store(y, lanes);
}

/* y_j *= factor */
static inline __attribute__((always_inline)) void lanes_scale(real *y, size_t n, real factor) {
    for (size_t j = 0; j < n; j++) y[j] *= factor;
}

/* sum_j x_j y_j */
static inline __attribute__((always_inline)) real lanes_dot(const real *x, const real *y, size_t n) {
    Lanes sum = lanes_of(0);
    real last_x[LANES], last_y[LANES];
    for (size_t j = 0; j < n; j += LANES) {
        const Lanes a = lanes_at(lanes_from(x, j, n, last_x, 0)), b = lanes_at(lanes_from(y, j, n, last_y, 0));
        EACH_PART(p) sum.part[p] += a.part[p] * b.part[p];
    }
    return lanes_sum(sum);
}

/* Adds LANES entries at x to the lanes of a sum. */
static inline __attribute__((always_inline)) void lanes_add(Lanes *sum, const real *x) {
    const Lanes a = lanes_at(x);
    EACH_PART(p) sum->part[p] += a.part[p];
}

/* sum_j x_j */
static inline __attribute__((always_inline)) real lanes_total(const real *x, size_t n) {
    Lanes sum = lanes_of(0);
    real last[LANES];
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) lanes_add(&sum, x + j);
    if (j < n) lanes_add(&sum, lanes_from(x, j, n, last, 0));
    return lanes_sum(sum);
}

/* sum_j (x_j - mean)^2 */
static inline __attribute__((always_inline)) real lanes_squares(const real *x, real mean, size_t n) {
    Lanes sum = lanes_of(0);
    real last[LANES];
    for (size_t j = 0; j < n; j += LANES) {
        Lanes a = lanes_at(lanes_from(x, j, n, last, mean));
        EACH_PART(p) a.part[p] -= mean;
        EACH_PART(p) sum.part[p] += a.part[p] * a.part[p];
    }
    return lanes_sum(sum);
}
