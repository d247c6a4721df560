/* The losses of n-gram tables on a text: the baselines of a character model's loss. They are computed when a run
   begins and recorded in its run.json. Training does not need them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { NGRAM_ORDERS = 4 };

/* Computes the mean of -ln p_n(character | the n-1 characters before it), n = 1 to NGRAM_ORDERS. It is over all
   characters of the validation split but the first: the targets of a model's loss over the whole split. p_n is the
   interpolated estimate of Witten and Bell, counted on the training split (docs/model.md). Contexts begin within the
   validation split, so its first characters have shorter ones.

   Both splits are token ids from 0 to V - 1. losses[n - 1] is the loss of order n, NaN if no character is predicted. */
void ngram_losses(const int32_t *training /* (training_count) */, size_t training_count,
                  const int32_t *validation /* (validation_count) */, size_t validation_count, size_t V,
                  double losses[NGRAM_ORDERS]);
