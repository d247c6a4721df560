/* The inner part of gemm.c for one width of vectors; included there once for each, with
       NAME(x)        the name of a function for this width
       TARGET         its instruction set
       LANES          floats to a vector
       ROWS, VECTORS  the tile of C that is summed up in registers: ROWS rows of VECTORS vectors
   There is no include guard: being included again is the point. */

typedef float NAME(vec) __attribute__((vector_size(4 * LANES)));
typedef float NAME(loose) __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* anywhere in memory */
typedef int NAME(order) __attribute__((vector_size(4 * LANES)));

/* C (rows, vectors) = alpha A B, or C + that. A (rows, k) has `row` and `step` between its entries; B is a packed panel
   (k, vectors). Each entry of C is one sum over k, first to last, whatever the shape of the tile. */
static inline __attribute__((always_inline)) TARGET void NAME(tile)(size_t rows, size_t vectors, size_t k, float alpha,
                                                                    const float *a, size_t row, size_t step,
                                                                    const float *b, bool accumulate, float *c,
                                                                    size_t ldc) {
    NAME(vec) sum[ROWS][VECTORS];
    for (size_t i = 0; i < rows; i++)
        for (size_t v = 0; v < vectors; v++) sum[i][v] = (NAME(vec)){0};
    for (size_t p = 0; p < k; p++) {
        NAME(vec) right[VECTORS];
        for (size_t v = 0; v < vectors; v++) right[v] = *(const NAME(vec) *)(b + (p * vectors + v) * LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < rows; i++) {
            NAME(vec) left = a[i * row + p * step] - (NAME(vec)){0};
            for (size_t v = 0; v < vectors; v++) sum[i][v] += left * right[v];
        }
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t v = 0; v < vectors; v++) {
            NAME(loose) *out = (NAME(loose) *)(c + i * ldc + v * LANES);
            if (accumulate)
                *out += alpha * sum[i][v];
            else
                *out = alpha * sum[i][v];
        }
}

/* The tile with its number of rows known to the compiler. */
static TARGET void NAME(tiles)(size_t rows, size_t vectors, bool a_transposed, size_t k, float alpha, const float *a,
                               size_t lda, const float *b, bool accumulate, float *c, size_t ldc) {
#define CASE(n)                                                                                                        \
    case n:                                                                                                            \
        if (a_transposed && vectors == VECTORS)                                                                        \
            NAME(tile)(n, VECTORS, k, alpha, a, 1, lda, b, accumulate, c, ldc);                                        \
        else if (a_transposed)                                                                                         \
            NAME(tile)(n, 1, k, alpha, a, 1, lda, b, accumulate, c, ldc);                                              \
        else if (vectors == VECTORS)                                                                                   \
            NAME(tile)(n, VECTORS, k, alpha, a, lda, 1, b, accumulate, c, ldc);                                        \
        else                                                                                                           \
            NAME(tile)(n, 1, k, alpha, a, lda, 1, b, accumulate, c, ldc);                                              \
        break;
    switch (rows) {
        /* clang-format off */
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if ROWS > 6
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
            /* clang-format on */
            default : __builtin_unreachable();
    }
#undef CASE
}

/* LANES rows of LANES numbers, `stride` apart, become columns, in log2(LANES) rounds that exchange ever smaller
   halves. */
static inline __attribute__((always_inline)) TARGET void NAME(transpose)(const float *b, size_t stride, float *out,
                                                                         size_t out_stride) {
#ifdef __clang__ /* has no shuffle by a vector that is computed */
    for (size_t i = 0; i < LANES; i++)
        for (size_t j = 0; j < LANES; j++) out[i * out_stride + j] = b[j * stride + i];
#else
    NAME(vec) x[LANES], y[LANES];
    NAME(order) index, low, high;
    for (int i = 0; i < LANES; i++) index[i] = i;
    for (int i = 0; i < LANES; i++) x[i] = *(const NAME(loose) *)(b + (size_t)i * stride);
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2) {
        /* of rows i and i + half: every second run of `half` columns changes places */
        low = index + (((index & half) != 0) & (LANES - half));
        high = low + half;
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            if (i & half) continue;
            y[i] = __builtin_shuffle(x[i], x[i + half], low);
            y[i + half] = __builtin_shuffle(x[i], x[i + half], high);
        }
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
    for (int i = 0; i < LANES; i++) *(NAME(loose) *)(out + (size_t)i * out_stride) = x[i];
#endif
}

/* `columns` columns of op(B) from row p on, k rows, into a panel (k, width); columns beyond are zero. */
static TARGET void NAME(pack)(float *panel, size_t width, const float *b, size_t ldb, bool transposed, size_t k,
                              size_t columns) {
    if (!transposed) {
        for (size_t p = 0; p < k; p++) {
            for (size_t j = 0; j < columns; j++) panel[p * width + j] = b[p * ldb + j];
            for (size_t j = columns; j < width; j++) panel[p * width + j] = 0;
        }
        return;
    }
    for (size_t j = 0; j < width; j += LANES) {
        size_t p = 0;
        for (; j + LANES <= columns && p + LANES <= k; p += LANES)
            NAME(transpose)(b + j * ldb + p, ldb, panel + p * width + j, width);
        for (; p < k; p++)
            for (size_t i = j; i < j + LANES; i++) panel[p * width + i] = i < columns ? b[i * ldb + p] : 0;
    }
}

/* Rows `from` to `to` of the tiles against a block of packed panels, which is `columns` wide. */
static TARGET void NAME(block)(const Product *o, size_t tiles, size_t from, size_t to, size_t columns, size_t depth,
                               const float *a, bool accumulate, float *c, const float *panels) {
    const size_t wide = (size_t)VECTORS * LANES;
    for (size_t j = 0; j < columns; j += wide) {
        const size_t left = columns - j, vectors = left <= LANES ? 1 : VECTORS;
        const float *panel = panels + j * depth;
        for (size_t t = from; t < to; t++) {
            const size_t row = t * o->m / tiles, rows = (t + 1) * o->m / tiles - row;
            const float *left_side = o->a_transposed ? a + row : a + row * o->lda;
            float *out = c + row * o->ldc + j;
            if (left >= vectors * LANES) {
                NAME(tiles)
                (rows, vectors, o->a_transposed, depth, o->alpha, left_side, o->lda, panel, accumulate, out, o->ldc);
                continue;
            }
            float whole[ROWS * VECTORS * LANES]; /* of which C has the first columns */
            for (size_t i = 0; accumulate && i < rows; i++)
                for (size_t x = 0; x < wide; x++) whole[i * wide + x] = x < left ? out[i * o->ldc + x] : 0;
            NAME(tiles)
            (rows, vectors, o->a_transposed, depth, o->alpha, left_side, o->lda, panel, accumulate, whole, wide);
            for (size_t i = 0; i < rows; i++)
                for (size_t x = 0; x < left; x++) out[i * o->ldc + x] = whole[i * wide + x];
        }
    }
}

static TARGET void NAME(gemm)(const Product *o, const float *a, const float *b, float *c, float *panels, float *copy) {
    const size_t wide = (size_t)VECTORS * LANES, tiles = (o->m + ROWS - 1) / ROWS;
    for (size_t column = 0; column < o->n; column += COLUMNS) {
        const size_t columns = o->n - column < COLUMNS ? o->n - column : COLUMNS;
        for (size_t p = 0; p < o->k; p += DEPTH) {
            const size_t depth = o->k - p < DEPTH ? o->k - p : DEPTH;
            for (size_t j = 0; j < columns; j += wide) {
                const size_t left = columns - j, width = left <= LANES ? LANES : wide;
                const float *from = o->b_transposed ? b + (column + j) * o->ldb + p : b + p * o->ldb + column + j;
                NAME(pack)
                (panels + j * depth, width, from, o->ldb, o->b_transposed, depth, left < width ? left : width);
            }
            for (size_t t = 0; t < tiles; t += BLOCK) {
                const size_t to = tiles - t < BLOCK ? tiles : t + BLOCK;
                const float *left_side = o->a_transposed ? a + p * o->lda : a + p;
                Product part = *o;
                if (o->a_transposed && depth >= COPIED) {
                    const size_t first = t * o->m / tiles, last = to * o->m / tiles;
                    for (size_t q = 0; q < depth; q++)
                        memcpy(copy + q * STRIDE, left_side + q * o->lda + first, (last - first) * sizeof *copy);
                    left_side = copy - first;
                    part.lda = STRIDE;
                }
                NAME(block)(&part, tiles, t, to, columns, depth, left_side, o->accumulate || p > 0, c + column, panels);
            }
        }
    }
}
