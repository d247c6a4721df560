/* ./train bench */
#ifndef SQRTDK_BENCH_COMMAND_H
#define SQRTDK_BENCH_COMMAND_H

#include "base/command.h"

extern const Verb bench_verb;

#endif
