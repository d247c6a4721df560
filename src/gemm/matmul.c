/* Sends each product to the program's own kernels where the processor has them, otherwise to OpenBLAS. */
#include "gemm/matmul.h"

#include <omp.h>

#include "gemm/bf16.h"
#include "gemm/gemm.h"

static int threads_offered;

/* Facts that are the same for every product of this process. They are set before main, so they are known before the
   first product. */
static GemmKernel kernels[2]; /* for operands of `real`, and of bf16 */

__attribute__((constructor)) static void begin(void) {
    for (int bf16 = 0; bf16 < 2; bf16++) kernels[bf16] = gemm_best(bf16);
    threads_offered = omp_get_max_threads();
    if (kernels[false] == GEMM_NONE) matmul_load_openblas();
}

int matmul_threads_offered(void) { return threads_offered; }

static bool is_rounded(Operand x) { return x.form == FORM_ROUNDED || x.form == FORM_BF16; }

void matmul_product(const Product *o, real *c) {
    if (o->m == 0 || o->n == 0) return;
    const GemmKernel kernel = kernels[is_rounded(o->a) || is_rounded(o->b)];
    if (kernel != GEMM_NONE) gemm(kernel, o, c);
    else matmul_openblas(o, c);
}

size_t matmul_packed_size(size_t k, size_t n, bool rounds) {
    const size_t columns = (n + PACKED_COLUMNS - 1) / PACKED_COLUMNS * PACKED_COLUMNS;
    if (kernels[rounds] == GEMM_NONE) return 0;
    return size_mul(columns, rounds ? bf16_stride(k) / 2 : k); /* a pair of bf16 is as large as a float */
}

void matmul_pack(const Product *o, Range columns, float *packed) {
    if (range_size(columns) > 0) gemm_pack(kernels[is_rounded(o->b)], o, columns, packed);
}

bool matmul_is_own(void) { return kernels[false] != GEMM_NONE; }

const char *matmul_kernels(bool bf16) { return gemm_name(kernels[bf16]); }

size_t matmul_buffer_bytes(bool bf16) { return gemm_buffer_bytes(kernels[bf16]); }
