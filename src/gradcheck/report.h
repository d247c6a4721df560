/* The check of gradients as a verb: of the model a config describes, or of every combination of its [sweep]. */
#pragma once

#include "base/command.h"
#include "config/config.h"
#include "show/progress.h"

/* The sequences of a micro-batch: train.batch, but no more than this, for every entry that is looked at costs half a
   dozen passes over them. */
enum { GRADCHECK_SEQUENCES = 2 };

/* Makes the model with the config's seed and init (and gains and biases moved, see gradcheck_parameters), takes
   train.accumulate micro-batches as in the first step of training, with dropout's masks of that step, and prints a
   table by tensor to `out`; nothing is written elsewhere. With a [sweep] section every combination is checked,
   `threads` at a time, and gets a line. A gradient that does not agree is an error of STATUS_FAILED that names the
   worst one. *signal is what cut the check short, or 0. */
bool gradcheck_config(const Config *config, size_t threads, Progress *progress, FILE *out, int *signal, Error *err);

/* The verb (command.c). */
extern const Verb gradcheck_verb;
