/* OpenMP where there is one thread: for builds without it, in which its pragmas are comments. */
#pragma once

#include <time.h>

static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_threads(void) { return 1; }
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_level(void) { return 0; }
static inline double omp_get_wtime(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
