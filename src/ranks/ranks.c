/* One process alone, or with RANKS_MPI (make MPI=1) all ranks of MPI_COMM_WORLD. One thread calls all functions,
   outside of parallel regions. */
#include "ranks/ranks.h"

#include <string.h>

#ifndef RANKS_MPI
#include <stdlib.h>

bool ranks_start(Error *err) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && strtol(size, NULL, 10) > 1)
            return usage_error(err,
                               "%s is %s, and each of these processes would train a run of its own: start train-mpi "
                               "(make MPI=1), or unset the variable",
                               sizes[i], size);
    }
    return true;
}
void ranks_end(void) {}
bool ranks_refuse(Error *err) {
    (void)err;
    return false;
}
size_t ranks_count(void) { return 1; }
size_t ranks_index(void) { return 0; }
size_t ranks_here(void) { return 1; }

bool ranks_agree(bool ok, int *signal, Error *err) {
    (void)signal, (void)err;
    return ok;
}
bool ranks_same(const char *what, const char *text, Error *err) {
    (void)what, (void)text, (void)err;
    return true;
}

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

bool ranks_start(Error *err) {
    int threads;
    MPI_Comm machine;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS)
        return runtime_error(err, "MPI does not start");
    started = true;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &here);
    MPI_Comm_free(&machine);
    MPI_Type_contiguous(LINE_BYTES, MPI_BYTE, &line);
    MPI_Type_commit(&line);
    return count <= RANKS_MAX || usage_error(err, "there are %d ranks, and at most %d may be", count, RANKS_MAX);
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

bool ranks_agree(bool ok, int *signal, Error *err) {
    static struct { int ok, signal; } all[RANKS_MAX];
    int failed = count;
    all[own].ok = ok;
    all[own].signal = signal ? *signal : 0;
    ranks_gather(all, sizeof *all);
    for (int r = count; r-- > 0;) {
        if (!all[r].ok) failed = r;
        if (signal && all[r].signal) *signal = all[r].signal;
    }
    if (failed == count) return true;
    MPI_Bcast(err, sizeof *err, MPI_BYTE, failed, MPI_COMM_WORLD);
    return failed == 0 ? false : error_set(err, err->status, "rank %d: %s", failed, err->message);
}

bool ranks_refuse(Error *err) {
    Error ignored;
    return ranks_start(&ignored) && ranks_agree(false, NULL, err);
}

bool ranks_same(const char *what, const char *text, Error *err) {
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
    return different == 0 || runtime_error(err, "rank%s %s: %s is %s, and that of rank 0 is %s",
                                           different == 1 ? "" : "s", others, what, all[first], all[0]);
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
