/* The processes, called ranks, that train one run together (docs/cluster.md). They exchange bytes and nothing else: MPI
   promises no order of a sum, so whoever needs one computes it from the parts, in an order of its own. Everything that
   is MPI is in ranks.c, when it is built for train-mpi; in every other program there is one process, rank 0 of 1.

   Unless it says otherwise, a function is called by all ranks at the same point of the program, with the same sizes.
   None but ranks_start, ranks_agree and ranks_same can fail: where the exchange itself does, or where a rank dies, MPI
   and its launcher end all ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/range.h"

/* Joins the ranks that a launcher has started (mpirun -n 4 ./train-mpi ...); without a launcher this process is alone.
   A program without MPI refuses to be one of several. Called once, before anything else here. ranks_end waits for all
   ranks and leaves them; it does nothing where ranks_start was not called. */
bool ranks_start(Error *err);
void ranks_end(void);

/* How many ranks there are, which of them this is (from 0; rank 0 alone writes files and messages), and how many are on
   this machine. Before ranks_start: 1, 0 and 1. Any rank may call them alone. */
size_t ranks_count(void);
size_t ranks_index(void);
size_t ranks_here(void);

/* Whether all ranks are `ok`. Where one is not, false for all of them, with the error of the first such rank. *signal
   becomes that of the first rank whose signal is not 0; signal may be NULL. */
bool ranks_agree(bool ok, int *signal, Error *err);

/* Whether `text`, of which 127 bytes count, is the same on all ranks. Otherwise an error for all of them that names the
   ranks whose `what` is another than that of rank 0. */
bool ranks_same(const char *what, const char *text, Error *err);

/* all (ranks, size bytes): each rank has filled in its own item; afterwards every rank has all of them. */
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
