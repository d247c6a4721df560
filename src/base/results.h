/* The directory of a run, a sweep or theory: where it may be made, what it may replace, and its run.json.

   --force replaces a directory only where every entry in it is one that this program writes. What stood there is set
   aside by one rename to PATH.old before the new directory is made, and removed once the new one holds something that
   lasts (results_keep); until then a failure brings it back (results_withdraw). A program that is stopped in between
   leaves both, and the next --force says so. */
#pragma once

#include "base/json.h"

#define SQRTDK_VERSION "0.5.0"

enum { RESULTS_PATH = 2048 };

/* All zero: none. */
typedef struct {
    char path[RESULTS_PATH];     /* of the directory; empty: none was made */
    char replaced[RESULTS_PATH]; /* path.old, while what stood at `path` waits there; else empty */
    int lock, replaced_lock;     /* held on the two (directory_lock); -1: none */
} ResultsDirectory;

/* Whether results_make would be refused for what is there now; writes nothing. */
bool results_check(const char *wanted, bool named, bool force, Error *err);

/* Makes an empty directory and keeps other processes of this program out of it. `wanted` that exists: with `named` (the
   user's --out) it is an error of status STATUS_USAGE, unless `force` and it holds our run.json, nothing that this
   program does not write, no symbolic link but the checkpoint's own, and no process that trains: then it is set aside.
   Without `named` the next free of wanted-2, wanted-3, ... is taken, whatever `force`. On failure all is as it was, and
   *directory is none. Release with results_release. */
bool results_make(ResultsDirectory *directory, const char *wanted, bool named, bool force, Error *err);

/* The new results last from here on: what they replace is removed. False, with a message to show, when the old results
   could not be removed, or someone added a file to them: they stay at PATH.old, and the new results are kept. */
bool results_keep(ResultsDirectory *directory, Error *err);

/* The new results failed, for the reason in *err. Where they have not been kept and replace something, they are removed
   and what they replace returns to its place; *err then also says where it is. Else nothing is done. */
void results_withdraw(ResultsDirectory *directory, Error *err);

/* Lets other processes in again. What was set aside and neither kept nor withdrawn stays set aside. */
void results_release(ResultsDirectory *directory);

/* The number-th name that is tried for `wanted`: itself (without slashes at its end), wanted-2, wanted-3, ... */
bool results_name(char *out, size_t capacity, const char *wanted, unsigned number, Error *err);

/* Whether `directory` holds a run.json of this program, and nothing but what this program writes (results_entries.c).
   Refused with STATUS_USAGE, the entry named: an unknown name, a known one of another type, a symbolic link that is not
   the checkpoint's own, the directory of a sweep's run in which a process trains, a directory from which nothing can be
   removed. An error of the system has STATUS_FAILED. */
bool results_hold_only_ours(const char *directory, Error *err);

/* Whether PATH.old, which is put into `old`, is there: then a --force was stopped before its results lasted. */
bool results_set_aside(const char *path, char old[RESULTS_PATH]);

/* Program, version, machine and time of start: what run.json opens with. The caller adds to it and frees it. */
Json *run_description(const char *command_line, size_t threads);
/* run.json of a directory, which must be one of this program; the caller frees it, also after a failure. */
bool run_description_load(Json **run, const char *directory, Error *err);
bool run_description_save(Json *description, const char *directory, Error *err);

/* UTC, ISO 8601. */
Json *time_now(void);
