/* The announcement of a run before it starts: corpus, model, memory, arithmetic, machine. */
#pragma once

#include "run/run.h"
#include "train/engine.h"
#include "train/optimizer.h"

/* Bytes that training takes: the arenas of model, engine and optimizer, and the buffers that threads pack matrices
 * into. */
size_t training_memory(const Engine *engine, const Optimizer *optimizer);
/* An error of status STATUS_FAILED where the machine has less memory. Pages of an arena are taken when they are first
   written to, so this is called before that. */
bool training_memory_fits(size_t bytes, Error *err);

/* Tokens of one step of training. */
size_t tokens_per_step(const Config *config);

/* The announcement: corpus, n-gram tables, model, divisor and multiplier, training, memory, machine, and the note if it
   is not empty; lines that begin with `mark`. `measured_std` NaN leaves out the measured deviation of the scores. */
void announce(Progress *to, const char *mark, const Run *run, const Engine *engine, const Optimizer *optimizer,
              double measured_std, const char *note);
