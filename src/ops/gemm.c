#include "ops/gemm.h"

#include <string.h>

#include "base/range.h"

#if defined(__x86_64__) && !defined(REAL_DOUBLE)
#define WIDE /* vectors, and kernels for them */

enum {
    DEPTH = 384,    /* steps of k in a piece: a panel of it is 48 KB for the widest vectors */
    COLUMNS = 512,  /* of B that are packed at a time: three quarters of a megabyte */
    BLOCK = 40,     /* tiles of rows that are multiplied by all of those panels before the next tiles */
    PACK_A = 128,   /* steps from which on a transposed A is packed, too */
    AHEAD = 6,      /* rows by which packing prefetches: another core may have written them */
    TILE_ROWS = 12, /* of the largest tile */
};
static _Thread_local float packed_b[DEPTH * COLUMNS] __attribute__((aligned(64)));
static _Thread_local float packed_a[DEPTH * BLOCK * TILE_ROWS] __attribute__((aligned(64)));

/* One piece of a product: `depth` steps of k from step `first` on, and the layout of its operands. */
typedef struct {
    const float *a;      /* row 0, or when packed the first tile of the block */
    size_t row, step;    /* distance between its rows and its steps */
    bool packed;         /* A, tile by tile */
    const float *panels; /* B, packed */
    size_t first, depth;
    bool accumulate;
} Piece;

/* Rows cut into tiles: the first `higher` of them have one row more than the others. */
typedef struct {
    size_t count, height, higher;
} Tiles;

static Tiles tiles_make(size_t rows, size_t highest) {
    const size_t count = (rows + highest - 1) / highest;
    return (Tiles){count, rows / count, rows % count};
}
static size_t tile_row(const Tiles *tiles, size_t t) {
    return t * tiles->height + (t < tiles->higher ? t : tiles->higher);
}
static size_t tile_rows(const Tiles *tiles, size_t t) { return tiles->height + (t < tiles->higher); }

static inline __attribute__((always_inline)) void prefetch(const float *x, size_t n) {
    for (size_t i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

/* a - b, or 0. */
static size_t difference(size_t a, size_t b) { return a > b ? a - b : 0; }

/* The steps of a piece that the tile of `rows` rows from `row` and of columns from `column` on needs, counted from the
   piece's first; begin > end when the tile itself is not needed. */
static Range tile_steps(const Product *o, size_t row, size_t rows, size_t column, const Piece *piece) {
    Range all = {0, piece->depth};
    if (o->triangle == LOWER_C && column >= row + rows + o->diagonal) return (Range){1, 0};
    if (o->triangle == LOWER_A) {
        size_t end = difference(row + rows + o->diagonal, piece->first);
        if (end < all.end) all.end = end;
    }
    if (o->triangle == UPPER_A) {
        size_t begin = difference(row, o->diagonal + piece->first);
        all.begin = begin < all.end ? begin : all.end;
    }
    return all;
}

/* 24 sums, 2 vectors of B and 1 of A in 32 registers of 16 floats. */
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define LANES 16
#define ROWS 12
#define VECTORS 2
#include "ops/gemm_kernel.h"
#undef NAME
#undef TARGET
#undef LANES
#undef ROWS
#undef VECTORS

/* 12 sums, 2 and 1 in 16 registers of 8 floats. */
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 6
#define VECTORS 2
#include "ops/gemm_kernel.h"

#endif

CpuLevel gemm_level(void) {
#ifdef WIDE
    CpuLevel level = cpu_level();
    if (level == CPU_AVX512 || level == CPU_AVX2) return level;
#endif
    return CPU_OTHER;
}

size_t gemm_buffer_bytes(void) {
#ifdef WIDE
    if (gemm_level() != CPU_OTHER) return sizeof packed_a + sizeof packed_b;
#endif
    return 0;
}

void gemm(CpuLevel level, const Product *product, const real *a, const real *b, real *c) {
#ifdef WIDE
    (level == CPU_AVX512 ? gemm_avx512 : gemm_avx2)(product, a, b, c, packed_a, packed_b);
#else
    (void)level, (void)product, (void)a, (void)b, (void)c;
#endif
}
