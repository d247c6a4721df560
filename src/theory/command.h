/* ./train theory */
#ifndef SQRTDK_THEORY_COMMAND_H
#define SQRTDK_THEORY_COMMAND_H

#include "base/command.h"

extern const Verb theory_verb;

#endif
