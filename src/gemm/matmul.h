/* The matrix product that everything else is made of. gemm/gemm.h computes it where that has kernels for the processor,
   otherwise cblas_sgemm does (cblas_dgemm if real is double); which of them is known before main. Below are also facts
   about the OpenBLAS in use. In src/, only openblas.c includes cblas.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/range.h"
#include "base/real.h"

/* c (m,n) = alpha op(a) (m,k) op(b) (k,n), or c += alpha op(a) op(b). */
typedef enum { PLAIN, TRANSPOSED } Orientation;

/* Half of a product need not be computed where a query sees no later key. With d = `diagonal`:
   LOWER_C: c[i][j] with j > i + d is not needed and may be left as it was.
   LOWER_A: op(a)[i][p] is zero for p > i + d.      UPPER_A: op(a)[i][p] is zero for i > p + d. */
typedef enum { WHOLE, LOWER_C, LOWER_A, UPPER_A } Triangle;

/* The operands of a product: as they are, or both rounded to bf16. In the latter case a, b or both may be in
   memory as rows of bf16 already (gemm/bf16.h; lda and ldb are their strides). Where k runs along such rows (a PLAIN, b
   TRANSPOSED), k is a multiple of 32, or the width of whole rows, whose filling zeros are read; the operand begins at
   an even column. Of such an a, 15 rows beyond m are read but not used. Sums are of `real`. If real is double, nothing
   is rounded, and no operand may be bf16. With either, b may have been packed before (matmul_pack). */
typedef enum {
    OPERANDS_REAL,
    OPERANDS_ROUNDED = 1,
    OPERANDS_A_BF16 = OPERANDS_ROUNDED | 2,
    OPERANDS_B_BF16 = OPERANDS_ROUNDED | 4,
    OPERANDS_BF16 = OPERANDS_A_BF16 | OPERANDS_B_BF16,
    OPERANDS_B_PACKED = 8
} Operands;
static inline Operands operands_rounded(bool bf16) { return bf16 ? OPERANDS_ROUNDED : OPERANDS_REAL; }
/* Returns whether a (OPERANDS_A_BF16) or b (OPERANDS_B_BF16) is in memory as bf16. */
static inline bool operand_is_bf16(Operands operands, Operands which) { return (operands & which) == which; }

typedef struct {
    Orientation op_a, op_b; /* a is stored (m,k) when PLAIN and (k,m) when TRANSPOSED, b likewise */
    bool accumulate;
    size_t m, n, k;
    size_t lda, ldb, ldc; /* distance between rows as stored */
    real alpha;
    Triangle triangle;
    size_t diagonal;
    Operands operands;
} Product;

/* The product of row-major arrays, on the calling thread alone. All sizes must fit an int (the model checks that once).
   k is at least 1. c overlaps neither a nor b. OpenBLAS computes a triangle's other half as well, so the entries that
   are said to be zero must be zero. */
void matmul_product(const Product *product, const void *a, const void *b, real *c);

/* Many products may share a right operand, as those of all threads share a weight. It is then packed once, in the
   layout in which the kernels read it, and the products get OPERANDS_B_PACKED and the packed copy as b. The sums keep
   their bits. OpenBLAS makes no use of this: its products get b as it is.

   matmul_packed_size: the floats of memory for a copy of op(b) (k,n), in an arena; 0 with OpenBLAS.
   matmul_pack: packs some columns of op(b) for products with these n, k, op_b, ldb and operands, of which B is not
   bf16. The columns begin at a multiple of PACKED_COLUMNS, and end at one or at n; so threads can share them. */
enum { PACKED_COLUMNS = 32 };
size_t matmul_packed_size(size_t k, size_t n, bool rounded);
void matmul_pack(const Product *product, const void *b, Range columns, float *packed);

/* Some rows and some columns of C, complete. They are in a cache, and the next strip overwrites them. */
typedef struct {
    Range rows, columns;
    const real *c; /* (rows, columns) */
} Strip;

/* Gets a product strip by strip. */
typedef struct {
    void (*function)(void *context, const Strip *strip);
    void *context;
} StripConsumer;

/* C = alpha op(a) op(b) + bias, WHOLE, of rounded operands and a b that is packed, that is never in memory as a whole:
   the consumer gets each of its entries once, in strips, and must compute no product itself. bias (n) is added to every
   row; NULL: none. The sums have the bits of a matmul_product that accumulates onto rows of the bias. k is at least 1.
   Not where real is double. */
void matmul_strips(const Product *product, const void *a, const float *b, const real *bias,
                   const StripConsumer *consumer);

/* Loads OpenBLAS, unless it is loaded. Where it makes the products, it is loaded before main. An error has status
   STATUS_FAILED. The functions below that ask OpenBLAS need it loaded. */
void matmul_load_openblas(void);
/* matmul_product by OpenBLAS, for comparison. */
void matmul_openblas(const Product *product, const void *a, const void *b, real *c);

/* Returns whether this build on this processor makes its products itself (gemm/gemm.h). Then results depend neither on
   OpenBLAS nor on the number of threads. */
bool matmul_is_own(void);

/* Returns the name of the kernels: "sqrtdk" or "OpenBLAS"; of bf16 "AMX-BF16", "AVX512-BF16" or "emulated bf16". */
const char *matmul_kernels(bool bf16);

/* Bytes of each thread's buffers, for packed operands and a strip; 0 with OpenBLAS, whose buffers are unknown. */
size_t matmul_buffer_bytes(bool bf16);

/* Bytes of right operands that this thread has packed since it started: for the benchmark. */
size_t matmul_packed_bytes(void);

/* Returns how many threads OpenMP offered when the program started: one per processor, or OMP_NUM_THREADS. OpenBLAS is
   set to one thread per call, and its OpenMP build then limits omp_get_max_threads to one as well. */
int matmul_threads_offered(void);

/* The kernels that OpenBLAS chose, as it names them ("SkylakeX"), and its build, "OpenMP" or "pthread"; "not loaded" as
   long as no product needed it. */
const char *matmul_core(void);
const char *matmul_build(void);
