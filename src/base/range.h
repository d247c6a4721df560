/* How work is divided among threads: each gets a contiguous range, fixed by its number alone. */
#ifndef SQRTDK_BASE_RANGE_H
#define SQRTDK_BASE_RANGE_H

#include <stddef.h>

typedef struct {
    size_t begin, end; /* begin <= end; end is not part of it */
} Range;

/* Part `id` of `count` of 0 .. n-1, cut only at multiples of `unit` (a cache line of columns, a sequence of rows).
   Parts differ by at most one unit. */
static inline Range range_split(size_t n, size_t unit, size_t id, size_t count) {
    size_t units = n / unit + (n % unit != 0), share = units / count, rest = units % count;
    size_t begin = unit * (id * share + (id < rest ? id : rest)), end = begin + unit * (share + (id < rest));
    return (Range){begin < n ? begin : n, end < n ? end : n};
}

static inline size_t range_size(Range range) { return range.end - range.begin; }

#endif
