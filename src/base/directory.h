/* Directories of results. A directory is opened once, and every write goes through its descriptor. If it is moved while
   the program runs, or a link is put in its place, nothing is written where its path leads then. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { PATH_CAPACITY = 4096, RESULTS_PATH = 2048, OWNER_TEXT = 512 };

typedef struct {
    int fd;
    char path[RESULTS_PATH]; /* as it was opened */
    char owner[OWNER_TEXT];  /* text of the file `owner` that this process wrote (base/lock.h); empty: not locked */
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
