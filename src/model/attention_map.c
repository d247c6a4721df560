/* Stage 2, the map from raw scores to those that softmax gets: s_ij = multiplier length_i r_ij, and with a cap X that
   is replaced by X tanh(s_ij / X) (Gemma Team 2024, Gemma 2, section 2). The multiplier is the same for a whole head,
   so it is stage 1's factor in both passes. length_i is 1, or ln(i + 1), the logarithm of the number of keys that query
   i sees (Nakanishi 2025, Scalable-Softmax, equation 2, where the multiplier is learned). The mask comes later: what
   softmax does not see is not mapped, since a cap would make it finite. */

#include "model/attention_stages.h"

/* The factor of a row beside the head's. */
static real row_factor(const Head *h, size_t i) { return h->a->length == LENGTH_LOG ? (real)log((double)(i + 1)) : 1; }

/* d(X tanh(s / X)) / ds = 1 - tanh^2, into `slope` unless that is NULL. */
MULTIVERSIONED static void cap_row(real *restrict row, real *restrict slope, real cap, size_t n) {
    const real per_cap = 1 / cap;
    for (size_t j = 0; j < n; j++) {
        const real y = tanh_real(row[j] * per_cap);
        row[j] = cap * y;
        if (slope) slope[j] = 1 - y * y;
    }
}

void scores_forward(real *panel, real *slope, const Head *h, const QueryTile *t, AttentionRounding *rounding) {
    const bool rounds = h->a->precision != PRECISION_FP32;
    /* Where scores are rounded, the raw scores are, before they are multiplied. */
    raw_scores(panel, h, t, rounds ? 1 : h->multiplier);
    if (!rounds && !rounding && h->a->length == LENGTH_NONE && h->a->softcap == 0) return;
    for (size_t r = 0; r < t->count; r++) {
        real *row = panel + r * t->stride;
        const size_t visible = t->first + r + 1;
        const real factor = row_factor(h, t->first + r) * (rounds ? h->multiplier : 1);
        if (rounds) round_scores(h->a->precision, row, visible, rounding);
        for (size_t j = 0; factor != 1 && j < visible; j++) row[j] = factor == 0 ? 0 : row[j] * factor;
        if (h->a->softcap > 0) cap_row(row, slope ? slope + r * t->stride : NULL, h->a->softcap, visible);
        round_scores(h->a->precision, row, visible, rounding);
        for (size_t j = 0; rounding && j < visible; j++) rounding->infinities += !isfinite(row[j]);
    }
}

void scores_backward(real *dqkv, real *ds, const real *slope, const Head *h, const QueryTile *t, bool adds) {
    for (size_t r = 0; r < t->count && (h->a->length == LENGTH_LOG || h->a->softcap > 0); r++) {
        const real factor = row_factor(h, t->first + r);
        for (size_t j = r * t->stride; j <= r * t->stride + t->first + r; j++)
            ds[j] *= h->a->softcap > 0 ? factor * slope[j] : factor;
    }
    raw_scores_backward(dqkv, ds, h, t, h->a->learned == LEARNED_NO ? h->multiplier : 1, adds);
}
