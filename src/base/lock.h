/* Locks that keep two processes from writing into one directory. A process holds two, since one is not enough:

   - flock, which the system releases when the process ends. On some file systems of clusters flock fails, on others it
     works only between processes of one machine.
   - the file `owner` in the directory, made with O_EXCL: only one process can make it, on NFS too. It names the host,
     the process with its start time, and the scheduler's job (docs/formats.md).

   An owner on this host has ended if flock is granted or, where flock fails, if its process no longer runs. It is then
   replaced, and so is an owner of this very job on another host, since a scheduler starts a job anew only when it has
   ended. Any other owner is an error that names it, with the file to remove. Time alone never ends a lock. */
#pragma once

#include "base/directory.h"

/* Opens the directory at `path`, which exists, and locks it until it is released. If another process holds it, or if
   `owner` is not a file of this program, raises an error of status STATUS_USAGE. */
Directory *directory_lock(const char *path);
/* Raises the error that directory_lock would raise now. Writes nothing. */
void directory_check_free(const char *path);
/* Returns whether a process that is known to live holds the directory, so that one can wait for its end. Of an owner
   that may live, raises the error of directory_lock. */
bool directory_held(const char *path);

/* Checks that the directory's path still leads to it and, if it is locked, that `owner` still names this process. If
   not, raises an error of status STATUS_FAILED. Whoever writes results calls this before they get their name. */
void directory_check(const Directory *directory);

/* Removes the file `owner` if this process has locked the directory: for directory.c, before it is closed. */
void directory_unlock(const Directory *directory);

#define OWNER_FILE "owner"
typedef struct {
    char host[128], job[128]; /* job: "-" for none */
    long process;
    unsigned long long start; /* 0: unknown */
} Owner;
/* Reads the text of an owner's file: lines of a name and a word. Returns false without `host` and `process`. `start`
   and `job` may be missing, and a line of any other name is ignored. */
bool owner_parse(const char *text, Owner *owner);
