/* The pass of a training step, forward and backward. */
#pragma once

#include "model/transformer.h"

static inline Pass training_pass(uint64_t seed, uint64_t micro_step, double batch_weight, bool zero_gradients) {
    return (Pass){.training = true,
                  .seed = seed,
                  .micro_step = micro_step,
                  .with_backward = true,
                  .zero_gradients = zero_gradients,
                  .batch_weight = batch_weight};
}
