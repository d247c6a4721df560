/* Blocks, sizes and arenas. */
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "base/machine.h"

/* The head of a block, before its bytes. */
typedef struct Block {
    _Alignas(max_align_t) struct Block *older;
    struct Block *newer;
    void (*undo)(void *block);
    size_t number; /* in the order in which blocks were made, from 1 */
} Block;
static Block *newest;
static size_t made;

void *memory_make(size_t count, size_t size, const char *what) {
    const size_t bytes = size_add(size_mul(count, size), sizeof(Block));
    Block *block = bytes < PTRDIFF_MAX ? calloc(bytes, 1) : NULL;
    if (!block) runtime_error("no memory for %s", what);
    made++;
    *block = (Block){.older = newest, .number = made};
    if (newest) newest->newer = block;
    newest = block;
    return block + 1;
}

void *memory_make_with_undo(size_t size, void (*undo)(void *block), const char *what) {
    void *memory = memory_make(1, size, what);
    ((Block *)memory - 1)->undo = undo;
    return memory;
}

char *memory_copy_text(const char *text, size_t length) {
    char *copy = memory_make(size_add(length, 1), 1, "a text");
    if (length) memcpy(copy, text, length);
    return copy;
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it believes that a block which was unlinked is the newest one. */
void memory_free(void *memory) {
    if (!memory) return;
    Block *block = (Block *)memory - 1;
    void (*const undo)(void *) = block->undo;
    block->undo = NULL; /* if it raises an error, the next release frees the block */
    if (undo) undo(memory);
    if (block->older) block->older->newer = block->newer;
    if (block->newer) block->newer->older = block->older;
    else newest = block->older;
    free(block);
}

size_t memory_mark(void) { return made; }

void memory_release(size_t mark) {
    while (newest && newest->number > mark) memory_free(newest + 1);
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */

enum { ALIGNMENT = 64 };

size_t size_mul(size_t a, size_t b) {
    size_t product;
    return a == SIZE_MAX || b == SIZE_MAX || __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

size_t size_add(size_t a, size_t b) {
    size_t sum;
    return a == SIZE_MAX || b == SIZE_MAX || __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

void *arena_take(Arena *arena, size_t count, size_t size) {
    size_t bytes = size_add(size_mul(count, size), ALIGNMENT - 1);
    if (bytes != SIZE_MAX) bytes &= ~(size_t)(ALIGNMENT - 1);
    size_t at = arena->used;
    arena->used = size_add(at, bytes);
    if (!arena->base || arena->used > arena->capacity) return NULL;
    return arena->base + at;
}

/* Asks the system for large pages, with which the processor looks up fewer addresses. It may refuse. */
static void prefer_large_pages(char *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)memory % page) % page;
    if (bytes > before) madvise(memory + before, (bytes - before) / page * page, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

void memory_check_stack(size_t left) {
    enum { STACK_KB = 400 }; /* the page of a run takes 180, a file of JSON with arrays in arrays more */
    if (left >> 10 < STACK_KB)
        runtime_error("a thread has %zu KB of stack left, and may need %d: raise ulimit -s, or OMP_STACKSIZE, to 8192",
                      left >> 10, STACK_KB);
}

bool arena_allocate(Arena *arena, const char *what) {
    char words[128];
    if (arena->base) return false;
    const size_t bytes = size_add(arena->used, ALIGNMENT), machine = memory_of_machine();
    if (bytes >= SIZE_MAX / 2 || bytes > machine)
        runtime_error("%s need %.4g GB, and this machine has %.4g GB of memory: choose a smaller model or batch", what,
                      (double)bytes / 1e9, (double)machine / 1e9);
    snprintf(words, sizeof words, "%s (%.1f MB): choose a smaller model or batch", what, (double)bytes / 1e6);
    char *block = memory_make(bytes, 1, words);
    const size_t begin = -(uintptr_t)block % ALIGNMENT;
    prefer_large_pages(block, bytes);
    *arena = (Arena){.base = block + begin, .capacity = bytes - ALIGNMENT};
    return true;
}
