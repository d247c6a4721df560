/* The sum over shards, as a tree. The lowest levels are those of shards that are computed at the same time. The next
   ones are added as shards end, the upper levels when the ranks exchange their sums. Threads share each sum of two
   arrays, entry by entry, so their number changes no bit. */
#include "ranks/shards.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "ops/dropout.h"
#include "ranks/ranks.h"

enum { LINE = LINE_BYTES / sizeof(real) };
enum { LOSS, SIGNAL, MAXIMA }; /* of a rank's scalars */

/* Returns how many partial sums can wait: log2(shards of this rank / at_once). */
static size_t levels(const Shards *s) {
    size_t count = 0;
    while (s->own / s->at_once >> count > 1) count++;
    return count;
}

/* Returns the segment of the gradients that this rank adds up for all ranks. */
static Range own_segment(const Shards *s) {
    const Range lines = ranks_segment(s->n / LINE, ranks_index());
    return (Range){LINE * lines.begin, LINE * lines.end};
}

static void lay_out(Shards *s) {
    const size_t ranks = ranks_count();
    for (size_t i = 1; i < s->at_once; i++) s->gradients[i] = arena_take(&s->arena, s->n, sizeof(real));
    for (size_t level = 0; level < levels(s); level++)
        s->held[level].gradients = arena_take(&s->arena, s->n, sizeof(real));
    if (ranks == 1) return;
    s->received = arena_take(&s->arena, size_mul(ranks, range_size(own_segment(s))), sizeof(real));
    s->scalars = arena_take(&s->arena, size_mul(ranks, MAXIMA + s->maxima), sizeof *s->scalars);
}

void shards_make(Shards *s, size_t shards, size_t at_once, real *gradients, size_t n, size_t maxima, size_t threads) {
    const size_t ranks = ranks_count(), own = shards / ranks;
    *s = (Shards){.own = own, .n = n, .maxima = maxima, .threads = threads, .gradients = {gradients}};
    s->at_once = at_once < own ? at_once : own;
    if (shards % ranks != 0)
        usage_error("train.shards = %zu are not divided among %zu ranks: start 1, 2, 4 ... %zu of them", shards, ranks,
                    shards);
    lay_out(s);
    arena_allocate(&s->arena, "the gradients of shards");
    lay_out(s);
}

Range shards_sequences(const Shards *s, size_t first, size_t B) {
    const size_t each = B / (ranks_count() * s->own), begin = (ranks_index() * s->own + first) * each;
    return (Range){begin, begin + s->at_once * each};
}

/* sum (n) += other (n) */
static void add(const Shards *s, real *sum, const real *other, size_t n) {
#pragma omp parallel num_threads((int)s->threads)
    {
        const Range own = range_split(n, LINE, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
        residual_add(sum + own.begin, other + own.begin, range_size(own));
    }
}

/* Adds the upper levels, whose leaves are the sums of the ranks. Each rank adds up one segment of the gradients. The
   ranks also agree on the first signal that one of them has noted. */
static double add_ranks(Shards *s, real *gradients, real *maxima, double loss) {
    const size_t ranks = ranks_count(), width = MAXIMA + s->maxima, lines = s->n / LINE;
    const Range own = own_segment(s);
    const size_t size = range_size(own);
    double *mine = s->scalars + ranks_index() * width;
    mine[LOSS] = loss;
    mine[SIGNAL] = interrupt_noted();
    for (size_t i = MAXIMA; i < width; i++) mine[i] = (double)maxima[i - MAXIMA];
    ranks_gather(s->scalars, width * sizeof *s->scalars);
    ranks_deal(gradients, lines, s->received);
    for (size_t stride = 1; stride < ranks; stride *= 2)
        for (size_t r = 0; r < ranks; r += 2 * stride) {
            double *left = s->scalars + r * width, *right = left + stride * width;
            add(s, s->received + r * size, s->received + (r + stride) * size, size);
            left[LOSS] += right[LOSS];
            if (left[SIGNAL] == 0) left[SIGNAL] = right[SIGNAL];
            for (size_t i = MAXIMA; i < width; i++)
                if (isnan(right[i]) || right[i] > left[i]) left[i] = right[i];
        }
    memcpy(gradients + own.begin, s->received, size * sizeof(real));
    ranks_collect(gradients, lines);
    for (size_t i = MAXIMA; i < width; i++) maxima[i - MAXIMA] = (real)s->scalars[i];
    interrupt_agree((int)s->scalars[SIGNAL]);
    return s->scalars[LOSS];
}

/* Adds the lowest levels: all gradients and losses to those of the first shard. */
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

/* Adds as a binary counter carries. The sums of the lowest levels are numbered from 0; for each 1 at the end of its
   binary number, a sum completes a level. */
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
