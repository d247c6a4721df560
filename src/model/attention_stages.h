/* What the files of attention share; nothing else includes this. Each calls only those after it:

       attention.c           a head's passes, and what probes ask for
       attention_softmax.c   stage 3, the normalization
       attention_map.c       stage 2, the map on a row of scores
       attention_scores.c    stage 1, the raw scores; queries and keys as they are scored */
#pragma once

#include "model/attention.h"
#include "ops/lanes.h"
#include "ops/matmul.h"

/* One head of one sequence: its part of the arrays that all heads share, and the distance between rows. */
typedef struct {
    const AttentionLayer *layer;
    const Attention *a;
    size_t index, pair;                   /* of the head; of it and the sequence */
    real multiplier;                      /* this head's */
    const real *q, *k;                    /* (T,D): as scores are made of them */
    size_t qk_stride;                     /* of q and k */
    size_t part[ATTENTION_PARTS], stride; /* q, k, v in qkv (B,T,3HD) and its gradient */
    size_t out, out_stride;               /* in out (B,T,HD) and its gradient */
    size_t row;                           /* in (B,H,T) */
} Head;

/* What the pair's part of the partial gradients has of a parameter. */
static inline real *partial_of(const Head *h, AttentionParameter parameter) {
    size_t at = h->pair * attention_partials(h->a);
    for (AttentionParameter p = 0; p < parameter; p++) at += attention_parameter_size(h->a, p);
    return h->layer->partials + at;
}

/* The queries first .. first + count - 1 and the keys that the last of them sees. Its panels are (count, keys), with
   rows `stride` apart. */
typedef struct {
    size_t first, count, keys, stride;
    bool bf16; /* of products */
} QueryTile;

/* Rows of a panel are padded to whole vectors, with entries that change no maximum and no sum. */
static inline size_t whole_lanes(size_t n) { return (n + LANES - 1) / LANES * LANES; }

#define L2_EPSILON 1e-12 /* under the roots of the norms of queries and keys */
#define RMS_EPSILON 1e-6
#define LAYER_EPSILON 1e-5

/* Products (attention_scores.c). panel (count, keys) = alpha x y^T, where key <= query; x (count, D) belongs to the
   queries, y (keys, D) to the keys. */
void queries_by_keys(real *panel, const QueryTile *t, size_t D, real alpha, const real *x, size_t x_stride,
                     const real *y, size_t y_stride);
/* y (count, D) = alpha panel x, x (keys, D); the panel is zero where key > query. */
void panel_by_keys(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel, const real *x,
                   size_t x_stride);
/* y (keys, D) = alpha panel^T x, or y plus that (`adds`), x (count, D); the panel is zero where key > query. */
void panel_by_queries(real *y, size_t y_stride, const QueryTile *t, size_t D, real alpha, const real *panel,
                      const real *x, size_t x_stride, bool adds);

/* --- Stage 1 (attention_scores.c). */

/* Numbers of scratch for the queries and keys of a sequence of T, 0 where they are scored as they are. */
size_t prepared_size(const Attention *a, size_t T);
/* Sets h->q and h->k: the first `rows` rows of the head's queries and keys, normalized and rounded into scratch
   (prepared_size) where that is asked for. `rounding` NULL, or counts what the rounding does. */
void prepare(Head *h, size_t rows, real *scratch, AttentionRounding *rounding);
/* The panel's entries with key <= query become factor times the raw scores. */
void raw_scores(real *panel, const Head *h, const QueryTile *t, real factor);
/* From ds, the gradient of factor times the raw scores, zero where key > query, to those of the prepared queries and
   keys: dq overwritten, dk overwritten or added to (`adds`). Adds to the partial gradient of v. */
void raw_scores_backward(real *dqkv, const real *ds, const Head *h, const QueryTile *t, real factor, bool adds);
/* After all tiles: from the gradients of prepared queries and keys to those of the queries and keys, in place, and the
   partial gradients of the gains; of a learned multiplier, where `factor` was 1. */
void prepare_backward(real *dqkv, const Head *h);

/* x (n) rounded to a format, nearest even, beyond its range to infinity. `rounding` NULL, or counts. */
void round_scores(Precision precision, real *x, size_t n, AttentionRounding *rounding);

/* --- Stage 2 (attention_map.c). */

/* Mapped scores, where key <= query; stage 1 included. `slope` NULL, or where there is a cap becomes a panel of its
   derivative. */
void scores_forward(real *panel, real *slope, const Head *h, const QueryTile *t, AttentionRounding *rounding);
/* From ds, the gradient of mapped scores, zero where key > query, which it may overwrite, through stage 1. `slope` is
   what scores_forward left there. */
void scores_backward(real *dqkv, real *ds, const real *slope, const Head *h, const QueryTile *t, bool adds);

/* --- Stage 3 (attention_softmax.c). */

/* A panel's scores become weights, zero where key > query; fills the rows' part of what is saved. Returns the largest
   score, or NaN where a row has no finite sum. */
real softmax_forward(real *panel, const Head *h, const QueryTile *t);
/* Rows `from` to `to` of a tile: p from scores to weights times the mask, ds from dp to ds, both zero where key >
   query. `mask` is NULL, or that of the one row. */
void softmax_backward(real *p, real *ds, const real *mask, const real *dout, const Head *h, const QueryTile *t,
                      size_t from, size_t to);
/* |ds| of query i from its scores and dp, in double whatever `real` is. */
double softmax_gradient_norm(const real *s, const real *dp, const Head *h, size_t i);
