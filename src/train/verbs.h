/* The verbs that read a trained model. train.c has those that train one. */
#pragma once

#include "base/command.h"

extern const Verb eval_verb, sample_verb;
