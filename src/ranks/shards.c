/* The sum over shards, as a tree. The lowest levels are of shards that are computed at the same time. The next ones are
   added as shards end, the upper levels when the ranks exchange their sums. Threads share each sum of two arrays, entry
   by entry, so their number changes no bit. */
#include "ranks/shards.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "ops/dropout.h"
#include "ranks/ranks.h"

enum { LINE = LINE_BYTES / sizeof(real), SCALARS = LINE_BYTES / sizeof(double) }; /* numbers in a cache line */
enum { LOSS, SIGNAL, MAXIMA };                                                    /* the scalars of a rank */

/* Returns how many partial sums can wait: log2(shards of this rank / at_once). */
static size_t levels(const Shards *s) {
    size_t count = 0;
    while (s->own / s->at_once >> count > 1) count++;
    return count;
}

/* Returns the segment of the gradients that a rank adds up at the levels from `stride` on: each level below halves the
   array, and the lower of two ranks has the first half. */
static Range segment_of(const Shards *s, size_t rank, size_t stride) {
    Range lines = {0, s->n / LINE};
    for (size_t below = 1; below < stride; below *= 2) {
        const size_t middle = lines.begin + range_size(lines) / 2;
        lines = rank & below ? (Range){middle, lines.end} : (Range){lines.begin, middle};
    }
    return (Range){LINE * lines.begin, LINE * lines.end};
}

static size_t scalar_lines(const Shards *s) { return (MAXIMA + s->maxima) / SCALARS + 1; }

static void take_sums(Shards *s) {
    for (size_t i = 1; i < s->at_once; i++) s->gradients[i] = arena_take(&s->arena, s->n, sizeof(real));
    for (size_t level = 0; level < levels(s); level++)
        s->held[level].gradients = arena_take(&s->arena, s->n, sizeof(real));
    if (ranks_count() == 1) return;
    s->received = arena_take(&s->arena, s->n / 2 + LINE, sizeof(real));
    s->scalars = arena_take(&s->arena, 2 * scalar_lines(s), LINE_BYTES);
}

void shards_make(Shards *s, size_t shards, size_t at_once, real *gradients, size_t n, size_t maxima, size_t threads) {
    const size_t ranks = ranks_count(), own = shards / ranks;
    *s = (Shards){.first = ranks_index() * own,
                  .own = own,
                  .n = n,
                  .maxima = maxima,
                  .threads = threads,
                  .gradients = {gradients}};
    s->at_once = at_once < own ? at_once : own;
    if (shards % ranks != 0)
        usage_error("train.shards = %zu are not divided among %zu ranks: start 1, 2, 4 ... %zu of them", shards, ranks,
                    shards);
    do take_sums(s);
    while (arena_allocate(&s->arena, "the gradients of shards"));
}

/* sum (n) += other (n) */
static void add(const Shards *s, real *sum, const real *other, size_t n) {
#pragma omp parallel num_threads((int)s->threads)
    {
        const Range own = range_split(n, LINE, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
        residual_add(sum + own.begin, other + own.begin, range_size(own));
    }
}

/* Adds another rank's scalars: the loss; of the signals and of each maximum the larger one, NaN being the largest. */
static void add_scalars(double *sum, const double *other, size_t count) {
    sum[LOSS] += other[LOSS];
    for (size_t i = SIGNAL; i < count; i++)
        if (isnan(other[i]) || other[i] > sum[i]) sum[i] = other[i];
}

/* Adds the upper levels, whose leaves are the sums of the ranks. At each level two ranks exchange halves of a segment,
   and each adds up one of them. Then the sums go back the same way (recursive halving and doubling: Thakur,
   Rabenseifner and Gropp 2005). The ranks also agree on a signal that one of them has noted. */
static double add_ranks(Shards *s, real *gradients, real *maxima, double loss) {
    const size_t ranks = ranks_count(), rank = ranks_index(), width = MAXIMA + s->maxima, lines = scalar_lines(s);
    double *sum = s->scalars, *received = sum + lines * SCALARS;
    sum[LOSS] = loss;
    sum[SIGNAL] = interrupt_noted();
    for (size_t i = MAXIMA; i < width; i++) sum[i] = (double)maxima[i - MAXIMA];
    for (size_t stride = 1; stride < ranks; stride *= 2) {
        const size_t other = rank ^ stride;
        const Range own = segment_of(s, rank, 2 * stride), its = segment_of(s, other, 2 * stride);
        ranks_exchange(other, sum, lines, received, lines);
        add_scalars(sum, received, width);
        ranks_exchange(other, gradients + its.begin, range_size(its) / LINE, s->received, range_size(own) / LINE);
        add(s, gradients + own.begin, s->received, range_size(own));
    }
    for (size_t stride = ranks / 2; stride > 0; stride /= 2) {
        const size_t other = rank ^ stride;
        const Range own = segment_of(s, rank, 2 * stride), its = segment_of(s, other, 2 * stride);
        ranks_exchange(other, gradients + own.begin, range_size(own) / LINE, gradients + its.begin,
                       range_size(its) / LINE);
    }
    for (size_t i = MAXIMA; i < width; i++) maxima[i - MAXIMA] = (real)sum[i];
    interrupt_agree((int)sum[SIGNAL]);
    return sum[LOSS];
}

/* Adds the lowest levels: all gradients and losses to the first shard's. */
static double add_lowest(Shards *s) {
    for (size_t stride = 1; stride < s->at_once; stride *= 2)
        for (size_t i = 0; i < s->at_once; i += 2 * stride) {
            add(s, s->gradients[i], s->gradients[i + stride], s->n);
            s->losses[i] += s->losses[i + stride];
        }
    const double loss = s->losses[0];
    memset(s->losses, 0, sizeof s->losses);
    return loss;
}

/* Adds as a binary counter carries. The sums of the lowest levels are numbered from 0. A sum completes a level for
   each 1 at the end of its binary number. */
double shards_end(Shards *s, size_t first, real *maxima) {
    const size_t number = first / s->at_once;
    double loss = add_lowest(s);
    size_t level = 0;
    for (; number >> level & 1; level++) {
        add(s, s->gradients[0], s->held[level].gradients, s->n);
        loss += s->held[level].loss;
    }
    if (first + s->at_once == s->own) return ranks_count() > 1 ? add_ranks(s, s->gradients[0], maxima, loss) : loss;
    /* The sum waits at its level. The array of this level is free: its old sum is part of a larger sum by now. */
    ShardSum *held = &s->held[level];
    real *free_array = held->gradients;
    *held = (ShardSum){s->gradients[0], loss};
    s->gradients[0] = free_array;
    return loss;
}
