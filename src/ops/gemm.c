#include "ops/gemm.h"

#include <string.h>

#include "base/range.h"

#if defined(__x86_64__) && !defined(REAL_DOUBLE)
#define WIDE /* vectors, and kernels for them */

enum {
    DEPTH = 384,   /* steps of k to a piece: a panel of it is 48 KB for the widest */
    COLUMNS = 512, /* of B that are packed at a time: three quarters of a megabyte */
    BLOCK = 40,    /* tiles of rows that meet all of those panels before the next ones */
    COPIED = 128,  /* steps from which on a transposed A is packed, too */
    AHEAD = 6,     /* rows that are asked for before they are packed: another core may have written them */
};
static _Thread_local float packed[DEPTH * COLUMNS] __attribute__((aligned(64)));
static _Thread_local float copied[DEPTH * BLOCK * 12] __attribute__((aligned(64))); /* 12: the highest tile */

/* What one piece of a product is: `depth` steps from step `first` on, and how they lie. */
typedef struct {
    const float *a;   /* of row 0, or of the block's first tile when packed */
    size_t row, step; /* distance between its rows and its steps */
    bool packed;      /* tile by tile */
    const float *panels;
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

/* Asks for n numbers that will be read soon. */
static inline __attribute__((always_inline)) void ask_for(const float *x, size_t n) {
    for (size_t i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

static size_t minus(size_t a, size_t b) { return a > b ? a - b : 0; }

/* The steps of a piece that matter to the tile of `rows` rows from `row` and of columns from `column` on, counted from
   the piece's first; begins behind its end when nobody needs the tile. */
static Range tile_steps(const Product *o, size_t row, size_t rows, size_t column, const Piece *piece) {
    Range all = {0, piece->depth};
    if (o->triangle == LOWER_C && column >= row + rows + o->diagonal) return (Range){1, 0};
    if (o->triangle == LOWER_A) {
        size_t end = minus(row + rows + o->diagonal, piece->first);
        if (end < all.end) all.end = end;
    }
    if (o->triangle == UPPER_A) {
        size_t begin = minus(row, o->diagonal + piece->first);
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
    return sizeof packed + sizeof copied;
#else
    return 0;
#endif
}

void gemm(CpuLevel level, const Product *product, const float *a, const float *b, float *c) {
#ifdef WIDE
    (level == CPU_AVX512 ? gemm_avx512 : gemm_avx2)(product, a, b, c, packed, copied);
#else
    (void)level, (void)product, (void)a, (void)b, (void)c;
#endif
}
