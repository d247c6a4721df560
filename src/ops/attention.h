/* Causal attention of one head over one sequence (Vaswani et al. 2017, equation 1, with any multiplier):
       s_ij = multiplier q_i . k_j   (j <= i),   p_i = softmax(s_i),   o_i = sum_j p_ij v_j.
   Queries are taken in blocks; a block meets only the keys it can see, so the masked half is skipped, and its scores
   live in a panel of ATTENTION_BLOCK x T numbers: no T x T matrix exists. Kept for the way back is a row's maximum and
   its sum of exponentials, from which the same weights are computed again (Dao et al. 2022, section 3.1). */
#ifndef SQRTDK_OPS_ATTENTION_H
#define SQRTDK_OPS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"
#include "ops/dropout.h"

enum { ATTENTION_BLOCK = 64 }; /* queries at a time */

typedef struct {
    size_t T, D;
    size_t stride;        /* distance between rows of q, k, v and their gradients (3HD: they lie side by side) */
    size_t out_stride;    /* distance between rows of out and its gradient (HD) */
    real multiplier;      /* of the scores */
    Dropout dropout;      /* of the weights p */
    uint64_t dropout_row; /* number of row 0: unique for each (sequence, head) */
} AttentionShape;

/* Numbers of scratch that one thread needs: two panels and one row of a mask. */
size_t attention_scratch(size_t T);

/* out (T, D), row_max (T), row_sum (T) from q, k, v (T, D). Overwrites. */
void attention_forward(real *out, real *row_max, real *row_sum, const real *q, const real *k, const real *v,
                       const AttentionShape *shape, real *scratch);

/* With dp_ij = do_i . v_j (times the dropout mask) and delta_i = sum_j p_ij dp_ij = do_i . o_i:
       ds_ij = p_ij (dp_ij - delta_i),   dq_i = multiplier sum_j ds_ij k_j,
       dk_j = multiplier sum_i ds_ij q_i,   dv_j = sum_i p_ij (mask) do_i:   O(T) a row.
   Overwrites dq, dk, dv (T, D). */
void attention_backward(real *dq, real *dk, real *dv, const real *dout, const real *out, const real *row_max,
                        const real *row_sum, const real *q, const real *k, const real *v, const AttentionShape *shape,
                        real *scratch);

/* The scores after the multiplier, s (count, first + count), of queries first .. first + count - 1 against the keys
   that the last of them sees; entries with key > query are not meaningful. For probes and pictures. */
void attention_scores(real *scores, const real *q, const real *k, const AttentionShape *shape, size_t first,
                      size_t count);

#endif
