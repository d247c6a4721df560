/* Sends each product to the program's own kernels where the processor has them, otherwise to OpenBLAS. */
#include "gemm/matmul.h"

#include <omp.h>

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

void matmul_product(const Product *o, const void *a, const void *b, real *c) {
    if (o->m == 0 || o->n == 0) return;
    const GemmKernel kernel = kernels[o->operands != OPERANDS_REAL];
    if (kernel != GEMM_NONE) gemm(kernel, o, a, b, c);
    else matmul_openblas(o, a, b, c);
}

void matmul_strips(const Product *product, const void *a, const void *b, const real *bias,
                   const StripConsumer *consumer) {
    if (product->m > 0 && product->n > 0) gemm_strips(kernels[1], product, a, b, bias, consumer);
}

bool matmul_is_own(void) { return kernels[false] != GEMM_NONE; }

const char *matmul_kernels(bool bf16) {
    static const char *const names[] = {"OpenBLAS",      "sqrtdk",      "sqrtdk",  "sqrtdk",
                                        "emulated bf16", "AVX512-BF16", "AMX-BF16"};
    return names[kernels[bf16]]; /* in the order of GemmKernel */
}

size_t matmul_packed_bytes(void) { return gemm_packed_bytes(); }

size_t matmul_buffer_bytes(bool bf16) { return gemm_buffer_bytes(kernels[bf16]); }
