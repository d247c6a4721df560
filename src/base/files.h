/* Files: read whole, written so that a reader sees the old content or the new and never a half. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* Reads the whole file into memory that the caller frees, and adds a zero byte. A file that is missing, unreadable, not
   regular or larger than `limit` bytes is an error of `status` that names `what` and the path. */
bool file_read(const char *path, const char *what, size_t limit, Status status, char **data, size_t *size, Error *err);

/* Reads standard input to its end, at most `capacity` bytes of it, without its last line end. */
bool input_read(char *text, size_t capacity, size_t *size, Error *err);

/* Opens a file that is read and written in place, and makes it where there is none. As with FileWriter, what is there
   must be a regular file. */
bool file_update(const char *path, FILE **file, Error *err);

/* Writes a file under a new name in the same directory, flushes it (fsync), renames it, and flushes the directory. On
   failure what stood at `path` is untouched, unless the directory alone could not be flushed. What stands there must be
   a regular file: a symbolic link, a directory, a pipe and a device are refused. Whatever has the new name is removed
   first; of two processes that write the same path, the one that came first fails. */
typedef struct {
    FILE *stream;
    char path[4096], temporary[4096 + 16];
} FileWriter;
#define FILE_NEW ".new" /* suffix of a file that is being written */
bool file_writer_open(FileWriter *writer, const char *path, Error *err);
bool file_writer_commit(FileWriter *writer, Error *err); /* closes in either case; removes the new name on failure */
bool file_write(const char *path, const void *data, size_t size, Error *err); /* opens, writes and commits */

/* "directory/name" into `out`; an error when it is longer than `capacity`. */
bool path_join(char *out, size_t capacity, const char *directory, const char *name, Error *err);

/* Whether the path exists, also as a dangling link. ENOENT and ENOTDIR mean that it does not; any other failure is an
   error of status STATUS_FAILED. */
bool path_find(const char *path, bool *exists, Error *err);
/* Whether the path exists. An error counts as a path that exists, so that nothing is overwritten because of it. */
bool path_exists(const char *path);
/* The path of a file that may be installed with the program. This is `path` if a file is there or the path is absolute.
   Otherwise it is the file of that name in share/sqrtdk beside the program's own directory, or `path` again if that
   does not exist either. */
const char *path_installed(const char *path, char out[4096]);
/* Fails if the path is a symbolic link: files written into such a directory would be written elsewhere. */
bool directory_no_link(const char *path, Error *err);
/* Makes the directory and its parents. It is an error if the directory exists and `must_be_new` is set, or if it is a
   symbolic link. */
bool directory_make(const char *path, bool must_be_new, Error *err);
/* Flushes the directory that holds `path` to disk, so that names made, renamed and removed in it last. A file system
   that cannot do that (EINVAL, ENOTSUP) is no error; any other failure has status STATUS_FAILED. */
bool directory_sync(const char *path, Error *err);
