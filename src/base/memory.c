/* Sizes and arenas. The code that lays out arrays runs twice: first on an arena without memory, which only counts,
   then on the arena that arena_allocate gave its memory. So each size is written once. */
#include "base/memory.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/machine.h"

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

bool arena_allocate(Arena *arena, const char *what, Error *err) {
    size_t bytes = arena->used, machine = memory_of_machine();
    if (bytes >= SIZE_MAX / 2 || bytes > machine)
        return runtime_error(err,
                             "%s need %.4g GB, and this machine has %.4g GB of memory: choose a smaller model or batch",
                             what, (double)bytes / 1e9, (double)machine / 1e9);
    if (bytes == 0) bytes = ALIGNMENT;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return runtime_error(err, "no memory for %s (%.1f MB): choose a smaller model or batch", what,
                             (double)bytes / 1e6);
    *arena = (Arena){.base = base, .used = 0, .capacity = bytes};
    return true;
}

void arena_free(Arena *arena) {
    if (arena->base) munmap(arena->base, arena->capacity);
    *arena = (Arena){0};
}
