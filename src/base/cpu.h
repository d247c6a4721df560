/* What the processor can do, by CPUID (not /proc/cpuinfo, which names what an emulator such as valgrind hides). */
#pragma once

#include <stddef.h>

/* Widths of vector kernels, oldest first. */
typedef enum { CPU_BASELINE, CPU_AVX2, CPU_AVX512, CPU_OTHER } CpuLevel; /* OTHER: not an x86-64 */

/* The widest that both the processor and the operating system support. */
CpuLevel cpu_level(void);
const char *cpu_level_name(CpuLevel level);

/* The processor's own name, "AMD EPYC 9354" or so; "unknown processor" where it has none. */
void cpu_name(char *out, size_t capacity);
