/* How much gradient reaches each query and each row of scores: what a saturated softmax is said to stop. */
#ifndef SQRTDK_MODEL_GRADIENT_PROBE_H
#define SQRTDK_MODEL_GRADIENT_PROBE_H

#include "model/transformer.h"

/* Of a set of lengths; quantiles are interpolated between the two nearest (as NumPy does). */
typedef struct {
    double mean, rms, median, p10, p99;
} Spread;

/* One head over a batch, its rows with at least two visible keys; NaN when T is 1, or where a length is
   not finite. Lengths are Euclidean, of derivatives of the sum of the batch's losses, without dropout. */
typedef struct {
    Spread query;  /* |dL/dq_i| */
    Spread scores; /* |dL/ds_i|, s_i a row's scores after the multiplier, before softmax */
} GradientStatistics;

/* Numbers of room that probe_gradients needs. */
static inline size_t gradient_probe_room(const ModelShape *shape, size_t B) {
    return size_mul(size_mul(2, size_mul(shape->L, shape->H)), size_mul(B, shape->T));
}

/* Every head, (L, H). The batch has targets and is one slice (model_slice); the model was made with gradients, which
   are overwritten. Leaves activations as model_forward does, but for `fc`. */
void probe_gradients(Model *model, const Batch *batch, double *room, GradientStatistics *statistics);

#endif
