/* ./train CONFIG.ini, ./train eval, ./train sample, and what ./train resume does with a run. */
#ifndef SQRTDK_TRAIN_COMMAND_H
#define SQRTDK_TRAIN_COMMAND_H

#include "base/command.h"

extern const Verb train_verb, eval_verb, sample_verb;

/* Takes the run in command->target up where it stopped, with its own number of threads unless others were given. */
bool resume_run(const Command *command, int *signal, Error *err);

#endif
