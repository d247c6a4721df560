/* Prints a run: before its first step corpus, model, memory, arithmetic and machine, at its end its results. */
#pragma once

#include "run/run.h"
#include "train/trainer.h"

/* Bytes that training takes: the arenas of model, engine and optimizer, and the buffers into which threads pack
   matrices. */
size_t training_memory(const Engine *engine, const Optimizer *optimizer);
/* Raises an error of status STATUS_FAILED if the machine has less memory than `bytes`. Call it before the arenas are
   written to: the system gives their pages only then. */
void training_memory_check(size_t bytes);

/* Tokens of one step of training. */
size_t tokens_per_step(const Config *config);

/* Prints corpus, n-gram tables, model, divisor and multiplier, training, memory, machine, and the note if it is not
   empty, in lines that begin with `mark`. The scores' measured deviation is printed unless `measured_std` is NaN. */
void print_summary(Progress *to, const char *mark, const Run *run, const Engine *engine, const Optimizer *optimizer,
                   double measured_std, const char *note);

/* Prints to standard output how a run ended, and where its results are. */
void print_outcome(const Trainer *trainer);
