/* One process alone, or with RANKS_MPI (make MPI=1) all ranks of MPI_COMM_WORLD. One thread calls all functions,
   outside of parallel regions. */
#include "ranks/ranks.h"

#include <string.h>

#ifndef RANKS_MPI
#include <stdlib.h>

void ranks_start(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && strtol(size, NULL, 10) > 1)
            usage_error("%s is %s, and each of these processes would train a run of its own: start train-mpi "
                        "(make MPI=1), or unset the variable",
                        sizes[i], size);
    }
}
void ranks_end(void) {}
_Noreturn void ranks_refuse(Error error) { error_raise_again(&error); }
size_t ranks_count(void) { return 1; }
size_t ranks_index(void) { return 0; }
size_t ranks_here(void) { return 1; }

void ranks_together(void (*function)(void *argument), void *argument, bool alone) {
    (void)alone;
    function(argument);
}
int ranks_signal(int signal) { return signal; }
void ranks_same(const char *what, const char *text) { (void)what, (void)text; }

void ranks_gather(void *all, size_t size) { (void)all, (void)size; }
void ranks_share(void *array, size_t rows, size_t stride, size_t size, size_t owner) {
    (void)array, (void)rows, (void)stride, (void)size, (void)owner;
}
void ranks_deal(const void *array, size_t lines, void *parts) { memcpy(parts, array, lines * LINE_BYTES); }
void ranks_collect(void *array, size_t lines) { (void)array, (void)lines; }

#else
#include <mpi.h>

#include "base/text.h"

enum { RANKS_MAX = 4096, TEXT_BYTES = 128 };

static int count = 1, own, here = 1;
static bool started;
static MPI_Datatype line; /* of LINE_BYTES: sizes are ints, and bytes would be too many */

void ranks_start(void) {
    int threads;
    MPI_Comm machine;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS) runtime_error("MPI does not start");
    started = true;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &here);
    MPI_Comm_free(&machine);
    MPI_Type_contiguous(LINE_BYTES, MPI_BYTE, &line);
    MPI_Type_commit(&line);
    if (count > RANKS_MAX) usage_error("there are %d ranks, and at most %d may be", count, RANKS_MAX);
}

void ranks_end(void) {
    if (!started) return;
    MPI_Type_free(&line);
    MPI_Finalize();
}

size_t ranks_count(void) { return (size_t)count; }
size_t ranks_index(void) { return (size_t)own; }
size_t ranks_here(void) { return (size_t)here; }

void ranks_gather(void *all, size_t size) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, all, (int)size, MPI_BYTE, MPI_COMM_WORLD);
}

void ranks_share(void *array, size_t rows, size_t stride, size_t size, size_t owner) {
    MPI_Datatype part;
    MPI_Type_vector((int)rows, (int)size, (int)stride, MPI_BYTE, &part);
    MPI_Type_commit(&part);
    MPI_Bcast(array, 1, part, (int)owner, MPI_COMM_WORLD);
    MPI_Type_free(&part);
}

void ranks_together(void (*function)(void *argument), void *argument, bool alone) {
    static int failed[RANKS_MAX];
    Error error = {0};
    int first = 0;
    if (!alone || own == 0) protect(function, argument, &error);
    failed[own] = error.status != STATUS_OK;
    ranks_gather(failed, sizeof *failed);
    while (first < count && !failed[first]) first++;
    if (first == count) return;
    MPI_Bcast(&error, sizeof error, MPI_BYTE, first, MPI_COMM_WORLD);
    if (first > 0) error_raise(error.status, "rank %d: %s", first, error.message);
    error_raise_again(&error);
}

static void raise_again(void *error) { error_raise_again(error); }

_Noreturn void ranks_refuse(Error error) {
    ranks_start();
    ranks_together(raise_again, &error, false);
    error_raise_again(&error); /* not reached: this rank has failed */
}

int ranks_signal(int signal) {
    static int all[RANKS_MAX];
    all[own] = signal;
    ranks_gather(all, sizeof *all);
    for (int r = 0; r < count; r++)
        if (all[r]) return all[r];
    return 0;
}

void ranks_same(const char *what, const char *text) {
    static char all[RANKS_MAX][TEXT_BYTES];
    char others[256] = "";
    int different = 0, first = 0;
    memset(all[own], 0, sizeof *all);
    strncpy(all[own], text, sizeof *all - 1);
    ranks_gather(all, sizeof *all);
    for (int r = count; r-- > 1;)
        if (strcmp(all[r], all[0]) != 0) first = r, different++;
    for (int r = first; r > 0 && r < count; r++)
        if (strcmp(all[r], all[0]) != 0) text_append(others, sizeof others, "%s%d", *others ? ", " : "", r);
    if (different > 0)
        runtime_error("rank%s %s: %s is %s, and that of rank 0 is %s", different == 1 ? "" : "s", others, what,
                      all[first], all[0]);
}

void ranks_deal(const void *array, size_t lines, void *parts) {
    static int counts[RANKS_MAX], places[RANKS_MAX], own_counts[RANKS_MAX], own_places[RANKS_MAX];
    const int size = (int)range_size(ranks_segment(lines, ranks_index()));
    for (int r = 0; r < count; r++) {
        const Range segment = ranks_segment(lines, (size_t)r);
        counts[r] = (int)range_size(segment);
        places[r] = (int)segment.begin;
        own_counts[r] = size;
        own_places[r] = r * size;
    }
    MPI_Alltoallv(array, counts, places, line, parts, own_counts, own_places, line, MPI_COMM_WORLD);
}

void ranks_collect(void *array, size_t lines) {
    static int counts[RANKS_MAX], places[RANKS_MAX];
    for (int r = 0; r < count; r++) {
        const Range segment = ranks_segment(lines, (size_t)r);
        counts[r] = (int)range_size(segment);
        places[r] = (int)segment.begin;
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, line, array, counts, places, line, MPI_COMM_WORLD);
}
#endif
