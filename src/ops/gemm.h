/* Products of single-precision matrices, for the sizes this program has: a few hundred to a few thousand rows, and
   inner dimensions of 32 to some thousand, where a general BLAS spends a fifth of its time on preparation.

   How: B is packed into panels as wide as a tile, which stay in the second-level cache; a tile of C is accumulated in
   registers over up to DEPTH steps of k while its panel, or with AMX its rows of A, is in the first-level cache (Goto
   and van de Geijn 2008; the tile as in BLIS, Van Zee and van de Geijn 2015). A is read in place, unless it is
   transposed and large, or must be rounded: then it is packed as well, tile by tile.

   Every entry of C is a sum over k in one order, with fused multiply-adds, in pieces of DEPTH: the same bits whatever
   the other sizes, the number of threads that share the rows, and the width of the vectors. */
#pragma once

#include "base/machine.h"
#include "ops/matmul.h"

/* GEMM_NONE: products are OpenBLAS's. The two of floats give the same bits. Of bf16 the operands are rounded (to
   nearest, ties to even) and the sums are of floats: AVX512_BF16 and its emulation give the same bits, but that the
   former takes subnormal numbers as zero, and of two steps of k they add the second first; AMX_BF16 adds in an order of
   its own. */
typedef enum { GEMM_NONE, GEMM_AVX2, GEMM_AVX512, GEMM_EMULATED_BF16, GEMM_AVX512_BF16, GEMM_AMX_BF16 } GemmKernel;

/* Whether this build has the kernel and this processor runs it; the fastest of those, perhaps GEMM_NONE. */
bool gemm_runs(GemmKernel kernel);
GemmKernel gemm_best(bool bf16);

/* Bytes of the buffers that each thread packs into; 0 for GEMM_NONE. */
size_t gemm_buffer_bytes(GemmKernel kernel);

/* The product as matmul_product defines it, by a kernel that runs here. */
void gemm(GemmKernel kernel, const Product *product, const void *a, const void *b, real *c);
