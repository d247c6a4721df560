/* Products of single-precision matrices, for the sizes this program has: a few hundred to a few thousand rows, and
   inner dimensions of 32 to some thousand, where a general BLAS spends a fifth of its time on preparation. docs/gemm.md
   explains the words tile, panel and piece, and has measurements.

   The product, or gemm_pack before it, packs B into panels as wide as a tile, which stay in the second-level cache. A
   tile of C is accumulated in registers over up to 384 steps of k, with bf16 768. Meanwhile its panel, or with AMX its
   rows of A, is in the first-level cache (Goto and van de Geijn 2008; the tile as in BLIS, Van Zee and van de Geijn
   2015). A is packed some tiles at a time if it must be rounded, or if it is transposed and large or of bf16; otherwise
   it is read in place.

   Every entry of C is summed over k in one order, in pieces of so many steps, with fused multiply-adds. So its bits do
   not depend on the other sizes, on the number of threads that share the rows, or on the width of the vectors. */
#pragma once

#include "base/machine.h"
#include "gemm/matmul.h"

/* GEMM_NONE: OpenBLAS computes the products. GEMM_FLOAT4 has vectors of 4 floats, for arm64 and WebAssembly; it runs on
   every processor. The kernels of floats give the same bits where they have fused multiply-adds: on x86-64 and in
   WebAssembly GEMM_FLOAT4 rounds each product before it is added. Those of bf16 round the operands (to nearest, ties to
   even) and sum in float. AVX512_BF16 and its emulation add the second of two steps of k first, and give the same bits,
   except that AVX512_BF16 takes subnormal numbers as zero. AMX_BF16 adds in an order of its own, and where alpha is 1
   it begins with C or the bias. */
typedef enum {
    GEMM_NONE,
    GEMM_FLOAT4,
    GEMM_AVX2,
    GEMM_AVX512,
    GEMM_EMULATED_BF16,
    GEMM_AVX512_BF16,
    GEMM_AMX_BF16
} GemmKernel;

/* gemm_runs returns whether this build has the kernel and this processor runs it, gemm_best the fastest that does. */
bool gemm_runs(GemmKernel kernel);
GemmKernel gemm_best(bool bf16);
/* Returns the name of a kernel that runs, or of what computes in place of one. */
const char *gemm_name(GemmKernel kernel);

/* Returns the bytes of each thread's buffer, for packed operands; 0 for GEMM_NONE. */
size_t gemm_buffer_bytes(GemmKernel kernel);

/* Returns the bytes of B that this thread has packed since it started: for the benchmark. */
size_t gemm_packed_bytes(void);

/* Computes the product as matmul_product defines it, by a kernel that runs here. m, n and k are at least 1. */
void gemm(GemmKernel kernel, const Product *product, real *c);
/* Packs B as matmul_pack defines it, for products by this kernel. */
void gemm_pack(GemmKernel kernel, const Product *product, Range columns, float *packed);
