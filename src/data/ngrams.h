/* The losses of n-gram tables on a text. They show how good the loss of a character model is. They are computed when a
   run begins, and are in its run.json; no training step needs them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { NGRAM_ORDERS = 4 };

/* The mean of -ln p_n(character | the n-1 characters before it), n = 1 to NGRAM_ORDERS, over all characters of the
   validation split but the first, which are the targets of a model's loss over the whole split. p_n is the
   interpolated estimate of Witten and Bell, counted on the training split (docs/model.md). A context does not reach
   back out of the validation split: the characters at its beginning have shorter ones.

   Both splits are token ids from 0 to V - 1, and losses[n - 1] is that of order n, NaN where no character is predicted.
   A text of 2^32 - 1 characters or more is an error of status STATUS_USAGE. */
void ngram_losses(const int32_t *training /* (training_count) */, size_t training_count,
                  const int32_t *validation /* (validation_count) */, size_t validation_count, size_t V,
                  double losses[NGRAM_ORDERS]);
