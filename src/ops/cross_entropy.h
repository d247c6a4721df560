/* Cross-entropy of the next character, in nats, from logits z: loss = ln sum_v exp(z_v) - z_target. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"

/* losses (rows) from logits (rows, V). The logits become exp(z - max) on the way, with `sums` (rows) their sums. */
void cross_entropy_forward(real *losses, real *sums, real *logits, const int32_t *targets, size_t rows, size_t V);

/* dL/dz_v = weight (softmax(z)_v - [v = target]), weight = 1 / tokens for a mean. Overwrites in place what the forward
   pass left in `logits`. */
void cross_entropy_backward(real *logits, const real *sums, const int32_t *targets, real weight, size_t rows, size_t V);
