/* An ablation: every combination of a config's [sweep] section, side by side on the cores. Each run is trained in a
   directory by a process: this program, started once more. A run that fails or is killed ends no other run, and the
   tables are made from what the runs wrote. */
#pragma once

#include "train/trainer.h"

/* Trains every combination of `axes` in a new directory, then writes summary.csv into it and the table of settings to
   `out`. Runs with the same seed share their initialization and batches to the bit.

   A run that diverges is recorded as such and is no failure. A run that fails is recorded with its message and does not
   stop the others; then this function ends with an error of status STATUS_FAILED. A signal (interrupt_catch) to this
   process or to that of a run makes all runs save a checkpoint and end; then the tables are written from the runs so
   far. Returns that signal, or 0. If this process is killed, the runs that it started train on to their end. Nothing is
   written before every run has passed trainer_check. */
int sweep_run(const Config *config, const SweepAxes *axes, const TrainOptions *options, FILE *out);

/* sweep_is returns whether `directory` is that of a sweep. If it is, sweep_resume continues it, ignoring options->out:
   runs that have finished or diverged stay as they are, the others are resumed or started. A run that a process of a
   killed sweep still trains is waited for. If there is nothing to train, only the tables are written again, from the
   files of the runs. Refused (STATUS_USAGE): a directory in which another process is training, a run that was trained
   with another config than config.ini gives it now, another text. */
bool sweep_is(const char *directory);
int sweep_resume(const char *directory, const TrainOptions *options, FILE *out);

/* A sweep that several processes train, on one machine or on many that share a file system. sweep_prepare makes the
   directory, with a config for each run in configs/, and writes the number of runs to `out`. sweep_share trains the
   runs of a share ("2/8", or "auto"; share_read), and writes only into their directories. A run that it cannot take,
   since another process trains it or its directory is damaged, has failed. sweep_tables writes summary.csv, the page
   and run.json from the runs so far, also while shares train; it writes the table and the missing runs to `out`. Both
   end with an error of status STATUS_FAILED if a run failed, sweep_share only for its own runs. */
void sweep_prepare(const Config *config, const SweepAxes *axes, const TrainOptions *options, FILE *out);
int sweep_share(const char *directory, const char *share, const TrainOptions *options, FILE *out);
void sweep_tables(const char *directory, const TrainOptions *options, FILE *out);

/* The verb. */
extern const Verb sweep_verb;
