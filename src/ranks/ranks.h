/* The processes, called ranks, that train one run together (docs/cluster.md). They only exchange bytes: MPI promises no
   order of a sum, so the caller adds up the parts in its own order. All use of MPI is in ranks.c, and only when it is
   built for train-mpi; in every other program there is one process, rank 0 of 1.

   Unless it says otherwise, a function is called by all ranks at the same point of the program, with the same sizes.
   Only ranks_start, ranks_together and ranks_same raise errors. If the exchange itself fails, or a rank dies, MPI and
   its launcher end all ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/range.h"

/* Joins the ranks that a launcher has started (mpirun -n 4 ./train-mpi ...); without a launcher this process is alone.
   A program without MPI refuses to be one of several processes. Call it once, before all other functions of this file.
   ranks_end waits for all ranks and leaves them; it does nothing if ranks_start was not called. */
void ranks_start(void);
void ranks_end(void);

/* Takes the place of ranks_start after an error in the command line: raises on all ranks the error of the first rank
   that has one. */
_Noreturn void ranks_refuse(Error error);

/* The number of ranks, the number of this rank (from 0; only rank 0 writes files and messages), and the number of ranks
   on this machine. Before ranks_start these are 1, 0 and 1. A rank may call these functions alone. */
size_t ranks_count(void);
size_t ranks_index(void);
size_t ranks_here(void);

/* Calls function(argument), on all ranks or, with `alone`, on rank 0 alone. If an error ends it on any rank, raises on
   all ranks the error of the first such rank. */
void ranks_together(void (*function)(void *argument), void *argument, bool alone);
/* Returns the signal of the first rank that has one (not 0), or 0. */
int ranks_signal(int signal);

/* Raises an error on all ranks unless `text` is the same on all of them; its first 127 bytes count. The error names the
   ranks whose `what` differs from that of rank 0. */
void ranks_same(const char *what, const char *text);

/* `all` has one item of `size` bytes per rank. Each rank has set its own item; afterwards every rank has all items. */
void ranks_gather(void *all, size_t size);

/* All ranks get rank `owner`'s part of an array: of `rows` rows, the next one `stride` bytes further, the first `size`
   bytes each. */
void ranks_share(void *array, size_t rows, size_t stride, size_t size, size_t owner);

/* An array of `lines` cache lines is cut into as many segments as there are ranks (ranks_segment, in lines).
   ranks_deal: this rank's segment of every rank's array, in `parts` (ranks, size of the segment).
   ranks_collect: every rank has set its own segment of the array; afterwards it has all of them. */
enum { LINE_BYTES = 64 };
static inline Range ranks_segment(size_t lines, size_t rank) { return range_split(lines, 1, rank, ranks_count()); }
void ranks_deal(const void *array, size_t lines, void *parts);
void ranks_collect(void *array, size_t lines);
