/* The processes, called ranks, that train one run together (docs/cluster.md). They only exchange bytes: MPI promises
   no order of a sum, so the caller adds up the parts in an order that it fixes. All use of MPI is in ranks.c, and only
   when it is built for train-mpi; in every other program there is one process, rank 0 of 1.

   All ranks run the same program. Only rank 0 has a directory to write and prints; the writers of run/ return at once
   on the others. Unless it says otherwise, a function is called by all ranks at the same point, with the same sizes.
   Only ranks_start and ranks_same raise errors. If the exchange itself fails, or a rank dies, MPI and its launcher end
   all ranks.

   An error that all ranks have, such as a config's, or a loss that is not finite, is raised on each of them, and rank
   0 reports it. An error that one rank has ends all ranks. So errors are not exchanged. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Joins the ranks that a launcher has started (mpirun -n 4 ./train-mpi ...); without a launcher this process is alone.
   All ranks must have been started with the same command. From now on rank 0 alone prints to stdout, and several ranks
   end on a signal that they have agreed on (base/interrupt.h, shards.c). A program without MPI refuses to be one of
   several. ranks_end waits for all ranks and ends MPI; it does nothing if ranks_start was not called. */
void ranks_start(const char *command);
void ranks_end(void);

/* Ends all ranks with this error: prints it to stderr and exits with its status. A rank above 0 first waits ten
   seconds, in which rank 0 reports the error if all have it; then it knows that it alone has it. With `start`, for an
   error in the command line, first joins the ranks. Any rank may call it at any point. */
_Noreturn void ranks_fail(Error error, bool start);

/* Return the number of ranks, the number of this rank (from 0), and the number of ranks on this machine: 1, 0 and 1
   before ranks_start. A rank may call them alone. */
size_t ranks_count(void);
size_t ranks_index(void);
size_t ranks_here(void);

/* Checks that `text` is the same on all ranks; its first 127 bytes count. The error, which all ranks raise, names those
   whose `what` differs from rank 0's. */
void ranks_same(const char *what, const char *text);

/* Sends cache lines to another rank, and receives lines from it. That rank calls this function with the two numbers
   exchanged. */
enum { LINE_BYTES = 64 };
void ranks_exchange(size_t other, const void *sent, size_t sent_lines, void *received, size_t received_lines);

/* Sends part of an array from rank `owner` to all: the first `size` bytes of each of `rows` rows, which are `stride`
   bytes apart. */
void ranks_share(void *array, size_t rows, size_t stride, size_t size, size_t owner);
