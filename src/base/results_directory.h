/* A run's directory: where it may be made, and the files that say what the run was. */
#ifndef SQRTDK_BASE_RESULTS_DIRECTORY_H
#define SQRTDK_BASE_RESULTS_DIRECTORY_H

#include <stddef.h>

#include "base/json.h"

/* Makes the directory and puts its path into out. `wanted` that exists: with `named` (the user's --out) it is an error
   of status STATUS_USAGE unless `force` and it holds our run.json and no process trains in it, when it is replaced;
   without `named` the next free of wanted-2, wanted-3, ... is taken. */
bool run_directory_make(char *out, size_t capacity, const char *wanted, bool named, bool force, Error *err);

/* The number-th name that is tried for `wanted`: itself, wanted-2, wanted-3, ... */
bool run_directory_name(char *out, size_t capacity, const char *wanted, unsigned number, Error *err);

/* Whether run_directory_make could be refused for what is there now; writes nothing. */
bool run_directory_check(const char *wanted, bool named, bool force, Error *err);

/* Program, version, machine and time of start: what run.json opens with. The caller adds to it and frees it. */
Json *run_description(const char *command_line, size_t threads);
/* run.json of a directory, which must be one of this program; the caller frees it, also after a failure. */
bool run_description_load(Json **run, const char *directory, Error *err);
bool run_description_save(const Json *description, const char *directory, Error *err);

/* UTC, ISO 8601. */
Json *time_now(void);

#endif
