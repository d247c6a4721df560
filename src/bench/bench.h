/* How fast a config trains: the time of a step against what its products would take at the machine's own speed,
   measured in the same process. */
#pragma once

#include "base/command.h"
#include "config/config.h"

/* Trains in memory (real batches, real updates; nothing is written): a second of warming up, then steps for about
   `seconds`, at least eight. The peak is the better of OpenBLAS and of ops/gemm.c on 2048^3 in floats, each thread its
   rows, measured before and after; the larger counts. Prints a report, or one line of JSON, to `out`. A caught signal
   ends it early with what was measured; *signal is set. */
bool bench_run(const Config *config, size_t threads, double seconds, bool json, FILE *out, int *signal, Error *err);

/* The verb (command.c). */
extern const Verb bench_verb;
