/* Work is split over threads: each gets a contiguous range that depends only on its number. */
#pragma once

#include <stddef.h>

/* The most threads that --threads accepts, and the most shards of a batch that a pass computes at the same time. */
enum { THREADS_MAX = 1024, SHARDS_AT_ONCE_MAX = 4 };

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

/* Returns the part of a range that lies in `whole`, counted from the beginning of that. */
static inline Range range_within(Range range, Range whole) {
    const size_t begin = range.begin > whole.begin ? range.begin : whole.begin;
    const size_t end = range.end < whole.end ? range.end : whole.end;
    return begin < end ? (Range){begin - whole.begin, end - whole.begin} : (Range){0, 0};
}

/* Some rows and columns of a matrix. */
typedef struct {
    Range rows, columns;
} Tile;

/* Returns the strip of a matrix that holds about these of its rows * columns entries: whole rows of a matrix with more
   rows than columns, otherwise whole columns. Strips are cut at multiples of `unit`, so ranges of entries that follow
   each other give strips that do. */
static inline Tile tile_strip(size_t rows, size_t columns, size_t unit, Range entries) {
    const size_t length = rows > columns ? rows : columns, across = rows > columns ? columns : rows;
    const size_t least = unit * across; /* entries of the narrowest strip */
    Range strip = {(entries.begin + least / 2) / least * unit, (entries.end + least / 2) / least * unit};
    if (entries.begin == rows * columns || strip.begin > length) strip.begin = length;
    if (entries.end == rows * columns || strip.end > length) strip.end = length;
    return rows > columns ? (Tile){strip, {0, columns}} : (Tile){{0, rows}, strip};
}
