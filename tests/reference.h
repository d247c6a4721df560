/* Attention of one head as plainly as possible, for what the plain engine (src/plain) does not have: dropout of the
   weights, and each row's maximum and sum. */
#pragma once

#include "ops/dropout.h"
#include "support.h"

/* One head of one sequence: its sizes, the distances between its rows, its dropout. */
typedef struct {
    size_t T, D, stride, out_stride;
    double multiplier;
    Dropout dropout;
    uint64_t dropout_row; /* the dropout row of query 0 */
} ReferenceHead;

static inline double reference_score(const real *q, const real *k, const ReferenceHead *shape, size_t i, size_t j) {
    return shape->multiplier * dot(q + i * shape->stride, k + j * shape->stride, shape->D);
}

static inline void reference_attention(real *out, real *row_max, real *row_sum, const real *q, const real *k,
                                       const real *v, const ReferenceHead *shape) {
    real *mask = reals(mask_room(shape->T));
    for (size_t i = 0; i < shape->T; i++) {
        double max = -INFINITY, sum = 0;
        for (size_t j = 0; j <= i; j++) max = fmax(max, reference_score(q, k, shape, i, j));
        for (size_t j = 0; j <= i; j++) sum += exp(reference_score(q, k, shape, i, j) - max);
        if (dropout_is_on(&shape->dropout)) dropout_mask(&shape->dropout, shape->dropout_row + i, mask, i + 1);
        for (size_t d = 0; d < shape->D; d++) {
            double o = 0;
            for (size_t j = 0; j <= i; j++)
                o += exp(reference_score(q, k, shape, i, j) - max) / sum * (double)v[j * shape->stride + d] *
                     (dropout_is_on(&shape->dropout) ? (double)mask[j] : 1);
            out[i * shape->out_stride + d] = (real)o;
        }
        row_max[i] = (real)max, row_sum[i] = (real)sum;
    }
}
