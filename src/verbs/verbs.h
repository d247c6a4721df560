/* The verbs that read a trained model, or measure: a file for each. train.c lists them. */
#pragma once

#include "base/command.h"

extern const Verb eval_verb, sample_verb, attend_verb, export_verb, bench_verb, theory_verb, gradcheck_verb;
