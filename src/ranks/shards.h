/* The sum over the shards of a step. train.shards, a power of two, is the number of parts of each batch. Each shard
   first adds up its gradients over all batches of the step. Then the shards' gradients are added as a binary tree: 0
   and 1, 2 and 3, then these two sums, and so on. The tree is the same whichever rank computes its parts: every rank
   (ranks/ranks.h) has a subtree with the same number of shards, which it numbers from 0. */
#pragma once

#include "base/memory.h"
#include "base/range.h"
#include "base/real.h"

/* A sum of gradients and of losses that waits for the other half of a larger sum. */
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

/* Allocates memory for the sums that wait (at most one per level of the tree) and for the exchange with other ranks.
   The gradients have n numbers (whole cache lines). Fails with status STATUS_USAGE if the number of ranks does not
   divide the number of shards. Free with shards_free, also after a failure. */
bool shards_make(Shards *s, size_t shards, size_t n, size_t maxima, size_t threads, Error *err);
void shards_free(Shards *s);

/* The range of sequences, in a batch of B, that belongs to one of this rank's shards. */
Range shards_sequences(const Shards *s, size_t shard, size_t B);

/* Ends a shard. Shards end in order, from 0. *gradients (n) has the shard's gradients, added up from zero, and `loss`
   its sum of losses. *gradients may become another array of that size. After the last shard, when all ranks have ended
   their shards, *gradients has the sum over all shards, and maxima (maxima) the largest values of all ranks, where NaN
   counts as the largest. The function then returns the sum of all losses. */
double shards_end(Shards *s, size_t shard, real **gradients, real *maxima, double loss);
