/* Takes the place of base/machine.c, base/interrupt.c and the system in WebAssembly: one thread, no signals, no files,
   and no jumps. An error stores its message where live_error returns it, and traps. Before each call of the facade the
   page calls live_begin, and after a trap it sets __stack_pointer back, since no function has returned. */
#include "base/machine.h"

#include <stdint.h>
#include <stdio.h>

#include "base/directory.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "data/corpus.h"
#include "gemm/matmul.h"
#include "run/pictures.h"

static Error error;
static Protection whole = {.error = &error};
const char *live_error(void) { return error.message; }
/* Protects what follows: an error releases the blocks that are made from now on. */
void live_begin(void) {
    *error.message = 0;
    whole.mark = memory_mark();
    innermost_protection = &whole;
}

bool call_until_jump(void (*function)(void *argument), void *argument) {
    function(argument);
    return true;
}
_Noreturn void jump(void) { __builtin_trap(); }

CpuLevel cpu_level(void) { return CPU_OTHER; }
const char *cpu_level_name(CpuLevel level) { return (void)level, "SIMD128"; }
void cpu_name(char *out, size_t capacity) { snprintf(out, capacity, "WebAssembly"); }
bool cpu_has_tiles(void) { return false; }
size_t memory_of_machine(void) { return (size_t)1 << 31; }
size_t stack_left(void) { return SIZE_MAX; }
size_t terminal_columns(int descriptor) { return (void)descriptor, (size_t)80; }
bool terminal_is_capable(void) { return false; }
int interrupt_signal(void) { return 0; }
int interrupt_noted(void) { return 0; }
void interrupt_agree(int signal_number) { (void)signal_number; }
const char sqrtdk_corpus[] = ""; /* the page has it */

/* Nothing is written, since a run has no directory here. Pictures are the page's. */
void directory_check(const Directory *directory) { (void)directory; }
void directory_sync(int fd, const char *path) { (void)fd, (void)path; }
void picture_attention(const Run *run, size_t from) { (void)run, (void)from; }
int dup2(int from, int to) { return (void)from, (void)to, -1; }

/* Products are the program's own, and OpenBLAS is never asked for. */
const char *matmul_core(void) { return "none"; }
const char *matmul_build(void) { return "none"; }
void matmul_load_openblas(void) { __builtin_trap(); }
void matmul_openblas(const Product *product, real *c) {
    (void)product, (void)c;
    __builtin_trap();
}
