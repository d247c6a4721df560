/* One process alone, or with RANKS_MPI (make MPI=1) all ranks of MPI_COMM_WORLD. One thread calls all functions,
   outside of parallel regions. */
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"

#ifdef RANKS_MPI
#define REMEDY "start them by the mpirun of the MPI that it was built with, or by srun --mpi=pmix"
#else
#define REMEDY "start train-mpi (make MPI=1)"
#endif

/* Stops a process that is alone although a launcher has started several. SLURM_NTASKS does not show that, since a
   batch script has it too. */
static void refuse_copies(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && strtol(size, NULL, 10) > 1)
            usage_error("%s is %s, and each of these processes would train a run of its own: " REMEDY
                        ", or unset the variable",
                        sizes[i], size);
    }
}

#ifndef RANKS_MPI

void ranks_start(const char *command) {
    (void)command;
    refuse_copies();
}
void ranks_end(void) {}
_Noreturn void ranks_fail(Error error, bool start) {
    (void)start;
    program_print_error("", error.message);
    exit((int)error.status);
}
size_t ranks_count(void) { return 1; }
size_t ranks_index(void) { return 0; }
size_t ranks_here(void) { return 1; }

void ranks_same(const char *what, const char *text) { (void)what, (void)text; }

void ranks_exchange(size_t other, const void *sent, size_t sent_lines, void *received, size_t received_lines) {
    (void)other, (void)sent, (void)sent_lines, (void)received, (void)received_lines;
}
void ranks_share(void *array, size_t rows, size_t stride, size_t size, size_t owner) {
    (void)array, (void)rows, (void)stride, (void)size, (void)owner;
}

#else
#include <mpi.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/text.h"

/* PASS_ON_SECONDS: MPICH's launcher, when it is told to end the ranks, drops lines of theirs that it has not read. */
enum { RANKS_MAX = 4096, TEXT_BYTES = 128, REPORT_SECONDS = 10, PASS_ON_SECONDS = 1 };

static int count = 1, self, here = 1;
static bool started;
static MPI_Datatype line; /* of LINE_BYTES: MPI counts in int, which is too small for bytes */

/* Joins the other ranks. */
static void join_ranks(void) {
    int threads;
    MPI_Comm machine;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS) runtime_error("MPI does not start");
    started = true;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &here);
    MPI_Comm_free(&machine);
    MPI_Type_contiguous(LINE_BYTES, MPI_BYTE, &line);
    MPI_Type_commit(&line);
}

void ranks_start(const char *command) {
    join_ranks();
    if (count == 1) {
        refuse_copies();
        return;
    }
    if (count > RANKS_MAX) usage_error("there are %d ranks, and at most %d may be", count, RANKS_MAX);
    ranks_same("the command", command);
    interrupt_agree(0);
    if (self > 0 && !freopen("/dev/null", "w", stdout)) runtime_error("cannot open /dev/null");
}

void ranks_end(void) {
    if (!started) return;
    MPI_Type_free(&line);
    MPI_Finalize();
}

static void wait_seconds(unsigned seconds) {
    while (seconds > 0) seconds = sleep(seconds);
}

_Noreturn void ranks_fail(Error error, bool start) {
    char rank[32] = "";
    if (start) join_ranks();
    if (self > 0) {
        snprintf(rank, sizeof rank, "rank %d: ", self);
        wait_seconds(REPORT_SECONDS);
    }
    program_print_error(rank, error.message);
    if (count > 1) {
        wait_seconds(PASS_ON_SECONDS);
        MPI_Abort(MPI_COMM_WORLD, (int)error.status);
    }
    ranks_end();
    exit((int)error.status);
}

size_t ranks_count(void) { return (size_t)count; }
size_t ranks_index(void) { return (size_t)self; }
size_t ranks_here(void) { return (size_t)here; }

void ranks_exchange(size_t other, const void *sent, size_t sent_lines, void *received, size_t received_lines) {
    MPI_Sendrecv(sent, (int)sent_lines, line, (int)other, 0, received, (int)received_lines, line, (int)other, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void ranks_share(void *array, size_t rows, size_t stride, size_t size, size_t owner) {
    MPI_Datatype part;
    MPI_Type_vector((int)rows, (int)size, (int)stride, MPI_BYTE, &part);
    MPI_Type_commit(&part);
    MPI_Bcast(array, 1, part, (int)owner, MPI_COMM_WORLD);
    MPI_Type_free(&part);
}

void ranks_same(const char *what, const char *text) {
    static char all[RANKS_MAX][TEXT_BYTES];
    char group[256] = "";
    int different = 0, first = 0;
    memset(all[self], 0, sizeof *all);
    strncpy(all[self], text, sizeof *all - 1);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, all, sizeof *all, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = count; r-- > 1;)
        if (strcmp(all[r], all[0]) != 0) first = r, different++;
    for (int r = first; r > 0 && r < count; r++)
        if (strcmp(all[r], all[0]) != 0) text_append(group, sizeof group, "%s%d", *group ? ", " : "", r);
    if (different > 0)
        runtime_error("rank%s %s: %s is %s, and that of rank 0 is %s", different == 1 ? "" : "s", group, what,
                      all[first], all[0]);
}
#endif
