/* Locks that keep two processes from writing into one directory. A process holds two locks, since one is not enough:

   - flock, which the system releases when the process ends. On some file systems of clusters flock fails, on others it
     works only between processes of one machine.
   - the file `owner` in the directory, made with O_EXCL: only one process can make it, on NFS too. The file has the
     host, the process, its start time, the batch system's job, and a random token (docs/formats.md). The owner touches
     the file every 15 seconds, from a handler of SIGALRM, however long a step takes.

   An owner on this machine is gone when its process no longer runs. An owner on another machine is gone when it has not
   touched its file for five minutes, by the file system's clock. Then exactly one process takes the directory over. An
   owner that was suspended for five minutes notices this before its next write (directory_locks_hold). */
#pragma once

#include "base/error.h"

/* Keeps other processes of this program out of the directory at `path` until directory_unlock. Fails with status
   STATUS_USAGE if another process holds the directory, or if `owner` is not a file of this program. */
bool directory_lock(const char *path, int *lock, Error *err);
/* Releases the directory, unless another process has taken it over. A lock of -1 means no lock. */
void directory_unlock(int lock);
/* A line for the user that says from whom the directory was taken over; "" if it was free. Valid until unlocked. */
const char *directory_lock_note(int lock);

/* Whether directory_lock would succeed now. Fails in the same way as directory_lock, and writes nothing. */
bool directory_free(const char *path, Error *err);

/* Passes a lock on to the next directory_lock of this process on the same directory. A passed lock that was not taken
   is released by directory_unlock. */
void directory_lock_pass(int lock);

/* Whether this process still holds every directory that it locked. If another process has taken one over, fails with
   status STATUS_FAILED and names the directory. Every function that writes results calls this first. */
bool directory_locks_hold(Error *err);

/* For a forked process: forgets all locks, which belong to the parent. */
void directory_locks_forget(void);

#define OWNER_FILE "owner" /* a process that takes over makes another file whose name begins with this */
typedef struct {
    char host[128], system[128], job[64], token[33];
    long process;
    unsigned long long start, file; /* the file's own number, by which a copy of it is known */
} Owner;
/* Reads the text of an owner's file; false for any other text. */
bool owner_parse(const char *text, Owner *owner);
