/* Directories of results. A directory is opened once, and every write goes through its descriptor. If it is moved while
   the program runs, or a link is put in its place, nothing is written where its path leads then.

   Two processes never write into one directory: a process holds flock on the file `owner` in it, which is never
   removed. The system releases the lock when the process ends. The text of the file names the process, for the message
   to others; a process that ends empties it. A text may name another host although nobody holds the lock: that machine
   has crashed, or its locks do not reach this one. Such a directory is refused, as is a file system without locks,
   unless the user says that no other process writes there (--unlocked). */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { PATH_CAPACITY = 4096, RESULTS_PATH = 2048, OWNER_TEXT = 512 };

typedef struct {
    int fd;
    char path[RESULTS_PATH]; /* as it was opened */
    int owner;               /* the file `owner`; -1: not open */
    bool locked;             /* by this process */
} Directory;
/* For a file that belongs to no directory of results: its name is a path, on which links are followed. */
extern const Directory no_directory;

/* Opens a directory that exists. It is unlocked and closed when it is released. */
Directory *directory_open(const char *path);
/* Returns whether the directory's path still leads to it; true where the system does not say. */
bool directory_in_place(const Directory *directory);

/* Makes the directories above `path`, and then that one. Returns false if something is there already. */
bool directory_make_new(const char *path);
/* Makes the directory NAME in a directory, unless it is there. Refuses a symbolic link. */
void directory_make_in(const Directory *directory, const char *name);
/* Refuses a symbolic link: files written into such a directory would be written elsewhere. */
void directory_check_no_link(const char *path);

/* Flushes the directory that `fd` is open on to disk, so that names made, renamed and removed in it last. Accepts a
   file system that cannot do that (EINVAL, ENOTSUP). */
void directory_sync(int fd, const char *path);
/* Removes everything in the directory that `fd` is open on, as far as the system lets it. */
void directory_empty(int fd);

/* --- locks */

/* Set by --unlocked: directories are written to where locks do not work, and where another host has left its name. */
extern bool directory_unlocked;

/* Opens the directory at `path`, which exists, and locks it until it is released. Refuses one that another process
   holds, and one whose `owner` is not a file of this program. */
Directory *directory_lock(const char *path);
/* Raises the error that directory_lock would raise now. Writes nothing. */
void directory_check_free(const char *path);
/* Returns whether another process holds the directory. */
bool directory_held(const char *path);

/* Checks that the directory's path still leads to it and, if it is locked, that `owner` is still the file that was
   locked. Call it before results get their names. */
void directory_check(const Directory *directory);

#define OWNER_FILE "owner"
typedef struct {
    char host[128];
    long process;
} Owner;
/* Reads the text of an owner's file: lines of a name and a word. Returns false without `host` and `process`. A line of
   any other name is ignored. */
bool owner_parse(const char *text, Owner *owner);
