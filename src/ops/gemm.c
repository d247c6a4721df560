#include "ops/gemm.h"

#include <string.h>

#if defined(__x86_64__) && !defined(REAL_DOUBLE)
#define HERE

enum {
    DEPTH = 256,   /* steps of k to a panel: 32 KB for the widest */
    COLUMNS = 512, /* of B that are packed at a time: half a megabyte */
    BLOCK = 40,    /* tiles of rows that meet all of those panels before the next ones: half a megabyte of A */
    COPIED = 128,  /* steps from which on a transposed A is copied: it is read down its columns, again for each tile */
    STRIDE = 496,  /* floats between the rows of that copy: 31 cache lines, so that a column is in every set */
};
static _Thread_local float packed[DEPTH * COLUMNS] __attribute__((aligned(64)));
static _Thread_local float copied[DEPTH * STRIDE] __attribute__((aligned(64)));

/* 24 sums, 2 vectors of B and 1 of A in 32 registers of 16 floats. */
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define LANES 16
#define ROWS 12
#define VECTORS 2
#include "ops/gemm_kernel.h"
#undef NAME
#undef TARGET
#undef LANES
#undef ROWS
#undef VECTORS

/* 12 sums, 2 and 1 in 16 registers of 8 floats. */
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 6
#define VECTORS 2
#include "ops/gemm_kernel.h"

#endif

CpuLevel gemm_level(void) {
#ifdef HERE
    CpuLevel level = cpu_level();
    if (level == CPU_AVX512 || level == CPU_AVX2) return level;
#endif
    return CPU_OTHER;
}

void gemm(CpuLevel level, const Product *product, const float *a, const float *b, float *c) {
#ifdef HERE
    (level == CPU_AVX512 ? gemm_avx512 : gemm_avx2)(product, a, b, c, packed, copied);
#else
    (void)level, (void)product, (void)a, (void)b, (void)c;
#endif
}
