/* The directory of a run or a sweep: where it may be made, and its run.json.

   Existing results are never removed. --force moves the directory of a run or a sweep to the first free name of
   PATH.old, PATH.old-2, PATH.old-3, ... It stays there, also if the new results never begin. What can be refused is
   refused before.

   A directory is *unused* if it is empty, or if results were begun in it and never had a run.json: it has run.json.new
   and no run.json. A program that is killed at that time leaves such a directory. New results are made in it, over
   those that were begun. */
#pragma once

#include "base/files.h"
#include "base/json.h"

#define SQRTDK_VERSION "0.6.0"

/* A directory in which results begin. */
typedef struct {
    Directory *directory; /* locked */
    char path[RESULTS_PATH];
    char old[RESULTS_PATH]; /* where --force has moved the old results; else empty */
    bool made;              /* by this process, so that it is removed if the results do not begin */
    bool begun;             /* results_begin has written run.json */
} ResultsDirectory;

/* Makes and locks a directory, or locks one that is unused. `out` is the user's --out. If it names anything else,
   `force` is needed, and it must be a directory, not a symbolic link, that holds our run.json. No process may train in
   it nor, if it is a sweep, in one of its runs. If `out` is NULL, makes the first free one of log_out, log_out-2,
   log_out-3, ... Writes an empty run.json.new there, which marks the directory as a beginning. An error before
   results_begin removes a directory that was made here with all that is in it, and says where the old one is. */
ResultsDirectory *results_make(const char *out, const char *log_out, bool force);
/* Writes run.json: the results have begun, and all their first files are there. */
void results_begin(ResultsDirectory *results, const Json *description);

/* Raises the error that results_make would raise now. Writes nothing. */
void results_check(const char *out, const char *log_out, bool force);

/* Returns whether the directory is there and unused. */
bool results_unused(const char *path);

/* Writes the number-th name that is tried for `wanted`: itself (without slashes at its end), wanted-2, wanted-3, ... */
void results_name(char out[RESULTS_PATH], const char *wanted, unsigned number);

/* Returns the first entries of run.json: program, version, machine and time of start. The caller adds to them. */
Json *run_description(const char *command_line, size_t threads);
/* Reads run.json of a directory, which must be one of this program. */
Json *run_description_load(const char *directory);
void run_description_save(const Json *description, const Directory *directory);

/* Returns the time in UTC, as ISO 8601 writes it. */
Json *time_now(void);
