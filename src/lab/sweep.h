/* An ablation: every combination of the [sweep] section, one run after the other, drawn together. */
#ifndef SQRTDK_LAB_SWEEP_H
#define SQRTDK_LAB_SWEEP_H

#include "train/trainer.h"

/* Runs the arms into subdirectories of one new directory (options->out, or log.out and the next free name), then draws
   loss.png and attention_compare.png there, writes summary.csv, and prints the table of results to `out`. Arms share
   whatever the swept keys leave alone: with one seed, initialisation and batches to the bit. An arm that diverges is
   shown as such and does not stop the others; any other failure ends the sweep. *signal is the signal that ended it
   early, or 0. Nothing is written before every arm is known to be good (train_check). */
bool sweep_run(const Config *config, const TrainOptions *options, FILE *out, int *signal, Error *err);

/* The same checks, then train_dry_run and the [sweep] section, to `out`; writes nothing else. */
bool sweep_dry_run(const Config *config, const TrainOptions *options, FILE *out, Error *err);

#endif
