/* Locks that keep two processes from writing into one directory. A process holds two, since one is not enough:

   - flock, which the system releases when the process ends. On some file systems of clusters flock fails, on others it
     works only between processes of one machine.
   - the file `owner` in the directory, made with O_EXCL: only one process can make it, on NFS too. It names the host,
     the process with its start time, and the scheduler's job (docs/formats.md).

   An owner on this host has ended if flock is granted or, where flock fails, if its process no longer runs. It is then
   replaced, and so is an owner of this very job on another host, since a scheduler starts a job anew only when it has
   ended. Any other owner is an error that names it, with the file to remove. Nothing is taken over by time. */
#pragma once

#include "base/directory.h"

/* Opens the directory at `path`, which is there, and keeps other processes of this program out of it until
   directory_close. Fails with status STATUS_USAGE if another process holds it, or if `owner` is not a file of this
   program. */
bool directory_lock(Directory *directory, const char *path, Error *err);
/* Closes a directory, and releases it if it is locked. */
void directory_close(Directory *directory);

/* Whether directory_lock would succeed now. Fails in the same way as directory_lock, and writes nothing. */
bool directory_free(const char *path, Error *err);

/* Whether the directory's path still leads to it and, if it is locked, `owner` is still this process's. If not, fails
   with status STATUS_FAILED. Whatever writes results calls this before they take their place. */
bool directory_holds(const Directory *directory, Error *err);

#define OWNER_FILE "owner"
typedef struct {
    char host[128], job[128]; /* job: "-" for none */
    long process;
    unsigned long long start; /* 0: unknown */
} Owner;
/* Reads the text of an owner's file: lines of a name and a word. Without `host` and `process` it is false. `start` and
   `job` may be missing, and a line of any other name is ignored. */
bool owner_parse(const char *text, Owner *owner);
