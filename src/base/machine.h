/* Questions to the processor and the operating system, which Linux, macOS and other systems answer in different
   ways. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Levels of vector instructions, oldest first. CPU_OTHER: not an x86-64. */
typedef enum { CPU_OTHER, CPU_BASELINE, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16, CPU_AMX_BF16 } CpuLevel;

/* Returns the highest level that both the processor and the operating system support, by CPUID: /proc/cpuinfo names
   instructions that an emulator such as valgrind hides. For AMX asks Linux for permission. A program of make CPU=avx2
   goes no higher than CPU_AVX2. */
CpuLevel cpu_level(void);
const char *cpu_level_name(CpuLevel level);

/* Returns whether the processor has tiles that multiply bf16 (AMX), which Linux may still refuse. */
bool cpu_has_tiles(void);

/* Writes the processor's name, as "AMD EPYC 9354"; "unknown processor" if it has none. */
void cpu_name(char *out, size_t capacity);

/* Returns the number of processors that the CPU quota of a container allows this process, rounded up; SIZE_MAX without
   a quota. `groups` is the list of its cgroups, /proc/self/cgroup, and `root` the folder of all of them,
   /sys/fs/cgroup. */
size_t processors_by_quota(const char *groups, const char *root);

/* Returns the bytes of memory of the machine; SIZE_MAX if the system does not say. */
size_t memory_of_machine(void);

/* Returns the bytes of stack that the calling thread has left; SIZE_MAX if the system does not say. The variables of a
   thread are at the far end of its stack. */
size_t stack_left(void);

/* Returns the path of the program's file, with links followed, which the caller frees; NULL, with errno, if the system
   does not say. */
char *program_path(void);

/* Returns the width of the terminal behind a descriptor, at least 1. Where that does not say, COLUMNS, or 80. */
size_t terminal_columns(int descriptor);
/* Returns whether TERM names a terminal that can do more than print lines. */
bool terminal_is_capable(void);

/* Calls function(argument). Returns true if it returned, false if `jump` ended it. Calls may be nested; a jump ends the
   innermost one. (WebAssembly has no jumps: there it would store the message of the error and trap.) */
bool call_until_jump(void (*function)(void *argument), void *argument);
_Noreturn void jump(void);
/* The jmp_buf of the innermost call. Tests set it, to protect a statement. */
extern void *jump_target;
