/* Stage 2, the modification of a row of raw scores before softmax gets them ("score_mod" in PyTorch's FlexAttention):
   s_ij = length_i r_ij, and with a cap X that is replaced by X tanh(s_ij / X) (Gemma Team 2024, Gemma 2, section 2).
   length_i is 1, or ln(i + 1), the logarithm of the number of keys that query i sees (Nakanishi 2025, Scalable-Softmax,
   equation 2, where the multiplier is learned). Where scores are rounded, stage 1 leaves them unmultiplied, and this
   stage multiplies them. The causal mask comes later: what softmax does not see is not modified, since a cap would make
   it finite. */

#include "model/attention_stages.h"

static real length_of(const Head *h, size_t i) { return h->a->length == LENGTH_LOG ? (real)log((double)(i + 1)) : 1; }

/* d(X tanh(s / X)) / ds = 1 - tanh^2, into `slope` unless that is NULL. */
MULTIVERSIONED static void cap_row(real *restrict row, real *restrict slope, real cap, size_t n) {
    const real per_cap = 1 / cap;
    for (size_t j = 0; j < n; j++) {
        const real y = tanh_real(row[j] * per_cap);
        row[j] = cap * y;
        if (slope) slope[j] = 1 - y * y;
    }
}

void score_mod_forward(real *panel, real *slope, const Head *h, const QueryTile *t, AttentionRounding *rounding) {
    const bool rounds = rounds_scores(h->a);
    if (!rounds && !rounding && h->a->length == LENGTH_NONE && h->a->softcap == 0) return;
    for (size_t r = 0; r < t->count; r++) {
        real *row = panel + r * t->stride;
        const size_t visible = t->first + r + 1;
        /* The length, and the multiplier where stage 1 has not multiplied. ln(1) = 0 makes even an infinite score 0. */
        const real by = length_of(h, t->first + r) * (rounds ? h->multiplier : 1);
        if (rounds) round_scores(h->a->precision, row, visible, rounding);
        for (size_t j = 0; by != 1 && j < visible; j++) row[j] = by == 0 ? 0 : row[j] * by;
        if (h->a->softcap > 0) cap_row(row, slope ? slope + r * t->stride : NULL, h->a->softcap, visible);
        round_scores(h->a->precision, row, visible, rounding);
        for (size_t j = 0; rounding && j < visible; j++) rounding->infinities += !isfinite(row[j]);
    }
}

void score_mod_backward(real *ds, const real *slope, const Head *h, const QueryTile *t) {
    if (h->a->length == LENGTH_NONE && h->a->softcap == 0) return;
    for (size_t r = 0; r < t->count; r++) {
        const real length = length_of(h, t->first + r);
        for (size_t j = r * t->stride; j <= r * t->stride + t->first + r; j++)
            ds[j] *= h->a->softcap > 0 ? length * slope[j] : length;
    }
}
