/* What is commonly said about dividing by the root of d_k, each put beside what this program measures in this run. The
   same in words, with what it means: docs/claims.md. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "show/progress.h"

/* Tries every claim and prints what is said, what was measured, a verdict that follows from those numbers, and why; as
   CSV (number,claim,source,measured,verdict,why) when `csv`. The same bits for the same seed, whatever the threads. A
   caught signal ends it early with *signal set and nothing printed. */
bool claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress, FILE *out, int *signal, Error *err);
