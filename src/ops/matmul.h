/* The one matrix product everything else is made of, by ops/gemm.h where that suits the processor and otherwise by
   cblas_sgemm (cblas_dgemm when real is double), and what the program needs to know about the OpenBLAS it runs with. No
   other file includes cblas.h. */
#ifndef SQRTDK_OPS_MATMUL_H
#define SQRTDK_OPS_MATMUL_H

#include "ops/product.h"

/* The product of row-major arrays. Runs on the calling thread alone. All sizes must fit an int (the model checks that
   once). c overlaps neither a nor b. OpenBLAS computes a triangle's other half as well: what is said to be zero must be
   zero there. */
void matmul_product(const Product *product, const real *a, const real *b, real *c);

/* The same for a whole one. */
void matmul(Orientation op_a, Orientation op_b, size_t m, size_t n, size_t k, real alpha, const real *a, size_t lda,
            const real *b, size_t ldb, bool accumulate, real *c, size_t ldc);

/* Any product by OpenBLAS, whatever matmul_product takes. */
void matmul_openblas(const Product *product, const real *a, const real *b, real *c);

/* Keeps OpenBLAS on one thread a call, whichever build it is: the threads are the model's. Call it once, first. */
void matmul_setup(void);

/* Whether this build on this processor makes its products itself (ops/gemm.h). Then results do not depend on OpenBLAS,
   nor on the number of threads. */
bool matmul_is_own(void);

/* The kernels OpenBLAS chose, as it names them ("SkylakeX"), and whether it is the OpenMP build. */
const char *matmul_core(void);
bool matmul_is_openmp_build(void);

#endif
