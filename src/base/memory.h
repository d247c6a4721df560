/* Blocks of memory and other things that an error releases; sizes that cannot wrap; arenas.

   All memory of the program is made here. The blocks are in a list, the newest first.
   memory_mark names a place in this list, and memory_release frees all blocks made since then. A function that makes
   several blocks for itself calls memory_mark at its beginning and memory_release at its end. An error releases the
   blocks made since its protect (base/error.h). A block may have a function that is called before it is freed. So an
   open file, a lock or a new directory is a block too, and an error closes, unlocks or removes it. At the end of the
   program main releases all blocks, so those that live as long as a command are never freed by hand.

   These functions are called by one thread, outside of parallel regions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns `count` items of `size` bytes, all zero; never NULL, also for 0 bytes. An error says "no memory for WHAT". */
void *memory_make(size_t count, size_t size, const char *what);
/* Returns a zeroed block of `size` bytes. undo(block) is called before the block is freed. An error that it
   raises is ignored while another error is being handled. */
void *memory_make_with_undo(size_t size, void (*undo)(void *block), const char *what);
/* Returns a copy of a text, ended by a zero. */
char *memory_copy_text(const char *text, size_t length);
/* Calls the block's undo and frees it. NULL does nothing. */
void memory_free(void *block);

/* Returns the number of blocks that were ever made. */
size_t memory_mark(void);
/* Frees, the newest first, all blocks that were made since the mark and are still there. */
void memory_release(size_t mark);

/* Raises an error if a thread that has `left` bytes of stack may need more. */
void memory_check_stack(size_t left);

/* Return the product and the sum of sizes; SIZE_MAX when the true value does not fit. SIZE_MAX stays SIZE_MAX, so that
   a whole expression can be checked once, at the end. */
size_t size_mul(size_t a, size_t b);
size_t size_add(size_t a, size_t b);

/* A block of memory handed out from the front, and freed as every other block. An arena without memory (base NULL,
   capacity 0) only counts. So the code that lays out arrays measures them first, and each size is written once:

       do lay_out(...);
       while (arena_allocate(&arena, "the arrays")); */
typedef struct {
    char *base;
    size_t used, capacity;
} Arena;

/* Returns `count` items of `size` bytes, aligned to 64 (a cache line); NULL while measuring. `used` becomes SIZE_MAX
   when the layout does not fit into size_t. */
void *arena_take(Arena *arena, size_t count, size_t size);

/* Gives a measured arena its memory, zeroed by the system on first touch, in large pages where it has them, starts it
   again at the front, and returns true. Returns false for an arena that has its memory. `what` names the arrays in
   errors. */
bool arena_allocate(Arena *arena, const char *what);
