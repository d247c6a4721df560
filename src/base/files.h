/* Files: read whole, written so that a reader sees the old content or the new and never a half. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/directory.h"

/* Returns the whole file with a zero byte behind it; *size is without that byte. A file that is missing, unreadable,
   not regular or larger than `limit` bytes is an error of status STATUS_USAGE that names `what` and the path. */
char *file_read(const char *path, const char *what, size_t limit, size_t *size);

/* Reads standard input to its end, at most `capacity` bytes of it, without a byte order mark and the last line end. A
   line end \r\n becomes \n unless `with_returns`. Returns the number of bytes in `text`. */
size_t input_read(char *text, size_t capacity, bool with_returns);

/* Where a file is written: the directory, which outlives the writer, and the file's name in it, "metrics.csv" or
   "checkpoint/last.safetensors". No link is followed on the way. With no_directory, the name is a path. */

/* Opens a file that is read and written in place, and makes it where there is none. As with FileWriter, what is there
   must be a regular file. The caller closes it. */
FILE *file_update(const Directory *directory, const char *name);

/* Writes a file under a new name in the same directory, flushes it (fsync), renames it, and flushes the directory. On
   an error the new file is removed, and the old one is untouched, unless the directory alone could not be flushed. What
   has the name must be a regular file: a symbolic link, a directory, a pipe and a device are refused. Whatever has the
   new name is removed first; of two processes that write the same file, the one that came first gets an error. */
#define FILE_NEW ".new" /* suffix of a file that is being written */
typedef struct {
    FILE *stream;
    const Directory *directory;
    int parent; /* what holds the file: the directory itself, or the one in it that the name begins with */
    char path[PATH_CAPACITY];                  /* for messages */
    const char *name;                          /* of the file in `parent`: the last part of path */
    char new[PATH_CAPACITY + sizeof FILE_NEW]; /* its name while it is written */
} FileWriter;
FileWriter *file_writer_open(const Directory *directory, const char *name);
void file_writer_commit(FileWriter *writer); /* frees the writer */
/* Opens, writes and commits. */
void file_write(const Directory *directory, const char *name, const void *data, size_t size);

/* Writes "directory/name" into `out`, or the name alone if the directory is "". A path that is longer is an error of
 * status STATUS_FAILED. */
void path_join(char out[PATH_CAPACITY], const char *directory, const char *name);

/* Returns whether the path exists, also as a dangling link. ENOENT and ENOTDIR mean that it does not. Any other failure
   is an error of status STATUS_FAILED for path_find; for path_exists it counts as a path that exists, so that nothing
   is overwritten because of it. */
bool path_find(const char *path);
bool path_exists(const char *path);
/* The path of a file that may be installed with the program. This is `path` if a file is there or the path is absolute.
   Otherwise it is the file of that name in share/sqrtdk beside the program's own directory, or `path` again if that
   does not exist either. */
const char *path_installed(const char *path, char out[PATH_CAPACITY]);

/* Opens /dev/null for each standard stream that is closed: otherwise the next file opened would take its number, and
   messages would end up in metrics.csv. It is opened for reading, so that writing to it still fails. */
void files_hold_standard_streams(void);
