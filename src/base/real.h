/* `real` is the type of every number the model computes with: float, or double with -DREAL_DOUBLE (the build in
   which gradients are compared with differences). The same sources compile both ways. */
#pragma once

#ifdef REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* Marks a function with a loop over many numbers. It is compiled once for each instruction set, and CPUID decides at
   load time which version runs. So one binary is fast on AVX-512 and AVX2 and still runs on any x86-64. The levels are
   those of the psABI (from gcc 12 on; before, the nearest features); a processor's name, as in arch=haswell, would
   select that processor alone. The sanitizers' builds have one version, because their runtimes start only after this
   choice. So has clang's, because version 14 emits the clones of a function without the function itself.
   make CPU=avx2 defines AVX2_ALONE: no clone and no kernel has instructions above AVX2. */
#ifdef AVX2_ALONE
#define ABOVE_AVX2(target)
#else
#define ABOVE_AVX2(target) target,
#endif
#if !defined(__x86_64__) || !defined(__ELF__) || defined(SANITIZED) || defined(__clang__)
#define MULTIVERSIONED
#elif __GNUC__ >= 12
#define MULTIVERSIONED __attribute__((target_clones(ABOVE_AVX2("arch=x86-64-v4") "arch=x86-64-v3", "default")))
#else
#define MULTIVERSIONED __attribute__((target_clones(ABOVE_AVX2("avx512f") "avx2", "default")))
#endif

/* Unrolls the loop that follows, whose number of turns is constant and at most 16. Clang ignores gcc's pragma. */
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
