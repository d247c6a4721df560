/* OpenMP where there is one thread: for builds without it, in which its pragmas are comments. */
#pragma once

static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_threads(void) { return 1; }
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_level(void) { return 0; }
static inline double omp_get_wtime(void) { return 0; }
