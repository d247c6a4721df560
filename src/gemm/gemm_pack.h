/* How a kernel packs its operands: A into tiles of rows, B into panels. Included only by gemm_kernel.h. Its opening
   comment says what gemm.c defines and what an element is. There is no include guard. */

/* Transposes a square of LANES rows, which are `stride` apart, in log2(LANES) rounds that exchange ever smaller
   halves. */
static inline __attribute__((always_inline)) TARGET void NAME(transpose)(const float *b, size_t stride, float *out,
                                                                         size_t out_stride) {
#ifdef __clang__ /* clang cannot shuffle by a vector that is computed */
    for (size_t i = 0; i < LANES; i++)
        for (size_t j = 0; j < LANES; j++) out[i * out_stride + j] = b[j * stride + i];
#else
    NAME(vec) x[LANES], y[LANES];
    NAME(ints) index, low, high;
    for (int i = 0; i < LANES; i++) index[i] = i;
    for (int i = 0; i < LANES; i++) x[i] = *(const NAME(unaligned) *)(b + (size_t)i * stride);
    UNROLLED
    for (int half = LANES / 2; half > 0; half /= 2) {
        /* rows i and i + half exchange every second run of `half` columns */
        low = index + (((index & half) != 0) & (LANES - half));
        high = low + half;
        UNROLLED
        for (int i = 0; i < LANES; i++) {
            if (i & half) continue;
            y[i] = __builtin_shuffle(x[i], x[i + half], low);
            y[i + half] = __builtin_shuffle(x[i], x[i + half], high);
        }
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
    for (int i = 0; i < LANES; i++) *(NAME(unaligned) *)(out + (size_t)i * out_stride) = x[i];
#endif
}

/* Fills out (n) with pairs from two rows of bf16, two steps of k. `next` NULL: the second of each pair is zero. */
static inline __attribute__((always_inline)) TARGET void NAME(elements_of_bf16)(float *out, const Bf16 *x,
                                                                                const Bf16 *next, size_t n) {
#if BY_INSTRUCTION
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = FIRST(n - i);
        const __m256i second = next ? _mm256_maskz_loadu_epi16(lanes, next + i) : _mm256_setzero_si256();
        const __m512i first = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(lanes, x + i));
        const __m512i halves = _mm512_inserti64x4(first, second, 1);
        _mm512_mask_storeu_epi32(out + i, lanes, _mm512_permutexvar_epi16(_mm512_load_si512(ALTERNATE), halves));
    }
#else
    for (size_t i = 0; i < n; i++) ((Bits *)out)[i] = (Bits)(x[i] | (uint32_t)(next ? next[i] : 0) << 16);
#endif
}

/* Fills out (n) with such pairs from two rows of floats; in a kernel of floats, with the numbers of x. */
static inline __attribute__((always_inline)) TARGET void NAME(elements_of_floats)(float *out, const float *x,
                                                                                  const float *next, size_t n) {
#if BY_INSTRUCTION
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = FIRST(n - i);
        const __m512 second = next ? _mm512_maskz_loadu_ps(lanes, next + i) : _mm512_setzero_ps();
        const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(second, _mm512_maskz_loadu_ps(lanes, x + i));
        _mm512_mask_storeu_epi32(out + i, lanes, _mm512_permutexvar_epi16(_mm512_load_si512(ALTERNATE), halves));
    }
#else
    if (EACH == 1) memcpy(out, x, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++) out[i] = pair(x[i], next ? next[i] : 0);
#endif
}

static inline __attribute__((always_inline)) TARGET void NAME(elements)(bool bf16, float *out, const void *x,
                                                                        const void *next, size_t n) {
    if (bf16) NAME(elements_of_bf16)(out, x, next, n);
    else NAME(elements_of_floats)(out, x, next, n);
}

/* Fills out (rows, depth) with pairs from rows of floats along which k runs. */
static TARGET void NAME(pack_rows)(float *out, const float *x, size_t stride, size_t rows, size_t steps) {
    const size_t depth = NAME(depth_of)(steps);
    for (size_t i = 0; i < rows; i++, x += stride, out += depth) {
        if (i + AHEAD < rows) prefetch(x + AHEAD * stride, steps * sizeof *x);
#if BY_INSTRUCTION
        for (size_t p = 0; p < depth; p += LANES) {
            const __m512 low = _mm512_maskz_loadu_ps(FIRST(steps - 2 * p), x + 2 * p);
            const __m512 high = _mm512_maskz_loadu_ps(FIRST(difference(steps, 2 * p + LANES)), x + 2 * p + LANES);
            _mm512_mask_storeu_ps(out + p, FIRST(depth - p), (__m512)_mm512_cvtne2ps_pbh(high, low));
        }
#else
        for (size_t p = 0; p < depth; p++) out[p] = pair(x[2 * p], 2 * p + 1 < steps ? x[2 * p + 1] : 0);
#endif
    }
}

/* Returns the distance between packed tiles of a transposed A: a cache line more than a tile, since tiles that are a
   multiple of many lines apart share few places in the first-level cache. */
static inline size_t NAME(tile_stride)(size_t depth) { return depth * ROWS + LINE; }

/* Packs elements `from` to `to` of k of one tile of a transposed A, whose first row is `row`, as (depth, ROWS). A few
   rows of the next tile are packed as well, so that their number is constant, except where A has no more. */
static inline __attribute__((always_inline)) TARGET void NAME(pack_tile)(const Product *o, size_t first, size_t steps,
                                                                         size_t row, size_t rows, size_t from,
                                                                         size_t to, float *tile) {
    const bool bf16 = NAME(is_bf16)(o->a);
    for (size_t p = from; p < to; p++) {
        const size_t step = first + EACH * p;
        const void *x = NAME(stored)(o->a, step, row),
                   *next = EACH * p + 1 < steps ? NAME(stored)(o->a, step + 1, row) : NULL;
        if (EACH * p < steps) NAME(elements)(bf16, tile + p * ROWS, x, next, rows);
        else memset(tile + p * ROWS, 0, ROWS * sizeof *tile);
    }
}

/* Packs tiles `from` to `to` of a transposed A for `steps` steps from step `first` on. A tile that read A in place
   would touch another page at each step. Takes TOGETHER elements of k of all tiles, then the next, since A is in memory
   in that order. */
static TARGET void NAME(pack_a)(const Product *o, size_t first, size_t steps, const Tiles *tiles, size_t from,
                                size_t to, float *out) {
    const size_t top = tile_row(tiles, from), columns = tile_row(tiles, to) - top, depth = NAME(depth_of)(steps);
    for (size_t p = 0; p < depth; p += TOGETHER) {
        const size_t end = depth - p < TOGETHER ? depth : p + TOGETHER;
        for (size_t next = end; next < end + TOGETHER && next < depth; next++)
            prefetch(NAME(stored)(o->a, first + EACH * next, top), columns * size_of(NAME(is_bf16)(o->a)));
        for (size_t t = from; t < to; t++) {
            const size_t row = tile_row(tiles, t);
            float *tile = out + (t - from) * NAME(tile_stride)(depth);
            if (row + ROWS <= o->m) NAME(pack_tile)(o, first, steps, row, ROWS, p, end, tile);
            else NAME(pack_tile)(o, first, steps, row, tile_rows(tiles, t), p, end, tile);
        }
    }
}

/* Returns the vector of a panel with element p of the columns from j on. For the processor's tiles, 16 elements of 16
   columns follow each other, as a tile. */
static inline float *NAME(in_panel)(float *panel, size_t width, size_t p, size_t j) {
    return panel + p / GRAIN * GRAIN * width + j * GRAIN + p % GRAIN * LANES;
}

/* Packs `columns` columns of a transposed B, `depth` rows of it, as one panel (depth, width); the rest is zero. */
static TARGET void NAME(pack_transposed)(float *panel, size_t width, const float *b, size_t ldb, size_t depth,
                                         size_t columns) {
    for (size_t j = 0; j < width; j += LANES) {
        size_t p = 0;
        for (; j + LANES <= columns && p + LANES <= depth; p += LANES)
            NAME(transpose)(b + j * ldb + p, ldb, NAME(in_panel)(panel, width, p, j), GRAIN == 1 ? width : LANES);
        for (; p < depth; p++)
            for (size_t i = 0; i < LANES; i++)
                NAME(in_panel)(panel, width, p, j)[i] = j + i < columns ? b[(j + i) * ldb + p] : 0;
    }
}

/* Packs tiles `from` to `to` of a transposed A as pack_a does, but each as (rows, depth), from which the processor's
   tiles can be loaded; depth is a multiple of LANES. It transposes whole blocks, so it also writes rows beyond the last
   one, which are not used. Takes 16 elements of k of all tiles, then the next 16, in the order in which A is in
   memory. */
static TARGET void NAME(pack_a_rows)(const Product *o, size_t first, size_t steps, const Tiles *tiles, size_t from,
                                     size_t to, float *out) {
    const size_t depth = NAME(depth_of)(steps), top = tile_row(tiles, from);
    for (size_t p = 0; p < depth; p += LANES) {
        const size_t left = steps - EACH * p, own = left < EACH * LANES ? left : EACH * LANES;
        for (size_t next = EACH * LANES; next < 2 * EACH * LANES && next < left; next++)
            prefetch(NAME(stored)(o->a, first + EACH * p + next, top),
                     (tile_row(tiles, to) - top) * size_of(NAME(is_bf16)(o->a)));
        for (size_t t = from; t < to; t++) {
            float columns[LANES * ROWS], *tile = out + (t - from) * NAME(tile_stride)(depth);
            NAME(pack_a)(o, first + EACH * p, own, tiles, t, t + 1, columns);
            for (size_t i = 0; i < tile_rows(tiles, t); i += LANES)
                NAME(transpose)(columns + i, ROWS, tile + i * depth + p, depth);
        }
    }
}

/* Packs TOGETHER elements of k of a whole panel of a plain B, from x on; rows of B are `bytes` apart. */
static inline __attribute__((always_inline)) TARGET void NAME(pack_whole)(bool bf16, float *panel, const char *x,
                                                                          size_t bytes) {
    const size_t width = (size_t)VECTORS * LANES;
    for (size_t p = 0; p < TOGETHER; p++, x += EACH * bytes)
        for (size_t v = 0; v < VECTORS; v++) {
            const char *vector = x + v * LANES * size_of(bf16);
            NAME(elements)
            (bf16, NAME(in_panel)(panel, width, p, v * LANES), vector, EACH == 2 ? vector + bytes : NULL, LANES);
        }
}

/* Packs elements from p on of a panel, at most TOGETHER of them. x is the panel's first entry in B. What is beyond the
   piece's last step, or beyond the last of the columns, becomes zero. */
static TARGET void NAME(pack_part)(const Piece *piece, bool bf16, float *panel, size_t width, const char *x,
                                   size_t bytes, size_t p, size_t columns) {
    const size_t steps = piece->steps;
    for (size_t to = p + TOGETHER; p < to && p < piece->depth; p++)
        for (size_t v = 0; v < width; v += LANES) {
            const size_t own = EACH * p >= steps ? 0 : columns - v < LANES ? columns - v : LANES;
            const char *vector = x + EACH * p * bytes + v * size_of(bf16);
            float *out = NAME(in_panel)(panel, width, p, v);
            NAME(elements)(bf16, out, vector, EACH == 2 && EACH * p + 1 < steps ? vector + bytes : NULL, own);
            for (size_t i = own; i < LANES; i++) out[i] = 0;
        }
}

/* Packs `columns` columns of op(B) from `column` on, for the steps of a piece, as panels (depth, width) in the piece's
   layout. The last panel may be narrower, and has zeros beyond the columns. */
static TARGET void NAME(pack_b)(const Product *o, const Piece *piece, size_t column, size_t columns, float *panels) {
    const size_t wide = (size_t)VECTORS * LANES, steps = piece->steps, depth = piece->depth;
    const bool bf16 = NAME(is_bf16)(o->b);
    packed_bytes += columns * depth * sizeof *panels;
    for (size_t j = 0; j < columns && o->op_b == TRANSPOSED; j += wide) {
        const size_t left = columns - j, width = left <= LANES ? LANES : wide, own = left < wide ? left : wide;
        float pairs[KIND != FLOATS ? (size_t)VECTORS * LANES * DEPTH : 1];
        const float *elements = NAME(stored)(o->b, column + j, piece->first);
        size_t stride = o->b.stride / (bf16 ? EACH : 1);
        if (EACH == 2 && !bf16) {
            NAME(pack_rows)(pairs, elements, stride, own, steps);
            elements = pairs;
            stride = depth;
        }
        NAME(pack_transposed)(panels + panel_at(piece, j, width), width, elements, stride, depth, own);
    }
    const size_t bytes = o->b.stride * size_of(bf16); /* between steps of a plain B */
    for (size_t p = 0; p < depth && o->op_b == PLAIN; p += TOGETHER)
        for (size_t j = 0; j < columns; j += wide) {
            const size_t left = columns - j, width = left <= LANES ? LANES : wide, next = EACH * (p + TOGETHER);
            const char *x = NAME(stored)(o->b, piece->first, column + j), *from = x + EACH * p * bytes;
            float *panel = panels + panel_at(piece, j, width), *to = NAME(in_panel)(panel, width, p, 0);
            for (size_t i = next; i < next + EACH * TOGETHER && i < steps; i++)
                prefetch(x + i * bytes, width * size_of(bf16));
            if (left < wide || next > steps) NAME(pack_part)(piece, bf16, panel, width, x, bytes, p, left);
            else if (bf16) NAME(pack_whole)(true, to, from, bytes);
            else NAME(pack_whole)(false, to, from, bytes);
        }
}
