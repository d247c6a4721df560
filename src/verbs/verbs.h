/* The verbs that look at a trained model or at this machine: a file each, and train.c lists them. */
#pragma once

#include "base/command.h"

extern const Verb eval_verb, sample_verb, attend_verb, export_verb, bench_verb, theory_verb, gradcheck_verb;
