/* Directories of results. A directory is opened once, and every write goes through its descriptor. If it is moved while
   the program runs, or a link is put in its place, nothing is written where its path leads then.

   Locks keep two processes from writing into one directory. A process holds two, since one is not enough:

   - flock, which the system releases when the process ends. On some file systems of clusters flock fails, on others it
     works only between processes of one machine.
   - the file `owner` in the directory, made with O_EXCL: only one process can make it, on NFS too. It names the host,
     the process with its start time, and the scheduler's job (docs/formats.md).

   An owner on this host has ended if flock is granted or, where flock fails, if its process no longer runs. It is then
   replaced, and so is an owner of this very job on another host, since a scheduler starts a job anew only when it has
   ended. Any other owner is an error that names it, with the file to remove. Time alone never ends a lock. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { PATH_CAPACITY = 4096, RESULTS_PATH = 2048, OWNER_TEXT = 512 };

typedef struct {
    int fd;
    char path[RESULTS_PATH]; /* as it was opened */
    char owner[OWNER_TEXT];  /* text of the file `owner` that this process wrote; empty: not locked */
} Directory;
/* For a file that belongs to no directory of results: its name is a path, on which links are followed. */
extern const Directory no_directory;

/* Opens a directory that exists. It is unlocked and closed when it is released. No directory at that path is an error
   of status STATUS_USAGE. */
Directory *directory_open(const char *path);
/* Returns whether the directory's path still leads to it; true where the system does not say. */
bool directory_in_place(const Directory *directory);

/* Makes the directories above `path`, and then that one. Returns false if something is there already. */
bool directory_make_new(const char *path);
/* Makes the directory NAME in a directory, unless it is there. A symbolic link is an error of status STATUS_USAGE. */
void directory_make_in(const Directory *directory, const char *name);
/* Raises an error of status STATUS_USAGE if the path is a symbolic link: files written into such a directory would be
   written elsewhere. */
void directory_check_no_link(const char *path);

/* Flushes the directory that `fd` is open on to disk, so that names made, renamed and removed in it last. A file system
   that cannot do that (EINVAL, ENOTSUP) is no error; any other failure has status STATUS_FAILED. */
void directory_sync(int fd, const char *path);
/* Removes everything in the directory that `fd` is open on, as far as the system lets it. */
void directory_empty(int fd);

/* --- locks */

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

#define OWNER_FILE "owner"
typedef struct {
    char host[128], job[128]; /* job: "-" for none */
    long process;
    unsigned long long start; /* 0: unknown */
} Owner;
/* Reads the text of an owner's file: lines of a name and a word. Returns false without `host` and `process`. `start`
   and `job` may be missing, and a line of any other name is ignored. */
bool owner_parse(const char *text, Owner *owner);
