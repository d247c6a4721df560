/* Sizes that cannot wrap, and arenas: one block for each family of arrays, sized before the first step. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Product and sum of sizes; SIZE_MAX when the true value does not fit, and SIZE_MAX stays SIZE_MAX, so that a whole
   expression can be checked once, at the end. */
size_t size_mul(size_t a, size_t b);
size_t size_add(size_t a, size_t b);

/* A block of memory handed out from the front and freed as a whole. An arena without memory (base NULL, capacity 0)
   only counts: the code that lays out arrays first measures them. */
typedef struct {
    char *base;
    size_t used, capacity;
} Arena;

/* Bytes of `count` items of `size` bytes, aligned to 64 (a cache line); NULL while measuring. `used` becomes
   SIZE_MAX when the layout does not fit into size_t. */
void *arena_take(Arena *arena, size_t count, size_t size);

/* Gives a measured arena its memory, zeroed by the system on first touch, and starts it again at the front.
   `what` names the family in the error. */
bool arena_allocate(Arena *arena, const char *what, Error *err);
void arena_free(Arena *arena);
