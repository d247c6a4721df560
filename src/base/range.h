/* Work is split over threads: each gets a contiguous range that depends only on its number. */
#pragma once

#include <stddef.h>

/* The most threads that --threads accepts. */
enum { THREADS_MAX = 1024 };

typedef struct {
    size_t begin, end; /* begin <= end; end is not part of it */
} Range;

/* Returns range `id` of `count` of 0 .. n-1, cut only at multiples of `unit` (a cache line of columns, a sequence of
   rows). Ranges differ by at most one unit. */
static inline Range range_split(size_t n, size_t unit, size_t id, size_t count) {
    size_t units = n / unit + (n % unit != 0), each = units / count, rest = units % count;
    size_t begin = unit * (id * each + (id < rest ? id : rest)), end = begin + unit * (each + (id < rest));
    return (Range){begin < n ? begin : n, end < n ? end : n};
}

static inline size_t range_size(Range range) { return range.end - range.begin; }

/* Some rows and columns of a matrix. */
typedef struct {
    Range rows, columns;
} Tile;

/* Returns tile `id` of `count`. The grid is the one whose tiles have the shortest sides, since a product reads its
   operands along these sides. */
static inline Tile tile_split(size_t rows, size_t columns, size_t unit, size_t id, size_t count) {
    size_t high = 1; /* tiles above each other */
    for (size_t h = 2; h <= count; h++)
        if (count % h == 0 && rows * (count / h) + columns * h < rows * (count / high) + columns * high) high = h;
    size_t wide = count / high;
    return (Tile){range_split(rows, unit, id / wide, high), range_split(columns, unit, id % wide, wide)};
}
