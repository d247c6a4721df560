/* Directories of results. A directory is opened once, and every write goes through its descriptor: if it is moved while
   the program runs, or a link is put in its place, nothing is written to what its path leads to by then. */
#pragma once

#include "base/error.h"

enum { RESULTS_PATH = 2048, OWNER_TEXT = 512 };

/* All zero: none is open. */
typedef struct {
    int fd;
    char path[RESULTS_PATH]; /* as it was opened */
    char owner[OWNER_TEXT];  /* what this process wrote into the file `owner` (base/lock.h); empty: it is not locked */
} Directory;
/* For a file that belongs to no directory of results: its name is a path, on which links are followed. */
extern const Directory no_directory;

/* Opens a directory that is there. Close it with directory_close (base/lock.h). */
bool directory_open(Directory *directory, const char *path, Error *err);
/* Fails with status STATUS_FAILED if the directory's path leads elsewhere by now, or nowhere. */
bool directory_in_place(const Directory *directory, Error *err);

/* Makes the directory and its parents. It is an error if the directory exists and `must_be_new` is set, or if it is a
   symbolic link. */
bool directory_make(const char *path, bool must_be_new, Error *err);
/* Makes the directory NAME in a directory, unless it is there. */
bool directory_make_in(const Directory *directory, const char *name, Error *err);
/* Fails if the path is a symbolic link: files written into such a directory would be written elsewhere. */
bool directory_no_link(const char *path, Error *err);

/* Flushes the directory that `fd` is open on to disk, so that names made, renamed and removed in it last. A file system
   that cannot do that (EINVAL, ENOTSUP) is no error; any other failure has status STATUS_FAILED. */
bool directory_sync(int fd, const char *path, Error *err);
/* directory_sync of the directory that holds `path`. */
bool directory_sync_above(const char *path, Error *err);
/* Removes everything in the directory that `fd` is open on, as far as the system lets it. */
void directory_empty(int fd);
