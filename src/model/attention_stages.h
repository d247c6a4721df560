/* Types and functions that the files of attention share. Included only by attention*.c.

       attention.c             both passes of a head, which call the stages in turn, and what measurements ask for
       attention_scores.c      stage 1, the raw scores; queries and keys as they are scored
       attention_score_mod.c   stage 2, the modification of a row of scores
       attention_softmax.c     stage 3, the normalization, and dropout of the weights

       attention_products.c    the matrix products of a tile
       attention_rounding.c    rounding to bf16 and fp16

   No stage calls another; the last two files are helpers. */
#pragma once

#include "gemm/bf16.h"
#include "model/attention.h"
#include "ops/lanes.h"

/* One head of one sequence. Its queries, keys and values are in the arrays that all heads share and, where products
   cannot read them in place or something else reads them, copied into scratch. */
typedef struct {
    const AttentionArrays *layer;
    const AttentionConfig *a;
    size_t index, pair;        /* of the head; of it and the sequence */
    real multiplier;           /* attention_multiplier: 1 / divisor, or as learned */
    real *q, *k;               /* (T,D): as they are scored, normalized and rounded; NULL where they are in place */
    Operand query, key, value; /* (T,D): as they are scored, and v, for products */
    real *o;                   /* (T,D): the output, in place or, before it is rounded, in scratch */
    size_t o_stride;
    size_t row; /* of the head's first query in (B,H,T) */
} Head;

/* The gradients of a head's q, k, v and o, all (T,D), in the arrays that all heads share; dq, dk and dv in scratch
   before they are rounded. */
typedef struct {
    real *dq, *dk, *dv;
    const real *do_;
    real *delta; /* (T), in scratch: each row's sum_j p_ij dp_ij, for sink_backward in bf16 */
    size_t stride, o_stride;
} HeadGradients;

/* Returns the pair's partial gradient of a parameter. */
static inline real *partial_of(const Head *h, AttentionParameter parameter) {
    size_t at = h->pair * attention_partials(h->a);
    for (AttentionParameter p = 0; p < parameter; p++) at += attention_parameter(h->a, p).size;
    return h->layer->partials + at;
}

/* The queries first .. first + count - 1 and the keys that the last of them sees. Its panels are (count, keys), with
   rows `stride` apart. */
typedef struct {
    size_t first, count, keys, stride;
} QueryTile;

/* Rows of a panel are padded to whole lanes, with entries that change no sum. */
static inline size_t whole_lanes(size_t n) { return n == SIZE_MAX ? n : (n + LANES - 1) / LANES * LANES; }

static inline bool rounds_scores(const AttentionConfig *a) { return a->precision != PRECISION_FP32; }
/* Returns whether anything but a product reads queries and keys. */
static inline bool scores_read_reals(const AttentionConfig *a) {
    return a->qk_norm != QK_NORM_NONE || rounds_scores(a) || a->score != SCORE_DOT || a->learned != LEARNED_NO;
}

#define L2_EPSILON 1e-12 /* under the roots of the norms of queries and keys */
#define RMS_EPSILON 1e-6
#define LAYER_EPSILON 1e-5

/* --- Products of a tile (attention_products.c); alpha multiplies the product. */

/* panel (count, keys) = alpha x y^T, where key <= query; x (T,D) has a row per query, y (T,D) one per key. */
void queries_by_keys(real *panel, const Head *h, const QueryTile *t, real alpha, Operand x, Operand y);
/* y (count, D) = alpha panel x, x (T,D) with a row per key; the panel is zero where key > query. */
void panel_by_keys(real *y, size_t y_stride, const Head *h, const QueryTile *t, real alpha, const real *panel,
                   Operand x);
/* y (keys, D) = alpha panel^T x, or y plus that (`adds`), x (T,D) with a row per query; the panel is zero where key >
   query. */
void panel_by_queries(real *y, size_t y_stride, const Head *h, const QueryTile *t, real alpha, const real *panel,
                      Operand x, bool adds);

/* --- Stage 1 (attention_scores.c). */

/* Normalizes and rounds the first `rows` rows of h->q and h->k, where the config asks for that. `rounding` NULL, or
   counts what the rounding does. */
void prepare_qk(const Head *h, size_t rows, AttentionRounding *rounding);
/* Computes the raw scores, where key <= query, times the multiplier. Those that stage 2 rounds are not multiplied. */
void raw_scores_forward(real *panel, const Head *h, const QueryTile *t);
/* Computes dq and dk of the scored queries and keys from ds, the gradient of the multiplied scores, zero where key >
   query. It multiplies by the multiplier, also where stage 2 does so in the forward pass. Overwrites the tile's rows of
   dq; overwrites dk, or adds to it (`adds`). Adds to the partial gradient of v. */
void raw_scores_backward(const HeadGradients *g, const real *ds, const Head *h, const QueryTile *t, bool adds);
/* After all tiles, where the multiplier is learned: computes its partial gradient from dq and dk, and with additive
   scores from the partial gradient of v, all unmultiplied so far. Then multiplies them. */
void multiplier_backward(const HeadGradients *g, const Head *h);
/* After all tiles, where there is a qk_norm: turns the gradients of the scored queries and keys into the gradients of
   h->q and h->k as W_Q and W_K make them, in place, and adds to the partial gradients of the gains. */
void qk_norm_backward(const HeadGradients *g, const Head *h);

/* --- Stage 2 (attention_score_mod.c). */

/* Modifies what raw_scores_forward computes, where key <= query, in place. `slope` NULL, or where there is a cap
   becomes a panel of its derivative. `rounding` NULL, or counts. */
void score_mod_forward(real *panel, real *slope, const Head *h, const QueryTile *t, AttentionRounding *rounding);
/* Turns ds, zero where key > query, from the gradient of the modified scores into the gradient of the multiplied
   scores, in place. `slope` is what score_mod_forward left there. */
void score_mod_backward(real *ds, const real *slope, const Head *h, const QueryTile *t);

/* --- Stage 3 (attention_softmax.c). */

/* Turns a panel's scores into weights times the dropout mask, zero where key > query, and fills the rows' part of what
   is saved. Returns the largest score, or NaN where a row has no finite sum. */
real softmax_forward(real *panel, const Head *h, const QueryTile *t);
/* Turns p from scores into weights times the mask, and ds from do_i . v_j into ds, both zero where key > query. `mask`
   is scratch for a row of one. */
void softmax_backward(real *p, real *ds, real *mask, const HeadGradients *g, const Head *h, const QueryTile *t);
/* After all tiles, where the sink is learned: computes its partial gradient. */
void sink_backward(const HeadGradients *g, const Head *h);
/* Returns |ds| of query i from its scores and dp, in double whatever `real` is. */
double softmax_gradient_norm(const real *s, const real *dp, const Head *h, size_t i);
