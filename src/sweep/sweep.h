/* An ablation: every combination of a config's [sweep] section, side by side on the cores, drawn together. Each run is
   trained by a process of its own in a directory of its own: one that fails or is killed takes no other with it, and
   what it wrote is all that the tables and pictures are made from. */
#pragma once

#include "base/command.h"
#include "config/config.h"
#include "show/progress.h"

typedef struct {
    size_t threads;           /* of all runs together; each gets its share, at least one */
    const char *out;          /* --out; NULL: log.out, or the next free name behind it */
    bool force;               /* replace what is there */
    const char *command_line; /* for run.json */
    const char *program;      /* the path of the program that trains a run (program_again) */
    Progress *progress;
} SweepOptions;

/* Trains every run in a new directory, then writes tables and pictures into it and the table of results to `out`. Runs
   share whatever the swept keys leave alone: with one seed, initialisation and batches to the bit.

   A run that diverges is recorded as such and is no failure. One that fails is recorded with its message and does not
   stop the others; in the end it makes this an error of status STATUS_FAILED. A signal (interrupt_catch) is passed on
   to the runs, which save what they have: then *signal says which, and what there is has been written. Nothing is
   written before every run is known to be good (train_check). With `force`, what was there is removed once all that
   was started has ended, if a run has a checkpoint or all have finished or diverged; else it returns to its place, and
   the new directory is removed (base/results.h). */
bool sweep_run(const Config *config, const SweepOptions *options, FILE *out, int *signal, Error *err);

/* Whether `directory` is that of a sweep; then sweep_resume continues it, whatever options->out says: runs that have
   finished or diverged are kept, the others are resumed or started. Of a sweep that has finished the tables and
   pictures are written again, from what its runs left on disk. Refuses (STATUS_USAGE) one in which another process is,
   or whose runs were trained with another config or text than it says now. */
bool sweep_is(const char *directory);
bool sweep_resume(const char *directory, const SweepOptions *options, FILE *out, int *signal, Error *err);

/* The same checks as sweep_run; then the config with [sweep] and, as comments, what it would take, to `out`. Writes
   nothing else. */
bool sweep_dry_run(const Config *config, const SweepOptions *options, FILE *out, Error *err);

/* The verbs (command.c); resume takes a run as well. */
extern const Verb sweep_verb, resume_verb;
