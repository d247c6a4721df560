/* An ablation: every combination of a config's [sweep] section, side by side on the cores, drawn together. Each arm is
   a run of its own, trained by a process of its own in a directory of its own: one that fails or is killed takes no
   other with it, and what it wrote is all that the tables and pictures are made from. */
#pragma once

#include "base/command.h"
#include "config/config.h"
#include "show/progress.h"

typedef struct {
    size_t threads;           /* of all arms together; each gets its share, at least one */
    const char *out;          /* --out; NULL: log.out, or the next free name behind it */
    bool force;               /* replace what is there */
    const char *command_line; /* for run.json */
    const char *program;      /* the path of the program that trains an arm (program_again) */
    Progress *progress;
} SweepOptions;

/* Trains what is not trained yet, then writes tables and pictures into the sweep's directory and the table of results
   to `out`. The directory is a new one, or that of the same sweep (the same resolved config) that has not ended: then
   finished and diverged arms are kept and the others go on. Arms share whatever the swept keys leave alone: with one
   seed, initialisation and batches to the bit.

   An arm that diverges is recorded as such and is no failure. One that fails is recorded with its message and does not
   stop the others; in the end it makes this an error of status STATUS_FAILED. A signal (interrupt_catch) is passed on
   to the arms, which save what they have: then *signal says which, and what there is has been written. Nothing is
   written before every arm is known to be good (train_check). With `force`, what was there is removed once an arm has
   finished or has a checkpoint, or when every arm has finished or diverged; else it returns to its place, and the new
   directory is removed (base/results.h). */
bool sweep_run(const Config *config, const SweepOptions *options, FILE *out, int *signal, Error *err);

/* Whether `directory` is that of a sweep; then sweep_resume continues it, whatever options->out says. *finished: it had
   ended, and only its tables and pictures were written again, from what its runs left on disk; arms that were removed
   since are trained. Refuses (STATUS_USAGE) one in which another process is, or whose config.ini or text is not what it
   began with. */
bool sweep_is(const char *directory);
bool sweep_resume(const char *directory, const SweepOptions *options, FILE *out, int *signal, bool *finished,
                  Error *err);

/* The same checks as sweep_run; then the config with [sweep] and, as comments, what it would take, to `out`. Writes
   nothing else. */
bool sweep_dry_run(const Config *config, const SweepOptions *options, FILE *out, Error *err);

/* The verbs (command.c); resume takes a run as well. */
extern const Verb sweep_verb, resume_verb;
