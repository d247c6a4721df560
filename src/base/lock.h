/* Who is at work in a directory. A process that writes there holds it by two means, since neither is enough alone:

   - flock, which the system gives back when the process ends. On some file systems of clusters it fails, on others it
     holds among the processes of one machine alone.
   - the file `owner` in the directory, made with O_EXCL, which one process alone can do on NFS as well. It names host,
     process, the process's time of start, the batch system's job, and a random token; docs/formats.md describes it.
     Its owner touches it every 15 seconds, from a handler of SIGALRM, however long a step takes.

   An owner is gone when it was on this machine and no such process runs any more, or when it was on another one and
   has not touched its file for five minutes, by the clock that stamps the files there. Then one process alone takes the
   directory over. An owner that was suspended for so long finds out before the next thing that it writes
   (directory_locks_hold). */
#pragma once

#include "base/error.h"

/* Keeps other processes of this program out of the directory at `path` until directory_unlock. An error of status
   STATUS_USAGE when one is in it, and where `owner` is some other file. */
bool directory_lock(const char *path, int *lock, Error *err);
/* Gives the directory back, unless another process has it by now. A lock of -1 is none. */
void directory_unlock(int lock);
/* From whom the directory was taken over, as a line for the user; "" where nobody had left it. Valid until unlocked. */
const char *directory_lock_note(int lock);

/* Whether directory_lock would succeed now: fails as it does, and writes nothing. */
bool directory_free(const char *path, Error *err);

/* Leaves a lock to the next directory_lock of this process on that directory. One that nobody has taken by
   directory_unlock is given back there. */
void directory_lock_pass(int lock);

/* Whether this process still has every directory that it locked: an error of status STATUS_FAILED that names one which
   another process has taken over. Whatever writes into a directory of results asks this first. */
bool directory_locks_hold(Error *err);

/* In a process that was forked: all locks are its parent's alone. */
void directory_locks_forget(void);

#define OWNER_FILE "owner" /* while one takes over, another file whose name begins so */
typedef struct {
    char host[128], system[128], job[64], token[33];
    long process;
    unsigned long long start, file; /* the file's own number, by which a copy of it is known */
} Owner;
/* Reads the text of an owner's file; false for any other text. */
bool owner_parse(const char *text, Owner *owner);
