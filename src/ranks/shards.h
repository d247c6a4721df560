/* The sum over the shards of a step. train.shards, a power of two, is the number of shards of each batch. Each shard
   first adds up its gradients over all batches of the step. Then the shards' gradients are added as a binary tree: 0
   and 1, 2 and 3, then these two sums, and so on. The tree is the same whichever rank or thread computes the shards.
   Every rank (ranks/ranks.h) has a subtree with the same number of shards, which it numbers from 0. It computes
   `at_once` of them at the same time, each with a separate array of gradients. */
#pragma once

#include "base/memory.h"
#include "base/range.h"
#include "base/real.h"

/* A sum of gradients and of losses that waits for the other operand of a larger sum. */
typedef struct {
    real *gradients; /* (n) */
    double loss;
} ShardSum;

enum { SHARD_LEVELS = 16 }; /* 2^16 shards: the largest batch */

typedef struct {
    size_t first, own;                   /* shards of this rank: the number of the first in a batch, and how many */
    size_t at_once;                      /* how many of them are computed at the same time */
    size_t n, maxima, threads;           /* arguments of shards_make */
    real *gradients[SHARDS_AT_ONCE_MAX]; /* (at_once, n) */
    double losses[SHARDS_AT_ONCE_MAX];   /* (at_once): sums */
    ShardSum held[SHARD_LEVELS];
    real *received;  /* (n / 2 and a line): another rank's gradients; NULL without other ranks */
    double *scalars; /* (2, whole lines): loss, signal and maxima, of this rank and of another */
    Arena arena;     /* of the arrays above */
} Shards;

/* Makes `gradients` the first array of s->gradients. Allocates its other arrays, arrays for sums that wait (at most one
   per level of the tree), and for the exchange with other ranks. Gradients have n numbers (whole cache lines).
   at_once is a power of two up to SHARDS_AT_ONCE_MAX; if this rank has fewer shards, it is their number. The number
   of ranks must divide the number of shards. */
void shards_make(Shards *s, size_t shards, size_t at_once, real *gradients, size_t n, size_t maxima, size_t threads);

/* Ends at_once shards, from `first` on, in order from 0: s->gradients has the gradients of each, added up from zero,
   and s->losses its sum of losses, which becomes zero again. Buffers are swapped: read s->gradients again. After the
   last shard, s->gradients[0] has the sum over all shards and ranks, and maxima (maxima) the largest values, where NaN
   counts as the largest. Ranks have then agreed on a signal to end on (interrupt_agree), and the sum of all losses is
   returned. */
double shards_end(Shards *s, size_t first, real *maxima);
