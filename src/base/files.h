/* Files: read whole, written so that a reader sees the old content or the new and never a half. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/directory.h"

/* Reads the whole file into memory that the caller frees, and adds a zero byte. A file that is missing, unreadable, not
   regular or larger than `limit` bytes is an error of `status` that names `what` and the path. */
bool file_read(const char *path, const char *what, size_t limit, Status status, char **data, size_t *size, Error *err);

/* Reads standard input to its end, at most `capacity` bytes of it, without its last line end. */
bool input_read(char *text, size_t capacity, size_t *size, Error *err);

/* Where a file is written: the directory, which outlives the writer, and the file's name in it, "metrics.csv" or
   "checkpoint/last.safetensors". No link is followed on the way. With no_directory, the name is a path. */

/* Opens a file that is read and written in place, and makes it where there is none. As with FileWriter, what is there
   must be a regular file. */
bool file_update(const Directory *directory, const char *name, FILE **file, Error *err);

/* Writes a file under a new name in the same directory, flushes it (fsync), renames it, and flushes the directory. On
   failure the old file is untouched, unless the directory alone could not be flushed. What has the name must be a
   regular file: a symbolic link, a directory, a pipe and a device are refused. Whatever has the new name is removed
   first; of two processes that write the same file, the one that came first fails. */
typedef struct {
    FILE *stream;
    const Directory *directory;
    int parent;      /* what holds the file: the directory itself, or the one in it that the name begins with */
    char path[4096]; /* for messages; its last part is the file's name in `parent` */
} FileWriter;
#define FILE_NEW ".new" /* suffix of a file that is being written */
bool file_writer_open(FileWriter *writer, const Directory *directory, const char *name, Error *err);
bool file_writer_commit(FileWriter *writer, Error *err); /* closes in either case; removes the new name on failure */
void file_writer_close(FileWriter *writer);              /* the file that was begun stays, under its new name */
/* Opens, writes and commits. */
bool file_write(const Directory *directory, const char *name, const void *data, size_t size, Error *err);

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
