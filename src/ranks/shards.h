/* The sum over the shards of a step. train.shards cuts each batch into that many parts, a power of two, and the step's
   gradients are summed as a binary tree: those of shards 0 and 1, of 2 and 3, then those two sums, and so on, each of
   the shards over all of the step's batches first. The tree is the same whoever computes its parts: every rank
   (ranks/ranks.h) has a subtree, the same number of shards, and numbers its own from 0. */
#pragma once

#include "base/memory.h"
#include "base/range.h"
#include "base/real.h"

/* A sum of gradients and of losses that waits for the other half of a larger one. */
typedef struct {
    real *gradients; /* (n) */
    double loss;
} ShardSum;

enum { SHARD_LEVELS = 16 }; /* 2^16 shards: the largest batch */

typedef struct {
    size_t own;                /* shards of this rank */
    size_t n, maxima, threads; /* as shards_make got them */
    ShardSum held[SHARD_LEVELS];
    real *parts;     /* (ranks, segment): what this rank adds up of the ranks' gradients; NULL without other ranks */
    double *scalars; /* (ranks, 1 + maxima): each rank's loss and maxima */
    Arena arena;     /* of the arrays above */
} Shards;

/* Takes the memory for the sums that wait, at most one per level of the tree, and for the exchange with other ranks, of
   gradients of n numbers (whole cache lines). A number of shards that the ranks cannot divide among them is an error of
   status STATUS_USAGE. Free with shards_free, also after a failure. */
bool shards_make(Shards *s, size_t shards, size_t n, size_t maxima, size_t threads, Error *err);
void shards_free(Shards *s);

/* The sequences of a batch of B that are the part of one of this rank's shards. */
Range shards_sequences(const Shards *s, size_t shard, size_t B);

/* Ends a shard, one after the other, from 0: *gradients (n) is its sum, from zero, and `loss` its sum of losses.
   *gradients may become another array of that size. After the last one, when all ranks have ended theirs, *gradients
   are those of all shards, maxima (maxima) the largest of all ranks, with NaN above all, and the sum of all losses is
   returned. */
double shards_end(Shards *s, size_t shard, real **gradients, real *maxima, double loss);
