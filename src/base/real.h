/* `real` is the type of every number the model computes with: float, or double with -DREAL_DOUBLE (the build in
   which gradients are compared with differences). The same sources compile both ways. */
#pragma once

#ifdef REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* Marks a function with a loop over many numbers: compiled once for each instruction set, chosen at load time by
   CPUID, so that one binary is fast on AVX-512 and AVX2 and still runs on any x86-64. The levels are those of the
   psABI (from gcc 12 on; before, the nearest features); a processor's name, as in arch=haswell, would be taken by
   that one alone. The sanitizers' runtimes are not up yet when such a choice is made, so their builds go without; so
   does clang, whose version 14 emits the clones of a function but not the function itself. */
#if !defined(__x86_64__) || !defined(__ELF__) || defined(SANITIZED) || defined(__clang__)
#define MULTIVERSIONED
#elif __GNUC__ >= 12
#define MULTIVERSIONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MULTIVERSIONED __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

/* Unrolls the loop that follows, whose number of turns is constant and at most 16. Clang ignores gcc's pragma. */
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
