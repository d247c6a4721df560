/* OpenBLAS, which is loaded when it is first needed: where no kernel of this program runs, where real is double, and
   for comparison. This is the only file that includes cblas.h, so the dependence on a BLAS ends here. */
#include <cblas.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "gemm/matmul.h"

#ifdef REAL_DOUBLE
#define cblas_gemm cblas_dgemm
#define GEMM_NAME "cblas_dgemm"
#else
#define cblas_gemm cblas_sgemm
#define GEMM_NAME "cblas_sgemm"
#endif

static __typeof__(cblas_gemm) *openblas_gemm; /* NULL: OpenBLAS is not loaded */

/* Returns a function of OpenBLAS, which is loaded, or in a test the one that stands in for it. */
static void *find_function(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function) runtime_error("OpenBLAS (" OPENBLAS ") has no function %s", name);
    return function;
}

void matmul_load_openblas(void) {
    /* OpenBLAS maps 128 MB for itself and for each thread that multiplies, and its file. If the system refuses, it
       tries again for ever. */
    const int buffers = matmul_threads_offered() + 1;
    const size_t megabytes = (size_t)buffers * 128 + 64, space = megabytes << 20;
    if (openblas_gemm) return;
    void *free_space = mmap(NULL, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free_space == MAP_FAILED)
        runtime_error("no memory for OpenBLAS, which takes %zu MB of address space here: raise ulimit -v, or set "
                      "OMP_NUM_THREADS to less",
                      megabytes);
    munmap(free_space, space);
    if (!dlopen(OPENBLAS, RTLD_NOW | RTLD_GLOBAL)) runtime_error("cannot load OpenBLAS: %s", dlerror());
    __typeof__(openblas_set_num_threads) *const set_threads = find_function("openblas_set_num_threads");
    set_threads(buffers); /* maps all buffers now, while there is room */
    set_threads(1);       /* the threads are the model's */
    openblas_gemm = find_function(GEMM_NAME);
}

static CBLAS_TRANSPOSE cblas_op(Orientation op) { return op == TRANSPOSED ? CblasTrans : CblasNoTrans; }

void matmul_openblas(const Product *o, real *c) {
    const bool adds_bias = o->bias && !o->accumulate;
    for (size_t i = 0; adds_bias && i < o->m; i++) memcpy(c + i * o->ldc, o->bias, o->n * sizeof *c);
    openblas_gemm(CblasRowMajor, cblas_op(o->op_a), cblas_op(o->op_b), (int)o->m, (int)o->n, (int)o->k, o->alpha,
                  o->a.rows, (int)o->a.stride, o->b.rows, (int)o->b.stride, o->accumulate || adds_bias ? 1 : 0, c,
                  (int)o->ldc);
}

static const char NOT_LOADED[] = "not loaded";

const char *matmul_core(void) {
    if (!openblas_gemm) return NOT_LOADED;
    __typeof__(openblas_get_corename) *const core = find_function("openblas_get_corename");
    return core();
}

const char *matmul_build(void) {
    if (!openblas_gemm) return NOT_LOADED;
    __typeof__(openblas_get_parallel) *const build = find_function("openblas_get_parallel");
    return build() == OPENBLAS_OPENMP ? "OpenMP" : "pthread";
}
