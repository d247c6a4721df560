#include "base/cpu.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Which registers the operating system saves: 0x6 is AVX, 0xe6 AVX-512 (Intel SDM, volume 1, 13.3). */
static unsigned saved_registers(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

CpuLevel cpu_level(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) return CPU_BASELINE;
    unsigned saved = saved_registers();
    if ((saved & 0x6) != 0x6) return CPU_BASELINE;
    const unsigned fma = c & bit_FMA;
    const unsigned skylake = (unsigned)bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | (unsigned)bit_AVX512VL;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || !fma) return CPU_AVX;
    return (saved & 0xe6) == 0xe6 && (b & skylake) == skylake ? CPU_AVX512 : CPU_AVX2;
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
    static const char *const names[] = {"SSE", "AVX", "AVX2", "AVX-512", "this processor"};
    return names[level];
}
