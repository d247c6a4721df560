/* The directory of a run, a sweep or theory: where it may be made, and its run.json.

   Existing results are never removed. --force moves the directory of a run, a sweep or theory to the first free name of
   PATH.old, PATH.old-2, PATH.old-3, ... It stays there whether or not the new results are completed; it is moved back
   only if they could not begin. A program that is killed between the move and making the new directory leaves only
   PATH.old.

   A directory is *unused* if it is empty, or if results were begun in it and never had a run.json: it has run.json.new
   and no run.json. A program that is killed at that time leaves such a directory. New results are made in it, and what
   is there of the old ones is written over. */
#pragma once

#include "base/files.h"
#include "base/json.h"

#define SQRTDK_VERSION "0.6.0"

/* A directory that this process has made or entered. All zero: none. */
typedef struct {
    Directory directory;    /* locked; its path is empty if none was made */
    char old[RESULTS_PATH]; /* where --force has moved what was there; else empty */
    bool was_there;         /* and unused */
    FileWriter beginning;   /* run.json, open from results_make to results_begin */
} ResultsDirectory;

/* Makes a directory, or takes one that is unused, and keeps other processes of this program out of it. Any other `out`,
   the user's --out, may exist only with `force`, and only as a directory (not a symbolic link) that holds our run.json
   and in which no process trains, nor, if it is a sweep, in one of its runs. Anything else is an error of status
   STATUS_USAGE. Where `out` is NULL, the first free of log_out, log_out-2, log_out-3, ... is made. run.json.new is
   opened there, which marks the directory as a beginning. On failure all is as it was, if the system lets it, and
   *directory is none. Release with results_release. */
bool results_make(ResultsDirectory *directory, const char *out, const char *log_out, bool force, Error *err);
/* Writes run.json: the results have begun, and all their first files are there. */
bool results_begin(ResultsDirectory *directory, const Json *description, Error *err);

/* Whether results_make would be refused for what is there now; writes nothing. */
bool results_check(const char *out, bool force, Error *err);

/* Whether the directory is there and unused. */
bool results_unused(const char *path);

/* The new results could not begin: empties and removes the directory, if it was made for them, moves back what was
   there before, and releases it. Where that is impossible, it is added to *err, which says what went wrong before. */
void results_abandon(ResultsDirectory *directory, Error *err);

/* Gives the directory back to other processes. */
void results_release(ResultsDirectory *directory);

/* The number-th name that is tried for `wanted`: itself (without slashes at its end), wanted-2, wanted-3, ... */
bool results_name(char *out, size_t capacity, const char *wanted, unsigned number, Error *err);

/* Program, version, machine and time of start: what run.json opens with. The caller adds to it and frees it. */
Json *run_description(const char *command_line, size_t threads);
/* Reads run.json of a directory, which must be one of this program. The caller frees *run, which is NULL on failure. */
bool run_description_load(Json **run, const char *directory, Error *err);
bool run_description_save(Json *description, const Directory *directory, Error *err);

/* The time in UTC, as ISO 8601 writes it. */
Json *time_now(void);
