/* Rows of `real` rounded to bf16, and rows of bf16 as `real`. */
#include "gemm/bf16.h"

#if defined(__x86_64__) && !defined(REAL_DOUBLE) && !defined(AVX2_ALONE)
#include <immintrin.h>

static bool has_instruction(void) {
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

/* By the processor's instruction, which takes subnormal numbers as zero. */
static __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void
round_by_instruction(Bf16 *y, size_t y_stride, const float *x, size_t x_stride, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++, y += y_stride, x += x_stride)
        for (size_t i = 0; i < n; i += 16) {
            const __mmask16 lanes = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
            _mm256_mask_storeu_epi16(y + i, lanes, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i)));
        }
}
#else
#define has_instruction() false
#define round_by_instruction(...) (void)0
#endif

MULTIVERSIONED void bf16_round(Bf16 *y, size_t y_stride, const real *x, size_t x_stride, size_t rows, size_t n) {
    if (has_instruction()) {
        round_by_instruction(y, y_stride, x, x_stride, rows, n);
        return;
    }
    for (size_t r = 0; r < rows; r++, y += y_stride, x += x_stride)
        for (size_t i = 0; i < n; i++) y[i] = (Bf16)(bf16_bits((float)x[i]) >> 16);
}

MULTIVERSIONED void bf16_expand(real *restrict y, size_t y_stride, const Bf16 *restrict x, size_t x_stride, size_t rows,
                                size_t n) {
    for (size_t r = 0; r < rows; r++, y += y_stride, x += x_stride)
        for (size_t i = 0; i < n; i++) y[i] = bf16_value(x[i]);
}

void operand_read(real *y, size_t y_stride, Operand x, size_t rows, size_t n) {
    const real *from = x.rows;
    if (x.form == FORM_BF16) bf16_expand(y, y_stride, x.rows, x.stride, rows, n);
    else
        for (size_t r = 0; r < rows; r++) memcpy(y + r * y_stride, from + r * x.stride, n * sizeof *y);
}

/* Goes row by row, since x is in memory in that order. */
MULTIVERSIONED void operand_sum_rows(real *restrict sums, Operand x, size_t rows, Range columns) {
    const Bf16 *kept = x.rows;
    const real *restrict values = x.rows;
    for (size_t r = 0; x.form == FORM_BF16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) sums[c] += bf16_value(kept[r * x.stride + c]);
    for (size_t r = 0; x.form != FORM_BF16 && r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) sums[c] += values[r * x.stride + c];
}

void operand_keep(Operand y, const real *x, size_t x_stride, size_t rows, size_t n) {
    if (y.form == FORM_BF16) bf16_round((Bf16 *)y.rows, y.stride, x, x_stride, rows, n);
}
