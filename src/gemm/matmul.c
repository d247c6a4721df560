/* Sends each product to the program's own kernels where the processor has them, otherwise to OpenBLAS. This is the only
   file that includes cblas.h, so the dependence on a BLAS ends here. */
#include "gemm/matmul.h"

#include <cblas.h>
#include <dlfcn.h>
#include <omp.h>
#include <sys/mman.h>

#include "base/error.h"
#include "gemm/gemm.h"

#ifdef REAL_DOUBLE
#define cblas_gemm cblas_dgemm
#define GEMM_NAME "cblas_dgemm"
#else
#define cblas_gemm cblas_sgemm
#define GEMM_NAME "cblas_sgemm"
#endif

static int threads_offered;

static __typeof__(cblas_gemm) *openblas_gemm; /* NULL: OpenBLAS is not loaded */

/* Returns a function of OpenBLAS, which is loaded, or in a test the one that stands in for it. */
static void *find_function(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function) runtime_error("OpenBLAS (" OPENBLAS ") has no function %s", name);
    return function;
}

void matmul_load_openblas(void) {
    /* OpenBLAS maps 128 MB for each thread, and its file. If the system refuses, it tries again for ever. */
    const size_t space = ((size_t)threads_offered * 128 + 64) << 20;
    if (openblas_gemm) return;
    void *free_space = mmap(NULL, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free_space == MAP_FAILED)
        runtime_error("no memory for OpenBLAS, which takes 128 MB of address space per thread: raise ulimit -v, or set "
                      "OMP_NUM_THREADS to less");
    munmap(free_space, space);
    if (!dlopen(OPENBLAS, RTLD_NOW | RTLD_GLOBAL)) runtime_error("cannot load OpenBLAS: %s", dlerror());
    __typeof__(openblas_set_num_threads) *const set_threads = find_function("openblas_set_num_threads");
    set_threads(1); /* the threads are the model's */
    openblas_gemm = find_function(GEMM_NAME);
}

static CBLAS_TRANSPOSE cblas_op(Orientation op) { return op == TRANSPOSED ? CblasTrans : CblasNoTrans; }

void matmul_openblas(const Product *o, const void *a, const void *b, real *c) {
    openblas_gemm(CblasRowMajor, cblas_op(o->op_a), cblas_op(o->op_b), (int)o->m, (int)o->n, (int)o->k, o->alpha, a,
                  (int)o->lda, b, (int)o->ldb, o->accumulate ? 1 : 0, c, (int)o->ldc);
}

/* What is the same for every product of this process. It is set before main: nobody can multiply, or say what
   multiplies, before it is known. */
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

void matmul(Operands operands, Orientation op_a, Orientation op_b, size_t m, size_t n, size_t k, real alpha,
            const void *a, size_t lda, const void *b, size_t ldb, bool accumulate, real *c, size_t ldc) {
    matmul_product(&(Product){op_a, op_b, accumulate, m, n, k, lda, ldb, ldc, alpha, WHOLE, 0, operands}, a, b, c);
}

bool matmul_is_own(void) { return kernels[false] != GEMM_NONE; }

const char *matmul_kernels(bool bf16) {
    static const char *const names[] = {"OpenBLAS", "sqrtdk", "sqrtdk", "emulated bf16", "AVX512-BF16", "AMX-BF16"};
    return names[kernels[bf16]]; /* in the order of GemmKernel */
}

size_t matmul_buffer_bytes(bool bf16) { return gemm_buffer_bytes(kernels[bf16]); }

const char *matmul_core(void) {
    __typeof__(openblas_get_corename) *const core = find_function("openblas_get_corename");
    return core();
}

bool matmul_is_openmp_build(void) {
    __typeof__(openblas_get_parallel) *const build = find_function("openblas_get_parallel");
    return build() == OPENBLAS_OPENMP;
}
