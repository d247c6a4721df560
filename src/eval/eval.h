/* The verb eval: the loss of a trained model over the whole validation split. */
#pragma once

#include "base/command.h"
#include "run/run.h"
#include "train/evaluate.h"

/* Evaluates the model over the whole validation split of the run's text, which is loaded. */
Evaluation run_evaluate(Run *run, Model *model);

extern const Verb eval_verb;
