/* The lab: what compares, explains, measures and shows trained models. train.c includes this header where the compiler
   finds it, and has its verbs then, and what it hooks in: the page of a run, resume of a sweep. */
#pragma once

#include "base/command.h"

extern const Verb sweep_verb, attend_verb, why_verb, report_verb, bench_verb, theory_verb, gradcheck_verb;

/* Writes DIRECTORY/report.html, for a run or a sweep, and the pictures of a sweep. */
void report_write(const Directory *directory);

/* The options of resume that are for a sweep. */
extern const Option sweep_resume_options[];
/* Resumes the directory of a command if it is that of a sweep, and sets *signal to the signal that ended this, or 0.
   Returns whether it is; if not, raises an error if one of sweep_resume_options was given. */
bool sweep_resume_if(const Command *command, int *signal);
