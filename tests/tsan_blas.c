/* ThreadSanitizer sees only code that was compiled with it, and OpenBLAS was not. So it would miss the numbers that a
   product reads and writes. Linked into the tests of `make race`, these functions replace the two products that
   src/gemm/openblas.c calls, report to the sanitizer, and call OpenBLAS under its other name. Row-major c = op(a)
   op(b) is column-major c' = op(b)' op(a)'. Declared here, as only openblas.c includes cblas.h. */
#include <stddef.h>

#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREADS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREADS
#endif
#endif

#ifdef SANITIZED_THREADS
void __tsan_read_range(void *address, unsigned long size);
void __tsan_write_range(void *address, unsigned long size);

enum { PLAIN = 111, TRANSPOSED = 112 }; /* CBLAS_TRANSPOSE */

static void reads(const void *matrix, size_t rows, size_t columns, size_t stride, size_t size) {
    for (size_t r = 0; r < rows; r++) __tsan_read_range((char *)matrix + r * stride * size, columns * size);
}
static void writes(void *matrix, size_t rows, size_t columns, size_t stride, size_t size) {
    for (size_t r = 0; r < rows; r++) __tsan_write_range((char *)matrix + r * stride * size, columns * size);
}

#define PRODUCT(real, name, fortran)                                                                                   \
    void fortran(const char *, const char *, const int *, const int *, const int *, const real *, const real *,        \
                 const int *, const real *, const int *, const real *, real *, const int *);                           \
    void name(int, int, int, int, int, int, real, const real *, int, const real *, int, real, real *, int);            \
    void name(int order, int op_a, int op_b, int m, int n, int k, real alpha, const real *a, int lda, const real *b,   \
              int ldb, real beta, real *c, int ldc) {                                                                  \
        const size_t rows = (size_t)m, columns = (size_t)n, inner = (size_t)k;                                         \
        (void)order;                                                                                                   \
        reads(a, op_a == PLAIN ? rows : inner, op_a == PLAIN ? inner : rows, (size_t)lda, sizeof *a);                  \
        reads(b, op_b == PLAIN ? inner : columns, op_b == PLAIN ? columns : inner, (size_t)ldb, sizeof *b);            \
        writes(c, rows, columns, (size_t)ldc, sizeof *c);                                                              \
        fortran(op_b == TRANSPOSED ? "T" : "N", op_a == TRANSPOSED ? "T" : "N", &n, &m, &k, &alpha, b, &ldb, a, &lda,  \
                &beta, c, &ldc);                                                                                       \
    }
PRODUCT(float, cblas_sgemm, sgemm_)
PRODUCT(double, cblas_dgemm, dgemm_)
#endif
