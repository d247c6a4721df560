/* The kernels of gemm.c for one width of vectors; gemm_pack.h packs for them. Included only by gemm.c. It does so once
   per width, with these defined:
       NAME(x)        the name of a function for this width
       TARGET         its instruction set
       LANES          floats to a vector
       ROWS, VECTORS  the tile of C that is accumulated in registers: 4, 6, 8 or 12 rows of VECTORS vectors; AMX has 32
       KIND           FLOATS, or pairs of bf16: DOT_BF16 by VDPBF16PS, TILES_BF16 by TDPBF16PS, EMULATED_BF16

   Packed operands have elements of 32 bits: floats, or pairs of bf16, an even step of k in the low half and the next in
   the high one. There is no include guard. */

#define BY_INSTRUCTION (KIND == DOT_BF16 || KIND == TILES_BF16)      /* the processor also rounds to bf16 */
#define EACH ((size_t)(KIND == FLOATS ? 1 : 2))                      /* steps of k in an element */
#define GRAIN ((size_t)(KIND == TILES_BF16 ? 16 : 1))                /* zeros fill the depth up to a multiple of it */
#define COLUMNS ((size_t)(KIND == TILES_BF16 ? PACKED_AMX : PACKED)) /* of B that are packed at a time */

_Static_assert(COLUMNS + (KIND == TILES_BF16 ? BLOCK_AMX : BLOCK) * (size_t)ROWS <= PACKED + BLOCK * TILE_ROWS,
               "`packed` has room");

typedef float NAME(vec) __attribute__((vector_size(4 * LANES)));
typedef float NAME(unaligned) __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* anywhere in memory */
typedef int NAME(ints) __attribute__((vector_size(4 * LANES)));

/* Returns whether an operand is in memory as bf16. In a kernel of floats, the constant EACH shows the compiler that
   none is. */
static inline bool NAME(is_bf16)(Operand x) { return EACH == 2 && x.form == FORM_BF16; }

/* Returns the address of an entry of an operand, by its row and column as stored. */
static inline const void *NAME(stored)(Operand x, size_t row, size_t column) {
    return (const char *)x.rows + (row * x.stride + column) * size_of(NAME(is_bf16)(x));
}

/* Returns how many elements hold `steps` steps of k. */
static inline size_t NAME(depth_of)(size_t steps) {
    const size_t depth = (steps + EACH - 1) / EACH;
    return (depth + GRAIN - 1) / GRAIN * GRAIN;
}

#include "gemm/gemm_pack.h"

/* Writes alpha sum to c (LANES), plus what is at `from` unless that is NULL. */
static inline __attribute__((always_inline)) TARGET void NAME(store)(float *c, const float *from, NAME(vec) sum,
                                                                     float alpha) {
    NAME(vec) x = alpha * sum;
    if (from && EACH == 1) x = *(const NAME(unaligned) *)from + alpha * sum;
    for (size_t l = 0; from && EACH == 2 && l < LANES; l++) /* fused on every processor */
        x[l] = fmaf(alpha, sum[l], from[l]);
    *(NAME(unaligned) *)c = x;
}

/* Prepares the thread for the processor's tiles. */
static inline TARGET void NAME(begin)(void) {
#if KIND == TILES_BF16
    static _Thread_local bool is_configured;
    if (!is_configured) __asm__ volatile("ldtilecfg %0" ::"m"(TILE_CONFIG));
    is_configured = true;
#endif
}

#if KIND == TILES_BF16
/* Loads or stores the sums, which are in two times two of the processor's tiles of 16 rows, or in one times two. gcc
   does not know that these instructions read and write memory. */
static inline __attribute__((always_inline)) TARGET void NAME(load_sums)(const float *x, size_t stride, bool lower) {
    __asm__ volatile("" ::: "memory");
    _tile_loadd(0, x, stride * sizeof *x);
    _tile_loadd(1, x + LANES, stride * sizeof *x);
    if (!lower) return;
    _tile_loadd(2, x + LANES * stride, stride * sizeof *x);
    _tile_loadd(3, x + LANES * stride + LANES, stride * sizeof *x);
}
static inline __attribute__((always_inline)) TARGET void NAME(store_sums)(float *x, size_t stride, bool lower) {
    _tile_stored(0, x, stride * sizeof *x);
    _tile_stored(1, x + LANES, stride * sizeof *x);
    if (lower) _tile_stored(2, x + LANES * stride, stride * sizeof *x);
    if (lower) _tile_stored(3, x + LANES * stride + LANES, stride * sizeof *x);
    __asm__ volatile("" ::: "memory");
}

/* Computes C (rows, vectors) = start + alpha A B. The rows of A are `row` elements apart; B is a packed panel. Each
   entry is a sum over blocks of 32 steps of k, in each of which the even and the odd steps are summed apart (Intel's
   manual, TDPBF16PS). If alpha is 1 the sum begins with `start`, otherwise that is added last. k is rounded up to whole
   blocks: A and B have them, with zeros in A beyond its last step and beyond a triangle. Rows beyond A's are also read,
   but not used. If alpha is 1, whole tiles of the processor are loaded from C and stored there, and two vectors of a
   bias are loaded in place. Everything else is copied. */
static TARGET void NAME(any_tile)(size_t rows, size_t vectors, size_t k, float alpha, const float *a, size_t row,
                                  size_t step, const float *b, size_t b_step, Start start, float *c, size_t ldc) {
    (void)step;
    (void)b_step;
    float copy[ROWS][VECTORS * LANES] __attribute__((aligned(64)));
    const size_t a_stride = row * sizeof *a, b_stride = LANES * sizeof *b, tile = GRAIN * LANES;
    const size_t copy_stride = sizeof copy[0] / sizeof copy[0][0];
    const bool lower = rows > LANES, right = vectors == VECTORS, is_whole = rows % LANES == 0 && right;
    if (!start.rows || alpha != 1) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else if (right && (is_whole || start.stride == 0)) {
        NAME(load_sums)(start.rows, start.stride, lower);
    } else {
        for (size_t i = 0; i < rows; i++)
            memcpy(copy[i], start.rows + i * start.stride, vectors * LANES * sizeof **copy);
        NAME(load_sums)(copy[0], copy_stride, lower);
    }
    __asm__ volatile("" ::: "memory");
    for (size_t p = 0; p < k; p += GRAIN, a += GRAIN, b += vectors * tile) {
        _tile_loadd(4, a, a_stride);
        _tile_loadd(6, b, b_stride);
        _tile_dpbf16ps(0, 4, 6);
        if (right) {
            _tile_loadd(7, b + tile, b_stride);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (!lower) continue;
        _tile_loadd(5, a + LANES * row, a_stride);
        _tile_dpbf16ps(2, 5, 6);
        if (right) _tile_dpbf16ps(3, 5, 7);
    }
    if (is_whole && alpha == 1) {
        NAME(store_sums)(c, ldc, lower);
        return;
    }
    NAME(store_sums)(copy[0], copy_stride, lower);
    if (alpha == 1) start.rows = NULL; /* the sums have it already */
    for (size_t i = 0; i < rows; i++)
        for (size_t v = 0; v < vectors; v++) {
            const NAME(vec) sum = *(const NAME(vec) *)&copy[i][v * LANES];
            NAME(store)(c + i * ldc + v * LANES, start_at(start, i, v * LANES), sum, alpha);
        }
}
#else
static inline __attribute__((always_inline)) TARGET NAME(vec) NAME(broadcast)(const float *x) {
#if KIND != FLOATS
    return (NAME(vec))(*(const Bits *)x + (NAME(ints)){0});
#else
    return *x - (NAME(vec)){0};
#endif
}

/* Returns sum + left * right; for pairs of bf16 the odd steps come first. A product of two bf16 is exact in a float.
   For floats the intrinsics make a fused multiply-add. The compiler (gcc 13 and later) would not fuse a loop with a
   single sum, as in a tile of one row and one vector. */
static inline __attribute__((always_inline)) TARGET NAME(vec)
    NAME(multiply_add)(NAME(vec) sum, NAME(vec) left, NAME(vec) right) {
#if KIND == EMULATED_BF16
    const NAME(ints) l = (NAME(ints))left, r = (NAME(ints))right;
    sum += (NAME(vec))(l & ~0xffff) * (NAME(vec))(r & ~0xffff);
    return sum + (NAME(vec))(l << 16) * (NAME(vec))(r << 16);
#elif KIND == DOT_BF16
    return (NAME(vec))_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
#elif LANES == 4 && defined __aarch64__
    return (NAME(vec))vfmaq_f32((float32x4_t)sum, (float32x4_t)left, (float32x4_t)right);
#elif LANES == 4
    return sum + left * right;
#elif LANES == 16
    return (NAME(vec))_mm512_fmadd_ps((__m512)left, (__m512)right, (__m512)sum);
#else
    return (NAME(vec))_mm256_fmadd_ps((__m256)left, (__m256)right, (__m256)sum);
#endif
}

/* Computes C (rows, vectors) = start + alpha A B. A (rows, k) has `row` and `step` between its entries; the rows of B
   (k, vectors) are `b_step` apart. Each entry of C is one sum over k, first to last, whatever the shape of the tile. */
static inline __attribute__((always_inline)) TARGET void NAME(tile)(size_t rows, size_t vectors, size_t k, float alpha,
                                                                    const float *a, size_t row, size_t step,
                                                                    const float *b, size_t b_step, Start start,
                                                                    float *c, size_t ldc) {
    NAME(vec) sum[ROWS][VECTORS];
    for (size_t i = 0; i < rows; i++)
        for (size_t v = 0; v < vectors; v++) sum[i][v] = (NAME(vec)){0};
    for (size_t i = rows; i < 2 * rows; i++) /* the rows below, which are the next tile's */
        prefetch_to_write(c + i * ldc, vectors * LANES * sizeof *c);
    for (size_t p = 0; p < k; p++) {
        NAME(vec) right[VECTORS];
        for (size_t v = 0; v < vectors; v++) right[v] = *(const NAME(unaligned) *)(b + p * b_step + v * LANES);
        UNROLLED
        for (size_t i = 0; i < rows; i++) {
            NAME(vec) left = NAME(broadcast)(a + i * row + p * step);
            for (size_t v = 0; v < vectors; v++) sum[i][v] = NAME(multiply_add)(sum[i][v], left, right[v]);
        }
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t v = 0; v < vectors; v++)
            NAME(store)(c + i * ldc + v * LANES, start_at(start, i, v * LANES), sum[i][v], alpha);
}

/* Calls `tile` with constants for the numbers of rows and vectors and for one or two distances, so that its loops
   unroll and need few registers. Unless `row` is 1, B is a packed panel. */
static TARGET void NAME(any_tile)(size_t rows, size_t vectors, size_t k, float alpha, const float *a, size_t row,
                                  size_t step, const float *b, size_t b_step, Start start, float *c, size_t ldc) {
#define CASE(n)                                                                                                        \
    case n:                                                                                                            \
        if (row == 1 && vectors == VECTORS) NAME(tile)(n, VECTORS, k, alpha, a, 1, step, b, b_step, start, c, ldc);    \
        else if (row == 1) NAME(tile)(n, 1, k, alpha, a, 1, step, b, b_step, start, c, ldc);                           \
        else if (vectors == 1) NAME(tile)(n, 1, k, alpha, a, row, 1, b, LANES, start, c, ldc);                         \
        else NAME(tile)(n, VECTORS, k, alpha, a, row, 1, b, (size_t)VECTORS * LANES, start, c, ldc);                   \
        break;
    switch (rows) {
        /* clang-format off */
    CASE(1) CASE(2) CASE(3) CASE(4)
#if ROWS > 4
    CASE(5) CASE(6)
#endif
#if ROWS > 6
    CASE(7) CASE(8)
#endif
#if ROWS > 8
    CASE(9) CASE(10) CASE(11) CASE(12)
#endif
            /* clang-format on */
            default : __builtin_unreachable();
    }
#undef CASE
}
#endif

/* Multiplies tiles `from` to `to` of rows by the packed panels of `columns` columns, the first of which is `column`. c
   is the first entry of C that is computed. */
static TARGET void NAME(block)(const Product *o, const Piece *piece, const Tiles *tiles, size_t from, size_t to,
                               size_t column, size_t columns, float *c) {
    const size_t ldc = o->ldc;
    const size_t wide = (size_t)VECTORS * LANES, top = tile_row(tiles, from);
    const size_t share = (piece->depth * wide / (to - from) + LINE - 1) / LINE * LINE; /* of a panel, for each tile */
    for (size_t j = 0; j < columns; j += wide) {
        const size_t left = columns - j, vectors = left <= LANES ? 1 : VECTORS, width = vectors * LANES;
        /* panels that were packed for all products are far away: each tile fetches its share of the next one */
        const bool is_far = KIND != TILES_BF16 && o->b.form == FORM_PACKED && left >= 2 * wide;
        const float *next = is_far ? piece->panels + panel_at(piece, j + wide, wide) : NULL;
        for (size_t t = from; t < to; t++) {
            const size_t row = tile_row(tiles, t), rows = tile_rows(tiles, t);
            Range k = tile_steps(o, row, rows, column + j, piece);
            if (k.begin > k.end) continue; /* the tile is not needed */
            k.begin -= k.begin % GRAIN;
            const float *a = piece->packed && o->op_a == TRANSPOSED
                                 ? piece->a + (t - from) * NAME(tile_stride)(piece->depth)
                                 : piece->a + (row - piece->origin) * piece->row;
            for (size_t i = 0; next && i < share; i += LINE) __builtin_prefetch(next + (t - from) * share + i, 0, 2);
            if (KIND != TILES_BF16 && j == 0 && !piece->packed && piece->step == 1) /* the next tile's rows */
                for (size_t i = rows; i < 2 * rows && row + i < o->m; i++)
                    prefetch(a + i * piece->row, (piece->depth < HEAD ? piece->depth : HEAD) * sizeof *a);
            a += k.begin * piece->step;
            const size_t b_step = piece->b_stride ? piece->b_stride : width;
            const float *b = piece->panels + panel_at(piece, j, width) + k.begin * b_step;
            float *out = c + (row - top) * ldc + j;
            Start start = {o->bias ? o->bias + column + j : NULL, 0};
            if (piece->accumulate) start = (Start){out, ldc};
            float whole[ROWS * VECTORS * LANES]; /* a tile of which only the first columns belong to C */
            const bool is_part = left < width;
            if (is_part && start.rows) {
                for (size_t i = 0; i < rows; i++)
                    for (size_t x = 0; x < width; x++) whole[i * width + x] = x < left ? *start_at(start, i, x) : 0;
                start = (Start){whole, width};
            }
            if (KIND == TILES_BF16 && piece->is_far &&
                j + wide < columns) /* the tile to its right, which is one of the next */
                for (size_t i = 0; i < rows; i++) prefetch_to_write(out + wide + i * ldc, wide * sizeof *out);
            NAME(any_tile)
            (rows, vectors, range_size(k), o->alpha, a, piece->row, piece->step, b, b_step, start,
             is_part ? whole : out, is_part ? width : ldc);
            for (size_t i = 0; is_part && i < rows; i++)
                for (size_t x = 0; x < left; x++) out[i * ldc + x] = whole[i * width + x];
        }
    }
}

/* Makes the piece that begins with step `first`, without A. Its panels are the ones packed for all products, or else
   `panels`, with the piece alone. */
static Piece NAME(piece)(const Product *o, size_t first, bool for_all, const float *panels) {
    const size_t steps = o->k - first < EACH * DEPTH ? o->k - first : EACH * DEPTH, depth = NAME(depth_of)(steps);
    return (Piece){.panels = panels,
                   .panel_depth = for_all ? NAME(depth_of)(o->k) : depth,
                   .above = for_all ? first / EACH : 0,
                   .first = first,
                   .steps = steps,
                   .depth = depth,
                   .each = EACH,
                   .accumulate = o->accumulate || first > 0,
                   .is_far = o->m * o->n > NEAR};
}

/* Packs columns of op(B) for all of k. */
static TARGET void NAME(pack)(const Product *o, Range columns, float *panels) {
    for (size_t first = 0; first < o->k; first += EACH * DEPTH) {
        const Piece piece = NAME(piece)(o, first, true, panels);
        NAME(pack_b)(o, &piece, columns.begin, range_size(columns), panels + columns.begin * piece.panel_depth);
    }
}

/* Multiplies tiles `from` to `to` of rows by the packed panels of a piece. Packs these rows of A first, if they must be
   packed. c is the first entry of C that is computed. */
static TARGET void NAME(multiply)(const Product *o, Piece piece, const Tiles *tiles, size_t from, size_t to,
                                  size_t column, size_t columns, float *copy, float *c) {
    const bool transposed = o->op_a == TRANSPOSED, by_steps = transposed && KIND != TILES_BF16,
               bf16 = NAME(is_bf16)(o->a);
    const size_t top = tile_row(tiles, from), rows = tile_row(tiles, to) - top;
    piece.packed = transposed ? EACH == 2 || piece.depth >= IN_PLACE : EACH == 2 && !bf16;
    if (piece.packed) {
        piece.a = copy;
        piece.origin = top;
        piece.row = by_steps ? 1 : piece.depth;
        piece.step = by_steps ? ROWS : 1;
        if (by_steps) NAME(pack_a)(o, piece.first, piece.steps, tiles, from, to, copy);
        else if (transposed) NAME(pack_a_rows)(o, piece.first, piece.steps, tiles, from, to, copy);
        else NAME(pack_rows)(copy, NAME(stored)(o->a, top, piece.first), o->a.stride, rows, piece.steps);
    } else {
        piece.a = transposed ? NAME(stored)(o->a, piece.first, 0) : NAME(stored)(o->a, 0, piece.first);
        piece.row = transposed ? 1 : o->a.stride / (bf16 ? EACH : 1);
        piece.step = transposed ? o->a.stride : 1;
    }
    NAME(block)(o, &piece, tiles, from, to, column, columns, c);
}

/* Returns whether B is read in place: beside a transposed A of few steps, if all its panels are whole. */
static inline bool NAME(is_b_in_place)(const Product *o) {
    const bool is_plain = KIND == FLOATS && o->b.form == FORM_REAL && o->op_b == PLAIN;
    return is_plain && o->op_a == TRANSPOSED && o->k < IN_PLACE && o->n % ((size_t)VECTORS * LANES) == 0;
}

static TARGET void NAME(gemm)(const Product *o, float *c, float *panels) {
    float *copy = panels + DEPTH * COLUMNS;
    const Tiles tiles = tiles_make(o->m, ROWS, KIND != TILES_BF16);
    const size_t block_packed = KIND == TILES_BF16 ? BLOCK_AMX : BLOCK_PACKED,
                 block_plain = KIND == TILES_BF16 ? 1 : BLOCK;
    const size_t block = o->op_a == TRANSPOSED ? block_packed : block_plain;
    const bool ready = o->b.form == FORM_PACKED;
    NAME(begin)();
    for (size_t column = 0; column < o->n; column += COLUMNS) {
        const size_t columns = o->n - column < COLUMNS ? o->n - column : COLUMNS;
        const float *own = ready ? (const float *)o->b.rows + column * NAME(depth_of)(o->k) : panels;
        for (size_t first = 0; first < o->k; first += EACH * DEPTH) {
            Piece piece = NAME(piece)(o, first, ready, own);
            if (NAME(is_b_in_place)(o)) {
                piece.panels = NAME(stored)(o->b, first, column);
                piece.panel_depth = 1;
                piece.b_stride = o->b.stride;
            } else if (!ready) {
                NAME(pack_b)(o, &piece, column, columns, panels);
            }
            for (size_t t = 0; t < tiles.count; t += block) {
                float *out = c + tile_row(&tiles, t) * o->ldc + column;
                const size_t to = tiles_end(&tiles, t, block);
                NAME(multiply)(o, piece, &tiles, t, to, column, columns, copy, out);
            }
        }
    }
}

#undef NAME
#undef TARGET
#undef LANES
#undef ROWS
#undef VECTORS
#undef KIND
#undef BY_INSTRUCTION
#undef EACH
#undef GRAIN
#undef COLUMNS
