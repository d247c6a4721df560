/* OpenBLAS where there is none: products are the program's own, and none of these is called. */
#pragma once

typedef enum { CblasRowMajor } CBLAS_ORDER;
typedef enum { CblasNoTrans, CblasTrans } CBLAS_TRANSPOSE;
enum { OPENBLAS_OPENMP = 2 };

static inline void openblas_set_num_threads(int threads) { (void)threads; }
static inline const char *openblas_get_corename(void) { return "none"; }
static inline int openblas_get_parallel(void) { return OPENBLAS_OPENMP; }
static inline void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, int m, int n, int k,
                               float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c,
                               int ldc) {
    (void)order, (void)op_a, (void)op_b, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb;
    (void)beta, (void)c, (void)ldc;
    __builtin_trap();
}
