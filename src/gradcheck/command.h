/* ./train gradcheck */
#ifndef SQRTDK_GRADCHECK_COMMAND_H
#define SQRTDK_GRADCHECK_COMMAND_H

#include "base/command.h"

extern const Verb gradcheck_verb;

#endif
