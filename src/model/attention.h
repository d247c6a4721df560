/* Causal multi-head attention (Vaswani et al. 2017, equation 1, with any multiplier). Nothing outside this file and
   attention.c knows that a score is a product of q and k. Three stages make the weights, each replaceable alone:

       raw score       r_ij = q_i . k_j                      of a query and each key it sees (j <= i)
       map             s_ij = multiplier r_ij                on a row of scores
       normalization   p_i  = softmax(s_i)                   on a row of scores
       output          o_i  = sum_j p_ij (mask) v_j

   Queries are taken in tiles. A tile is multiplied only by the keys that its queries see, so the masked half is
   skipped, and its scores are in a panel of ATTENTION_TILE x T numbers: no T x T matrix exists. The forward pass keeps
   each row's maximum and sum of exponentials; from these the backward pass computes the same weights again (Dao et al.
   2022, section 3.1). No stage has parameters. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/range.h"
#include "base/real.h"
#include "config/config.h"
#include "ops/dropout.h"

enum { ATTENTION_TILE = 64 }; /* queries at a time */

/* How scores are made, in all layers; part of a ModelShape. */
typedef struct {
    size_t H, D;     /* heads; d_k, the width of a query, a key and a value */
    real multiplier; /* of the raw scores: 1 / divisor */
    double qk_init_scale, qk_lr_scale;
} Attention;
/* As it is at step 0. */
Attention attention_make(const Config *config);
/* Takes the divisor of a step (attention.switch_step). */
void attention_set_step(Attention *attention, const Config *config, size_t step);

/* Widths of attention's input (queries, keys and values, each head by head) and of its output (head by head). SIZE_MAX
   when they do not fit. */
typedef enum { QUERY, KEY, VALUE, ATTENTION_PARTS } AttentionPart;
static inline size_t attention_width_out(const Attention *a) { return size_mul(a->H, a->D); }
static inline size_t attention_width_in(const Attention *a) {
    return size_mul(ATTENTION_PARTS, attention_width_out(a));
}
/* The columns of the input that are a head's queries, keys or values. */
static inline Range attention_columns(const Attention *a, AttentionPart part, size_t head) {
    const size_t begin = (part * a->H + head) * a->D;
    return (Range){begin, begin + a->D};
}
/* Factors of a part's initial weights and biases, and of their updates. */
double attention_init_scale(const Attention *attention, AttentionPart part);
double attention_lr_scale(const Attention *attention, AttentionPart part);
/* Floating-point operations of the forward pass for one position of T; the backward pass takes twice as many. The
   masked half is counted, as is usual. */
static inline double attention_flops(const Attention *a, size_t T) { return 4 * (double)(a->H * a->D) * (double)T; }
/* Numbers of scratch that one thread needs for sequences of T. */
size_t attention_scratch(const Attention *a, size_t T);

/* What the forward pass keeps for the backward pass, for `rows` rows of (B,T). */
typedef struct {
    real *row_max, *row_sum; /* (B,H,T) */
} AttentionSaved;
AttentionSaved attention_lay_out(const Attention *a, size_t rows, Arena *arena);

/* A slice of a batch in one layer's attention. A "pair" below is one head of one sequence, sequence * H + head. */
typedef struct {
    const Attention *attention;
    size_t T;        /* positions of a sequence */
    const real *qkv; /* (B,T,3HD): queries, keys and values, each head by head */
    real *out;       /* (B,T,HD) */
    AttentionSaved saved;
    Dropout dropout;    /* of the weights */
    uint64_t batch_row; /* row of the batch that is row 0 here: it decides which mask is drawn */
} AttentionLayer;

/* Overwrites the pair's part of out and saved. */
void attention_forward(const AttentionLayer *layer, size_t pair, real *scratch);

/* With dp_ij = do_i . v_j (times the dropout mask) and delta_i = sum_j p_ij dp_ij = do_i . o_i:
       ds_ij = p_ij (dp_ij - delta_i),   dq_i = multiplier sum_j ds_ij k_j,
       dk_j = multiplier sum_i ds_ij q_i,   dv_j = sum_i p_ij (mask) do_i:   O(T) a row.
   Overwrites the pair's part of dqkv (B,T,3HD). dout (B,T,HD). */
void attention_backward(const AttentionLayer *layer, size_t pair, real *dqkv, const real *dout, real *scratch);

/* --- For probes, pictures and predictions: after a forward pass, without dropout. */

/* Scores (count, first + count) of queries first .. first + count - 1 of a pair against the keys that the last of them
   sees: raw, or after the map. Entries with key > query are not meaningful. */
typedef enum { SCORES_RAW, SCORES_MAPPED } ScoreStage;
void attention_scores(const AttentionLayer *layer, size_t pair, size_t first, size_t count, ScoreStage stage,
                      real *scores);

/* The weights (visible) of one query, from its mapped scores, which they may overwrite. */
void attention_weights(const AttentionLayer *layer, size_t pair, const real *scores, size_t visible, real *weights);

/* Statistics of a row of mapped scores, in double. */
typedef struct {
    double maximum, entropy, max_weight; /* the largest score; the entropy of the weights in nats; the largest weight */
} AttentionRow;
AttentionRow attention_row(const AttentionLayer *layer, size_t pair, const real *scores, size_t visible);

/* The gradients of the queries first .. first + count - 1 of a pair: Euclidean norms |dL/dq_i| and |dL/ds_i|, into
   `query` and `scores` (count). dqkv is attention_backward's output and dout its input; count <= ATTENTION_TILE. */
void attention_gradient_norms(const AttentionLayer *layer, size_t pair, const real *dqkv, const real *dout,
                              size_t first, size_t count, double *query, double *scores, real *scratch);

/* Whether the gradient of the queries, keys or values, or of their weights, or (is_bias) of their bias, vanishes
   whatever the loss: the softmax of a single score is 1, and a key's bias adds the same number to all scores of a row,
   which softmax ignores. */
bool attention_gradient_vanishes(const Attention *attention, AttentionPart part, bool is_bias, size_t T);

/* The standard deviation of mapped scores whose queries and keys have independent entries of these variances. The part
   *_bias of a variance is the bias's, the same at all positions: a score is a sum of d_k products, and the products of
   the two biases add the same number to all scores. */
double attention_predicted_std(const Attention *attention, double query, double query_bias, double key,
                               double key_bias);
