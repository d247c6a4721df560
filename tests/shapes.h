/* The shape of a small model: two pre-norm layers with biases, scores divided by the square root of D. */
#pragma once

#include <math.h>

#include "model/initialization.h"
#include "model/transformer.h"

static inline ModelShape small_shape(size_t T, size_t C, size_t H, size_t D, size_t V) {
    return (ModelShape){.T = T,
                        .C = C,
                        .attention = {.H = H, .D = D, .divisor = sqrt((double)D), .qk_init_scale = 1, .qk_lr_scale = 1},
                        .F = 2 * C,
                        .V = V,
                        .L = 2,
                        .pre_norm = true,
                        .bias = true};
}
