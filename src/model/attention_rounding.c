/* Rounding of queries, keys and scores to bf16 or fp16 (attention.score_precision), done in software so that every
   machine gives the same bits. Stage 1 rounds queries and keys, stage 2 the scores. */

#include "model/attention_stages.h"

/* x without its lowest `dropped` bits, to nearest, ties to even. */
static float drop_bits(float x, int dropped) {
    union {
        float value;
        uint32_t bits;
    } u = {x};
    u.bits += ((uint32_t)1 << (dropped - 1)) - 1 + (u.bits >> dropped & 1);
    u.bits &= ~(((uint32_t)1 << dropped) - 1);
    return u.value;
}

/* The smallest normal number: below it numbers are subnormal. */
static float smallest_normal(Precision precision) { return precision == PRECISION_FP16 ? 0x1p-14f : 0x1p-126f; }

static float round_to(Precision precision, float x) {
    if (!isfinite(x)) return x;
    if (precision == PRECISION_BF16) return drop_bits(x, 16);
    /* Adding 3/4 leaves multiples of 2^-24, which is what subnormals of fp16 are. */
    if (fabsf(x) < smallest_normal(PRECISION_FP16)) return copysignf(fabsf(x) + 0.75f - 0.75f, x);
    const float rounded = drop_bits(x, 13);
    return fabsf(rounded) > 65504 ? copysignf(INFINITY, x) : rounded;
}

void round_scores(Precision precision, real *x, size_t n, AttentionRounding *rounding) {
    if (precision == PRECISION_FP32) return;
    const float normal = smallest_normal(precision);
    for (size_t j = 0; j < n; j++) {
        const float before = (float)x[j], after = round_to(precision, before);
        x[j] = (real)after;
        if (!rounding) continue;
        rounding->overflows += isfinite(before) && isinf(after);
        rounding->subnormals += before != 0 && fabsf(after) < normal;
    }
}
