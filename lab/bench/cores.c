/* How far apart two processors are: how long a cache line takes from one to the other, and how fast one of them writes
   cache lines that the other has read. Training on several threads depends on both, since every thread reads weights
   and activations that others overwrite (lab/docs/bench.md).

       gcc -O2 -fopenmp lab/bench/cores.c -o /tmp/cores && OMP_PROC_BIND=true /tmp/cores */
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXCHANGES = 200000, ROUNDS = 40, LINE = 64, BYTES = 1 << 20 };
static _Alignas(LINE) atomic_int turn; /* 0: the first thread's, 1: the second's */
static _Alignas(LINE) volatile char memory[BYTES];

static void wait_for(int mine) {
    while (atomic_load(&turn) != mine) continue;
}

static void exchange(int mine) {
    for (int i = 0; i < EXCHANGES; i++) {
        wait_for(mine);
        atomic_store(&turn, 1 - mine);
    }
}

/* The seconds in which the first thread writes every line, all of which the second has read since: a mean over rounds,
   without the first one, in which the memory is new. */
static double write_after_read(int mine) {
    double seconds = 0;
    for (int round = 0; round <= ROUNDS; round++) {
        wait_for(mine);
        const double start = omp_get_wtime();
        for (int i = 0; i < BYTES; i += LINE) {
            if (mine == 0) memory[i] = (char)round;
            else (void)memory[i];
        }
        if (round > 0) seconds += omp_get_wtime() - start;
        atomic_store(&turn, 1 - mine);
    }
    return seconds / ROUNDS;
}

int main(void) {
#pragma omp parallel num_threads(2)
    {
        const int mine = omp_get_thread_num();
        if (omp_get_num_threads() < 2) exit(EXIT_FAILURE); /* the system gives no second thread */
        const double start = omp_get_wtime();
        exchange(mine);
        const double one_way = (omp_get_wtime() - start) / (2 * EXCHANGES);
        const double writing = write_after_read(mine);
        if (mine == 0)
            printf("a cache line goes over in %.0f ns; cache lines that the other has read are written at %.1f GB/s\n",
                   1e9 * one_way, BYTES / writing / 1e9);
    }
    return EXIT_SUCCESS;
}
