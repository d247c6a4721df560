/* The verb sample: text that a trained model writes. */
#pragma once

#include "base/command.h"

extern const Verb sample_verb;
