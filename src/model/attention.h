/* Causal multi-head attention (Vaswani et al. 2017, equation 1, with any multiplier). Nothing outside this file and
   attention.c knows that a score is a product of q and k, or where q, k and v lie. Three stages make the weights, each
   replaceable alone:

       raw score       r_ij = q_i . k_j                      of a query and each key it sees (j <= i)
       map             s_ij = multiplier r_ij                on a row of scores
       normalization   p_i  = softmax(s_i)                   on a row of scores
       output          o_i  = sum_j p_ij (mask) v_j

   Queries are taken in blocks; a block meets only the keys it can see, so the masked half is skipped, and its scores
   live in a panel of ATTENTION_BLOCK x T numbers: no T x T matrix exists. What the forward pass keeps for the backward
   pass is a row's maximum and its sum of exponentials, from which the same weights are computed again (Dao et al. 2022,
   section 3.1). No stage has parameters yet; one that has owns them here, with their partial gradients by (sequence,
   head), added up in index order. */
#ifndef SQRTDK_MODEL_ATTENTION_H
#define SQRTDK_MODEL_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/real.h"
#include "ops/dropout.h"

enum { ATTENTION_BLOCK = 64 }; /* queries at a time */

/* How scores are made, for all layers; part of a ModelShape, where it is made once from the config. */
typedef struct {
    size_t H, D;     /* heads; d_k, the width of a query, a key and a value */
    real multiplier; /* of the raw scores: 1 / divisor */
} Attention;

/* Numbers in a row of what attention reads and of what it gives. */
static inline size_t attention_width_in(const Attention *a) { return 3 * a->H * a->D; }
static inline size_t attention_width_out(const Attention *a) { return a->H * a->D; }
/* Floating-point operations of the forward pass for one position of T; the backward pass takes twice as many. The
   masked half is counted, as is usual. */
static inline double attention_flops(const Attention *a, size_t T) { return 4 * (double)(a->H * a->D) * (double)T; }
/* Numbers of scratch that one thread needs: two panels and one row of a mask. */
size_t attention_scratch(size_t T);

/* A slice of a batch in one layer's attention. A "pair" below is one head of one sequence, sequence * H + head. */
typedef struct {
    const Attention *attention;
    size_t T;                /* positions of a sequence */
    const real *qkv;         /* (B,T,3HD): queries, keys and values, each head by head */
    real *out;               /* (B,T,HD) */
    real *row_max, *row_sum; /* (B,H,T) */
    Dropout dropout;         /* of the weights */
    uint64_t first;          /* row of the batch that is row 0 here: it decides which mask is drawn */
} AttentionLayer;

/* Overwrites the pair's part of out, row_max and row_sum. */
void attention_forward(const AttentionLayer *layer, size_t pair, real *scratch);

/* With dp_ij = do_i . v_j (times the dropout mask) and delta_i = sum_j p_ij dp_ij = do_i . o_i:
       ds_ij = p_ij (dp_ij - delta_i),   dq_i = multiplier sum_j ds_ij k_j,
       dk_j = multiplier sum_i ds_ij q_i,   dv_j = sum_i p_ij (mask) do_i:   O(T) a row.
   Overwrites the pair's part of dqkv (B,T,3HD). dout (B,T,HD). */
void attention_backward(const AttentionLayer *layer, size_t pair, real *dqkv, const real *dout, real *scratch);

/* What probes, pictures and predictions ask for, without dropout, from what the forward pass left behind. */

/* Scores (count, first + count) of queries first .. first + count - 1 of a pair against the keys that the last of them
   sees: raw, or behind the map. Entries with key > query are not meaningful. */
typedef enum { SCORES_RAW, SCORES_MAPPED } ScoreStage;
void attention_scores(const AttentionLayer *layer, size_t pair, size_t first, size_t count, ScoreStage stage,
                      real *scores);

/* The weights of one query, from its `visible` mapped scores, which they may overwrite. */
void attention_weights(real *weights, const real *scores, size_t visible);

/* How much gradient reaches the queries first .. first + count - 1 of a pair: |dL/dq_i| and |dL/ds_i|, Euclidean, into
   `query` and `scores` (count). dqkv and dout as attention_backward had and left them; count <= ATTENTION_BLOCK. */
void attention_gradient_lengths(const AttentionLayer *layer, size_t pair, const real *dqkv, const real *dout,
                                size_t first, size_t count, double *query, double *scores, real *scratch);

/* Whether the gradient of "q", "k" or "v", the activation's columns or the bias that is added to them, vanishes
   whatever the loss: softmax makes 1 of a single score, and a key's bias adds the same number to all scores of a row.
 */
bool attention_gradient_vanishes(const char *columns, bool is_bias, size_t T);

/* The standard deviation of mapped scores whose queries and keys have independent entries of this variance, of which
   `shared` is the same at all positions (a bias): a score is a sum of d_k products, and the product of what is shared
   adds the same number to all of them. */
double attention_predicted_std(const Attention *attention, double variance, double shared);

#endif
