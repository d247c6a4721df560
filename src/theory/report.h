/* ./train theory: the figures of theory/theory.h beside those of theory/exact.h, for a list of d_k and four divisors,
   as a table, as CSV and as a picture. */
#pragma once

#include <stdio.h>

#include "base/command.h"
#include "show/progress.h"
#include "theory/theory.h"

enum { THEORY_LIST_MAX = 64 };

typedef struct {
    size_t d_k[THEORY_LIST_MAX], count;
    size_t keys, samples, threads;
    uint64_t seed;
    bool csv;              /* to `out` as well, in place of the table */
    const char *directory; /* made for theory.csv, theory.png and run.json, as --out is for a run; NULL: none */
    bool force;            /* replace it, as a run's (base/results.h) */
    const char *command_line;
} TheoryOptions;

/* The defaults: d_k 1, 4, 16, 64, 256, 1024, 64 keys, 4096 samples, seed 1. */
TheoryOptions theory_options(size_t threads);
/* "1,4,16", whole numbers from 1 to THEORY_DK_MAX, into d_k and count. */
bool theory_parse_list(const char *text, TheoryOptions *options, Error *err);

/* Measures, then prints to `out` and writes the directory; whether it may be made is checked first. A caught signal
   ends it early with *signal set and nothing printed or written. */
bool theory_run(const TheoryOptions *options, Progress *progress, FILE *out, int *signal, Error *err);

/* The verb (command.c). */
extern const Verb theory_verb;
