/* Cross-entropy of the next token, in nats, from logits z: loss = ln sum_v exp(z_v) - z_target. A target below 0 does
   not count: its loss and gradient are 0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"

/* Computes losses (rows) from logits (rows, V). Overwrites the logits with exp(z - max), and `sums` (rows) with the
   sums of these. In a row whose target does not count, only the loss is overwritten. Plain:
   plain_cross_entropy_forward. */
void cross_entropy_rows(real *losses, real *sums, real *logits, const int32_t *targets, size_t rows, size_t V);

/* dL/dz_v = weight (softmax(z)_v - [v = target]), with weight = 1 / (number of targets that count) if L is the mean
   of the losses. Overwrites `logits`, which must hold what forward left there. Plain: plain_cross_entropy_backward. */
void cross_entropy_rows_backward(real *logits, const real *sums, const int32_t *targets, real weight, size_t rows,
                                 size_t V);

/* Returns the number of targets that have the largest logit of their row, in logits (rows, V) or in what the forward
   pass left there. */
size_t cross_entropy_correct(const real *logits, const int32_t *targets, size_t rows, size_t V);
