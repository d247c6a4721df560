/* The code of the trainer that differs between Linux, macOS and other systems: the processor's name and instructions,
   memory, the path of this program. Other code asks through machine.h. */
#include "base/machine.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#include <sys/syscall.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <sys/sysctl.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/memory.h"

static const char UNKNOWN[] = "unknown processor";

#ifdef __x86_64__
bool cpu_has_tiles(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 }; /* clang and gcc name these differently */
    unsigned eax, ebx, ecx, edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx & AMX_BF16 && edx & AMX_TILE;
}

/* Asks Linux for the 8 KB of each thread's tiles: a permission that does not survive exec. */
static bool tiles_permitted(void) {
#ifdef __linux__
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* asm/prctl.h has it from Linux 5.16 on */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

CpuLevel cpu_level(void) {
    __builtin_cpu_init(); /* reads CPUID, and what the operating system saves */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_BASELINE;
#ifdef AVX2_ALONE
    return CPU_AVX2;
#endif
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (!wide) return CPU_AVX2;
    if (!__builtin_cpu_supports("avx512bf16")) return CPU_AVX512;
    return cpu_has_tiles() && tiles_permitted() ? CPU_AMX_BF16 : CPU_AVX512_BF16;
}

void cpu_name(char *out, size_t capacity) {
    unsigned brand[13] = {0};
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) {
        snprintf(out, capacity, "%s", UNKNOWN);
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

bool cpu_has_tiles(void) { return false; }

void cpu_name(char *out, size_t capacity) {
    snprintf(out, capacity, "%s", UNKNOWN);
#ifdef __APPLE__
    sysctlbyname("machdep.cpu.brand_string", out, &capacity, NULL, 0);
#endif
}
#endif

const char *cpu_level_name(CpuLevel level) {
    static const char *const names[] = {"this processor", "SSE", "AVX2", "AVX-512", "AVX-512", "AVX-512"};
    return names[level];
}

enum { CGROUP_PATH = 4096 };

/* Reads the two numbers that a file of a cgroup begins with; 0 where it has none. */
static void read_numbers(const char *folder, const char *name, double *first, double *second) {
    char path[2 * CGROUP_PATH + 32], text[64] = "", *end;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (file && !fgets(text, sizeof text, file)) *text = 0;
    if (file) fclose(file);
    *first = strtod(text, &end);
    *second = strtod(end, NULL);
}

/* Returns the processors that a cgroup may use. In version 2 cpu.max has "QUOTA PERIOD" or "max PERIOD", in
   microseconds; in version 1 each has a file, and a quota of -1 is none. */
static double group_quota(const char *folder) {
    double quota, period, unused;
    read_numbers(folder, "cpu.max", &quota, &period);
    if (quota <= 0) {
        read_numbers(folder, "cpu.cfs_quota_us", &quota, &unused);
        read_numbers(folder, "cpu.cfs_period_us", &period, &unused);
    }
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* A line of `groups` is NUMBER:CONTROLLERS:GROUP, where version 2 has no controllers. The quotas of the groups above
   hold as well. A container may see its group as the root, while the line has its path on the host: folders that are
   missing have no quota. */
size_t processors_by_quota(const char *groups, const char *root) {
    char line[CGROUP_PATH], controllers[CGROUP_PATH + 2], folder[2 * CGROUP_PATH];
    double least = INFINITY;
    FILE *file = fopen(groups, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        snprintf(controllers, sizeof controllers, ",%.*s,", (int)(group - list - 1), list + 1);
        const bool version_2 = strcmp(controllers, ",,") == 0;
        if (!version_2 && !strstr(controllers, ",cpu,")) continue;
        group++;
        for (char *end = group + strcspn(group, "\n"); end; end = strrchr(group, '/')) {
            *end = 0;
            snprintf(folder, sizeof folder, "%s%s%s", root, version_2 ? "" : "/cpu", group);
            least = fmin(least, group_quota(folder));
        }
    }
    if (file) fclose(file);
    return least < (double)INT_MAX ? (size_t)ceil(least) : SIZE_MAX;
}

size_t memory_of_machine(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? size_mul((size_t)pages, (size_t)size) : SIZE_MAX;
}

size_t stack_left(void) {
    size_t size = SIZE_MAX;
#ifdef __GLIBC__
    pthread_attr_t attributes;
    void *lowest;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return SIZE_MAX;
    if (pthread_attr_getstack(&attributes, &lowest, &size) == 0)
        size = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)lowest;
    pthread_attr_destroy(&attributes);
#endif
    return size;
}

/* The kernel hands over the name by which it found the file, so that no /proc is needed. For a program that was started
   from an open file, that name leads to no file, and /proc may have one. */
char *program_path(void) {
    char *path = NULL;
#ifdef __APPLE__
    char found[4096];
    uint32_t size = sizeof found;
    if (_NSGetExecutablePath(found, &size) == 0) path = realpath(found, NULL);
#else
#ifdef __linux__
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): getauxval returns addresses as numbers. */
    path = realpath((const char *)getauxval(AT_EXECFN), NULL);
#endif
    if (!path) path = realpath("/proc/self/exe", NULL);
#endif
    return path;
}

size_t terminal_columns(int descriptor) {
    enum { COLUMNS_MOST = 10000 };
    struct winsize size = {0};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    const long number = columns ? strtol(columns, NULL, 10) : 0;
    return number > 0 && number < COLUMNS_MOST ? (size_t)number : 80;
}

bool terminal_is_capable(void) {
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0;
}

void *jump_target;

/* _setjmp does not save the signal mask. On a Mac, setjmp does. */
bool call_until_jump(void (*function)(void *argument), void *argument) {
    jmp_buf here;
    void *const outer = jump_target; /* unchanged after _setjmp, so that it is defined after the jump as well */
    jump_target = &here;
    const bool called = _setjmp(here) == 0;
    if (called) function(argument);
    jump_target = outer;
    return called;
}

_Noreturn void jump(void) { _longjmp(*(jmp_buf *)jump_target, 1); }
