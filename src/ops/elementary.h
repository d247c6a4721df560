/* exp for loops over many numbers: without branches, so that the compiler vectorises it. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/real.h"

#ifdef REAL_DOUBLE
static inline __attribute__((always_inline)) double exp_real(double x) { return exp(x); }
#else
/* exp(x) within 2 units in the last place (tests/test_base.c looks at a million arguments); 0 below -86.6, where the
   true value is under 3e-38; infinity above 88.72; NaN stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2, the polynomial
   of Cephes' expf (Moshier 1989) for e^r, and 2^n put together from its bits. */
static inline __attribute__((always_inline)) float exp_real(float x) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    /* A NaN compares false and would become 0 here, so it is put back at the end. */
    float bounded = x < 88.73f ? x : 88.73f;
    bounded = bounded > -86.6f ? bounded : -86.6f;
    union {
        float value;
        int32_t bits;
    } shifted = {.value = bounded * 0x1.715476p0f + round}, scale;
    float n = shifted.value - round;
    float r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* 2^(n-1), then twice: 2^128 has no bits of its own. */
    scale.bits = (int32_t)((uint32_t)(shifted.bits - 0x4B400000 + 126) << 23);
    float e = p * scale.value * 2.0f;
    e = x < -86.6f ? 0.0f : e;
    return x == x ? e : x;
}
#endif
