/* The program's own matrix multiplication: how a product is cut into tiles and pieces, and the choice of the kernel.
   The kernels are in gemm_kernel.h, which is included here once for each instruction set, so that one source serves all
   of them and each gets vectors of its own width. gemm.h says how a product is computed and why. */
#include "gemm/gemm.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/range.h"
#include "gemm/bf16.h"

#if defined __x86_64__ && !defined REAL_DOUBLE
#define WIDE /* vectors, and kernels for them */
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

enum {
    DEPTH = 384,       /* elements (floats, or pairs of bf16) of k in a piece: the widest panel has 48 KB */
    PACKED = 512,      /* columns of B that are packed at a time: three quarters of a megabyte */
    PACKED_AMX = 768,  /* with AMX: its products are so fast that it counts how often A is packed */
    BLOCK = 40,        /* tiles of rows are multiplied by all of these panels before the next tiles */
    BLOCK_PACKED = 10, /* where A is transposed, so that its tiles stay in the second-level cache once packed */
    BLOCK_AMX = 6,     /* the same with AMX, which otherwise takes 1 */
    LINE = 16,         /* floats of a cache line */
    IN_PLACE = 128,    /* steps below which a transposed A of floats, and a plain B beside it, are read in place */
    HEAD = 64,         /* floats that are prefetched of a row of A: the processor notices, and fetches what follows */
    AHEAD = 6,         /* rows by which packing prefetches, because another core may have written them */
    TOGETHER = 16,     /* elements of k of a plain B that are packed at a time, while the next are prefetched */
    TILE_ROWS = 12,    /* rows of the largest tile, except AMX's */
    NEAR = 1 << 17,    /* entries of the largest C that is likely to be in a cache: half a megabyte */
};
static _Thread_local real packed[DEPTH * (PACKED + BLOCK * TILE_ROWS) + BLOCK * LINE]
    __attribute__((aligned(64)));         /* B, then A */
static _Thread_local size_t packed_bytes; /* of B, so far */

#ifndef REAL_DOUBLE
/* One piece of a product: steps of k from step `first` on, and the layout of its operands. */
typedef struct {
    const float *panels;       /* B, packed */
    size_t panel_depth, above; /* elements of k in a panel, and those of them that are before the piece */
    size_t first, steps;       /* the first step of k, and how many follow */
    size_t depth, each;        /* how many elements these are, and how many steps an element has */
    bool accumulate;
    bool is_far;      /* whether C is too large to be in a cache; AMX's kernel alone asks */
    bool packed;      /* whether A is packed, tile by tile */
    const float *a;   /* A, packed or not, from row `origin` on */
    size_t row, step; /* the distances between its rows and between its steps, in elements */
    size_t origin;
    size_t b_stride; /* where B is read in place: the distance between its steps; otherwise 0 */
} Piece;

/* Returns where the piece begins in the panel of this width that begins with column j. */
static inline size_t panel_at(const Piece *piece, size_t j, size_t width) {
    return j * piece->panel_depth + piece->above * width;
}

/* Names what is added to the sums of a tile: rows that are `stride` apart, of C, or of a bias, where the stride is 0.
   NULL: nothing is. */
typedef struct {
    const float *rows;
    size_t stride;
} Start;

/* Returns where an entry's start is; NULL: there is none. */
static inline const float *start_at(Start start, size_t row, size_t column) {
    return start.rows ? start.rows + row * start.stride + column : NULL;
}

/* Rows cut into tiles: the first `higher` of them have one row more than the others, but the last has what is left. */
typedef struct {
    size_t count, height, higher, rows;
} Tiles;

/* Cuts rows into tiles of about the same height, or with AMX into whole tiles and the rest: there a tile of 17 rows
   takes as long as one of 32. */
static Tiles tiles_make(size_t rows, size_t highest, bool even) {
    const size_t count = (rows + highest - 1) / highest;
    return even ? (Tiles){count, rows / count, rows % count, rows} : (Tiles){count, highest, 0, rows};
}
static size_t tile_row(const Tiles *tiles, size_t t) {
    const size_t row = t * tiles->height + (t < tiles->higher ? t : tiles->higher);
    return row < tiles->rows ? row : tiles->rows;
}
static size_t tile_rows(const Tiles *tiles, size_t t) { return tile_row(tiles, t + 1) - tile_row(tiles, t); }

/* Returns the end of a block of at most `count` tiles from tile t on. */
static size_t tiles_end(const Tiles *tiles, size_t t, size_t count) {
    return tiles->count - t < count ? tiles->count : t + count;
}

static inline __attribute__((always_inline)) void prefetch(const void *x, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)x + i);
}

static inline __attribute__((always_inline)) void prefetch_to_write(const void *x, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)x + i, 1);
}

static inline size_t size_of(bool bf16) { return bf16 ? sizeof(Bf16) : sizeof(float); }

/* a - b, or 0 if b is larger. */
static size_t difference(size_t a, size_t b) { return a > b ? a - b : 0; }

/* The steps of a piece that the tile of `rows` rows from `row` and of columns from `column` on needs, in elements
   from the piece's first; begin > end when the tile itself is not needed. */
static Range tile_steps(const Product *o, size_t row, size_t rows, size_t column, const Piece *piece) {
    Range all = {0, piece->depth};
    if (o->triangle == LOWER_C && column >= row + rows + o->diagonal) return (Range){1, 0};
    if (o->triangle == LOWER_A) {
        size_t end = (difference(row + rows + o->diagonal, piece->first) + piece->each - 1) / piece->each;
        if (end < all.end) all.end = end;
    }
    if (o->triangle == UPPER_A) {
        size_t begin = difference(row, o->diagonal + piece->first) / piece->each;
        all.begin = begin < all.end ? begin : all.end;
    }
    return all;
}

/* The kinds of kernels (gemm_kernel.h), as the preprocessor compares them. */
#define FLOATS 0
#define DOT_BF16 1
#define EMULATED_BF16 2
#define TILES_BF16 3

typedef int Bits __attribute__((may_alias)); /* of a float */

/* Two numbers rounded to bf16, the first in the lower half, as the bits of a float that is only ever moved. */
static inline __attribute__((always_inline)) float pair(float even, float odd) {
    const uint32_t bits = bf16_bits(even) >> 16 | (bf16_bits(odd) & 0xffff0000u);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#ifdef WIDE
/* 12 sums, 2 and 1 in 16 registers of 8 floats. */
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 6
#define VECTORS 2
#define KIND FLOATS
#include "gemm/gemm_kernel.h"

#ifndef AVX2_ALONE
/* The order that interleaves two vectors of bf16, and the mask of the first n floats of a vector. */
static const uint16_t ALTERNATE[32]
    __attribute__((aligned(64))) = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
#define FIRST(n) ((__mmask16)((n) < 16 ? (1u << (n)) - 1 : 0xffff))

/* 24 sums, 2 vectors of B and 1 of A in 32 registers of 16 floats. */
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define LANES 16
#define ROWS 12
#define VECTORS 2
#define KIND FLOATS
#include "gemm/gemm_kernel.h"

/* AMX configured for eight tiles of 16 rows of 64 bytes. Each thread loads this once: nothing else uses the tiles,
   and a forked process inherits it. */
static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TILE_CONFIG = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* 4 tiles of sums, 2 of A and 2 of B. */
#define NAME(x) x##_amx
#define TARGET __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define LANES 16
#define ROWS 32
#define VECTORS 2
#define KIND TILES_BF16
#include "gemm/gemm_kernel.h"

#define NAME(x) x##_avx512bf16
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define LANES 16
#define ROWS 12
#define VECTORS 2
#define KIND DOT_BF16
#include "gemm/gemm_kernel.h"
#endif
#endif

/* On any processor. 8 sums, 2 vectors of B and 1 of A in 16 registers of 4 floats: with more sums WebAssembly's
   compilers run out of registers. Arm64 has 32 of them. */
#define NAME(x) x##_float4
#define TARGET
#define LANES 4
#ifdef __aarch64__
#define ROWS 8
#else
#define ROWS 4
#endif
#define VECTORS 2
#define KIND FLOATS
#include "gemm/gemm_kernel.h"

/* On any processor, in 16 registers of 4 floats. */
#define NAME(x) x##_emulated
#define TARGET
#define LANES 4
#define ROWS 6
#define VECTORS 2
#define KIND EMULATED_BF16
#include "gemm/gemm_kernel.h"

#endif

/* What messages call a kernel, the processor that it needs, and its functions; NULL: this build does not have it.
   gemm_avx512 is NAME(gemm) of gemm_kernel.h, and so on. */
static const struct {
    const char *name;
    CpuLevel needed;
    void (*gemm)(const Product *, real *, real *);
    void (*pack)(const Product *, Range, float *);
} KERNELS[GEMM_AMX_BF16 + 1] = {
    [GEMM_NONE] = {.name = "OpenBLAS"},
#ifdef WIDE
    [GEMM_AVX2] = {"sqrtdk", CPU_AVX2, gemm_avx2, pack_avx2},
#endif
#if defined WIDE && !defined AVX2_ALONE
    [GEMM_AVX512] = {"sqrtdk", CPU_AVX512, gemm_avx512, pack_avx512},
    [GEMM_AVX512_BF16] = {"AVX512-BF16", CPU_AVX512_BF16, gemm_avx512bf16, pack_avx512bf16},
    [GEMM_AMX_BF16] = {"AMX-BF16", CPU_AMX_BF16, gemm_amx, pack_amx},
#endif
#ifndef REAL_DOUBLE
    [GEMM_FLOAT4] = {"sqrtdk", CPU_OTHER, gemm_float4, pack_float4},
    [GEMM_EMULATED_BF16] = {"emulated bf16", CPU_OTHER, gemm_emulated, pack_emulated},
#endif
};

bool gemm_runs(GemmKernel kernel) { return KERNELS[kernel].gemm && cpu_level() >= KERNELS[kernel].needed; }

GemmKernel gemm_best(bool bf16) {
#ifdef __x86_64__
    const GemmKernel floats = GEMM_AVX2; /* without AVX2, OpenBLAS is faster */
#else
    const GemmKernel floats = GEMM_FLOAT4;
#endif
    const GemmKernel slowest = bf16 ? GEMM_EMULATED_BF16 : floats, fastest = bf16 ? GEMM_AMX_BF16 : GEMM_AVX512;
    for (GemmKernel kernel = fastest; kernel >= slowest; kernel--)
        if (gemm_runs(kernel)) return kernel;
    return GEMM_NONE;
}

const char *gemm_name(GemmKernel kernel) { return KERNELS[kernel].name; }

size_t gemm_buffer_bytes(GemmKernel kernel) { return kernel == GEMM_NONE ? 0 : sizeof packed; }

size_t gemm_packed_bytes(void) { return packed_bytes; }

void gemm(GemmKernel kernel, const Product *o, real *c) { KERNELS[kernel].gemm(o, c, packed); }

void gemm_pack(GemmKernel kernel, const Product *o, Range columns, float *to) { KERNELS[kernel].pack(o, columns, to); }
