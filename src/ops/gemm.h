/* Products of single-precision matrices, for the sizes this program has: a few hundred to a few thousand rows, and
   inner dimensions of 32 to some thousand, where a general BLAS spends a fifth of its time on preparation.

   How: B is packed into panels as wide as a tile, which stay in the second-level cache; a tile of C is accumulated in
   registers over up to DEPTH steps of k while its panel is in the first-level cache (Goto and van de Geijn 2008; the
   tile as in BLIS, Van Zee and van de Geijn 2015). A is read in place, unless it is transposed and large: then it is
   packed as well, tile by tile.

   Every entry of C is a sum over k in one order, with fused multiply-adds, in pieces of DEPTH: the same bits whatever
   the other sizes, the number of threads that share the rows, and the width of the vectors. */
#pragma once

#include "base/machine.h"
#include "ops/matmul.h"

/* The width that suits this processor: CPU_AVX512, CPU_AVX2 (with FMA), or CPU_OTHER when there is none, or none in
   this build. */
CpuLevel gemm_level(void);

/* Bytes of the buffers that each thread packs into; 0 where gemm_level says CPU_OTHER. */
size_t gemm_buffer_bytes(void);

/* The product as matmul_product defines it, by the kernels of a level that the processor has. */
void gemm(CpuLevel level, const Product *product, const real *a, const real *b, real *c);
