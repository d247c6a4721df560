/* ./train sweep, and ./train resume, of a run or a sweep. */
#ifndef SQRTDK_SWEEP_COMMAND_H
#define SQRTDK_SWEEP_COMMAND_H

#include "base/command.h"

extern const Verb sweep_verb, resume_verb;

#endif
