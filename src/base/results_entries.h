/* The names of everything that this program writes into a directory of results: what --force, and resuming a sweep,
   may remove. A new file
   there is a new line in the list of results_entries.c. */
#pragma once

#include "base/error.h"

/* Whether `directory` holds a run.json of this program, and nothing but what this program writes. Refused with
   STATUS_USAGE, the entry named: an unknown name, a known one of another type, a symbolic link that is not the
   checkpoint's own, the directory of an arm in which a process trains, a directory from which nothing can be removed.
   An error of the system has STATUS_FAILED. */
bool results_hold_only_ours(const char *directory, Error *err);
