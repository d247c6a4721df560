/* The matrix product that everything else is made of. gemm/gemm.h computes it where that has kernels for the processor,
   otherwise cblas_sgemm does (cblas_dgemm if real is double); which of them is known before main. Below are also facts
   about the OpenBLAS in use. In src/, only openblas.c includes cblas.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/range.h"
#include "base/real.h"

typedef enum { PLAIN, TRANSPOSED } Orientation;

/* Half of a product need not be computed where a query sees no later key. With d = `diagonal`:
   LOWER_C: c[i][j] with j > i + d is not needed and may be left as it was.
   LOWER_A: op(a)[i][p] is zero for p > i + d.      UPPER_A: op(a)[i][p] is zero for i > p + d. */
typedef enum { WHOLE, LOWER_C, LOWER_A, UPPER_A } Triangle;

/* An operand of a product: `real`, `real` that is rounded to bf16, rows of bf16 (gemm/bf16.h), or what matmul_pack has
   packed. Both operands are rounded if one of them is to be, or is of bf16. Where k runs along rows of bf16 (a PLAIN, b
   TRANSPOSED), k is a multiple of 32, or the width of whole rows, whose filling zeros are read; the operand begins at
   an even column. Of such an a, 15 rows beyond m are read but not used. */
typedef enum { FORM_REAL, FORM_ROUNDED, FORM_BF16, FORM_PACKED } Form;
typedef struct {
    const void *rows; /* the first row as stored, from its first number on */
    size_t stride;    /* the distance between rows as stored, in numbers; of a packed operand unused */
    Form form;
} Operand;

/* Returns the operand from a row and a column on, as stored. */
static inline Operand operand_from(Operand x, size_t row, size_t column) {
    x.rows = (const char *)x.rows + (row * x.stride + column) * (x.form == FORM_BF16 ? sizeof(uint16_t) : sizeof(real));
    return x;
}

/* c (m,n) = alpha op(a) (m,k) op(b) (k,n), or that plus a bias (n), or c += alpha op(a) op(b). Sums are of `real`. If
   real is double, nothing may be rounded. */
typedef struct {
    Orientation op_a, op_b; /* a is stored (m,k) when PLAIN and (k,m) when TRANSPOSED, b likewise */
    size_t m, n, k;
    Operand a, b;
    bool accumulate;
    size_t ldc; /* the distance between rows of c */
    real alpha; /* multiplies the product, neither c nor the bias */
    Triangle triangle;
    size_t diagonal;
    const real *bias; /* (n), added to each row, unless c is added to; NULL: there is none */
} Product;

/* Computes the product of row-major arrays, on the calling thread alone. All sizes must fit an int (the model checks
   that once). k is at least 1. c overlaps neither a nor b. OpenBLAS computes a triangle's other half as well, so the
   entries that are said to be zero must be zero. */
void matmul_product(const Product *product, real *c);

/* Where many products share a right operand, as all threads share a weight, it is packed once, in the layout in which
   the kernels read it. The sums keep their bits. OpenBLAS reads no packed operand.

   matmul_packed_size: returns the floats of memory for op(b) (k,n), packed, in an arena; 0 with OpenBLAS.
   matmul_pack: packs some columns of op(b), which is `real`, for products with these n, k, op_b and b. The
   columns begin at a multiple of PACKED_COLUMNS, and end at one or at n; so threads can share them. */
enum { PACKED_COLUMNS = 32 };
size_t matmul_packed_size(size_t k, size_t n, bool rounds);
void matmul_pack(const Product *product, Range columns, float *packed);

/* Loads OpenBLAS, unless it is loaded. Where it makes the products, it is loaded before main. The functions below that
   ask OpenBLAS need it loaded. */
void matmul_load_openblas(void);
/* Does what matmul_product does, by OpenBLAS. */
void matmul_openblas(const Product *product, real *c);

/* Returns whether this build on this processor makes its products itself (gemm/gemm.h). Then results depend neither on
   OpenBLAS nor on the number of threads. */
bool matmul_is_own(void);

/* Returns the name of the kernels: "sqrtdk" or "OpenBLAS"; of bf16 "AMX-BF16", "AVX512-BF16" or "emulated bf16". */
const char *matmul_kernels(bool bf16);

/* Returns the bytes of each thread's buffer, for packed operands; 0 with OpenBLAS, whose buffers are unknown. */
size_t matmul_buffer_bytes(bool bf16);

/* Returns how many threads OpenMP offered when the program started: one per processor, or OMP_NUM_THREADS. OpenBLAS is
   set to one thread per call, and its OpenMP build then limits omp_get_max_threads to one as well. */
int matmul_threads_offered(void);

/* Return the kernels that OpenBLAS chose, as it names them ("SkylakeX"), and its build, "OpenMP" or "pthread"; "not
   loaded" as long as no product needed it. */
const char *matmul_core(void);
const char *matmul_build(void);
