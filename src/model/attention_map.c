/* Stage 2, the map from raw scores to those that softmax gets: s_ij = multiplier length_i r_ij. The multiplier is the
   same for a whole head, so it is stage 1's factor in both passes. length_i is 1, or ln(i + 1), the logarithm of the
   number of keys that query i sees (Nakanishi 2025, Scalable-Softmax, equation 2, where the multiplier is learned). */
#include <math.h>

#include "model/attention_stages.h"

/* The factor of a row beside the head's. */
static real row_factor(const Head *h, size_t i) { return h->a->length == LENGTH_LOG ? (real)log((double)(i + 1)) : 1; }

void scores_forward(real *panel, const Head *h, const QueryTile *t, AttentionRounding *rounding) {
    const bool rounds = h->a->precision != PRECISION_FP32;
    /* Where scores are rounded, the raw scores are, before they are multiplied. */
    raw_scores(panel, h, t, rounds ? 1 : h->multiplier);
    if (!rounds && !rounding && h->a->length == LENGTH_NONE) return;
    for (size_t r = 0; r < t->count; r++) {
        real *row = panel + r * t->stride;
        const size_t visible = t->first + r + 1;
        const real factor = row_factor(h, t->first + r) * (rounds ? h->multiplier : 1);
        if (rounds) round_scores(h->a->precision, row, visible, rounding);
        for (size_t j = 0; factor != 1 && j < visible; j++) row[j] *= factor;
        round_scores(h->a->precision, row, visible, rounding);
        for (size_t j = 0; rounding && j < visible; j++) rounding->infinities += !isfinite(row[j]);
    }
}

void scores_backward(real *dqkv, real *ds, const Head *h, const QueryTile *t, bool adds) {
    for (size_t r = 0; h->a->length == LENGTH_LOG && r < t->count; r++) {
        const real factor = row_factor(h, t->first + r);
        for (size_t j = 0; j <= t->first + r; j++) ds[r * t->stride + j] *= factor;
    }
    raw_scores_backward(dqkv, ds, h, t, h->a->learned == LEARNED_NO ? h->multiplier : 1, adds);
}
