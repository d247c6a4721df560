#include "base/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#if defined(__x86_64__)
#include <cpuid.h>

CpuLevel cpu_level(void) {
    __builtin_cpu_init(); /* by CPUID, and what the operating system saves */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_BASELINE;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return wide ? CPU_AVX512 : CPU_AVX2;
}

void cpu_name(char *out, size_t capacity) {
    unsigned brand[13] = {0};
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) {
        snprintf(out, capacity, "unknown processor");
        return;
    }
    for (size_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + (unsigned)i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2], &brand[4 * i + 3]);
    const char *text = (const char *)brand;
    snprintf(out, capacity, "%s", text + strspn(text, " "));
    for (size_t n = strlen(out); n > 0 && out[n - 1] == ' '; n--) out[n - 1] = 0;
}
#else
CpuLevel cpu_level(void) { return CPU_OTHER; }
void cpu_name(char *out, size_t capacity) { snprintf(out, capacity, "unknown processor"); }
#endif

const char *cpu_level_name(CpuLevel level) {
    static const char *const names[] = {"SSE", "AVX2", "AVX-512", "this processor"};
    return names[level];
}
