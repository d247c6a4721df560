/* How fast a config trains: the time of a step against what its products would take at the machine's own speed,
   measured in the same process. */
#pragma once

#include "base/command.h"

extern const Verb bench_verb;
