/* An ablation: every combination of the [sweep] section, one run after the other, drawn together. */
#ifndef SQRTDK_LAB_SWEEP_H
#define SQRTDK_LAB_SWEEP_H

#include "train/trainer.h"

/* Runs the arms into subdirectories of one new directory (options->out, or log.out and the next free name), then draws
   loss.png and attention_compare.png there, writes summary.csv, and prints the table of results to `out`. Arms share
   whatever the swept keys leave alone: with one seed, initialisation and batches to the bit. An arm that diverges is
   shown as such and does not stop the others; any other failure ends the sweep. *signal is the signal that ended it
   early, or 0. */
bool sweep_run(const Config *config, const TrainOptions *options, FILE *out, int *signal, Error *err);

#endif
