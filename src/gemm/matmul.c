/* Sends each product to the program's own kernels where the processor has them, otherwise to OpenBLAS. This is the only
   file that includes cblas.h, so the dependence on a BLAS ends here. */
#include "gemm/matmul.h"

#include <cblas.h>
#include <omp.h>

#include "gemm/gemm.h"

#ifdef REAL_DOUBLE
#define cblas_gemm cblas_dgemm
#else
#define cblas_gemm cblas_sgemm
#endif

static CBLAS_TRANSPOSE cblas_op(Orientation op) { return op == TRANSPOSED ? CblasTrans : CblasNoTrans; }

void matmul_openblas(const Product *o, const void *a, const void *b, real *c) {
    cblas_gemm(CblasRowMajor, cblas_op(o->op_a), cblas_op(o->op_b), (int)o->m, (int)o->n, (int)o->k, o->alpha, a,
               (int)o->lda, b, (int)o->ldb, o->accumulate ? 1 : 0, c, (int)o->ldc);
}

/* Facts that are the same for every product of this process. They are set before main, so they are known before the
   first product. */
static GemmKernel kernels[2]; /* for operands of `real`, and of bf16 */
static int threads_offered;

__attribute__((constructor)) static void begin(void) {
    for (int bf16 = 0; bf16 < 2; bf16++) kernels[bf16] = gemm_best(bf16);
    threads_offered = omp_get_max_threads();
    openblas_set_num_threads(1); /* the threads are the model's */
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
    static const char *const names[] = {"OpenBLAS", "sqrtdk", "sqrtdk", "emulated bf16", "AVX512-BF16", "AMX-BF16"};
    return names[kernels[bf16]]; /* in the order of GemmKernel */
}

size_t matmul_buffer_bytes(bool bf16) { return gemm_buffer_bytes(kernels[bf16]); }

const char *matmul_core(void) { return openblas_get_corename(); }

bool matmul_is_openmp_build(void) { return openblas_get_parallel() == OPENBLAS_OPENMP; }
