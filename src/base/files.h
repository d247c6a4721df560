/* Files: read as a whole, and written so that a reader sees all of the old content or all of the new. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/directory.h"

/* Returns the whole file with a zero byte behind it, which *size does not count. Refuses a file that is not regular, or
   larger than `limit` bytes. Errors name `what` and the path. */
char *file_read(const char *path, const char *what, size_t limit, size_t *size);

/* Returns the size of a text that the command line gives. "-" is replaced by `input`, into which standard input is
   read: at most `capacity` bytes of it, without a byte order mark and the last line end. A line end \r\n becomes \n
   unless `with_returns`. */
size_t input_read(const char **given, char *input, size_t capacity, bool with_returns);

/* A file to be written is named by a directory, which outlives the writer, and its name there, "metrics.csv" or
   "checkpoint/last.safetensors". No link is followed on the way. With no_directory, the name is a path. */

/* Opens a file that is read and written in place, and makes it if it is missing. Any file of that name must be regular.
   One that has another name elsewhere, as in a copy made of hard links, is replaced by a copy of its own. The caller
   closes it. */
FILE *file_update(const Directory *directory, const char *name);

/* Writes a file under a new name in the same directory, flushes it (fsync), renames it, and flushes the directory. An
   error removes the new file and leaves the old one untouched, unless the directory alone could not be flushed. A
   symbolic link, a directory, a pipe or a device in the file's place is refused; in the new file's place it is removed
   first. Of two processes that write the same file, the one that came first gets an error. */
#define FILE_NEW ".new" /* suffix of a file that is being written */
typedef struct {
    FILE *stream;
    const Directory *directory;
    int parent;               /* of the file: the directory itself, or the one in it that the name begins with */
    char path[PATH_CAPACITY]; /* for messages */
    const char *name;         /* of the file in `parent`: the last part of path */
    char new[PATH_CAPACITY + sizeof FILE_NEW]; /* its name while it is written */
} FileWriter;
FileWriter *file_writer_open(const Directory *directory, const char *name);
void file_writer_commit(FileWriter *writer); /* frees the writer */
/* Opens, writes and commits. */
void file_write(const Directory *directory, const char *name, const void *data, size_t size);

/* Writes "directory/name" into `out`, or the name alone if the directory is "". */
void path_join(char out[PATH_CAPACITY], const char *directory, const char *name);

/* Refuses the path ~, or one that begins with ~/, which a shell leaves as it is behind a =. */
void path_check_tilde(const char *path);

/* Returns whether the path exists; a dangling link does. Raises an error where the system does not say. */
bool path_exists(const char *path);
/* Returns the path of a file that may be installed with the program: `path` if it exists or is absolute, else the file
   of that name in ../share/sqrtdk of the program's directory if there is one, else `path`. */
const char *path_installed(const char *path, char out[PATH_CAPACITY]);

/* Opens /dev/null for each standard stream that is closed. Otherwise the next file would get its number, and messages
   would end up in metrics.csv. It is opened for reading, so that writing to it still fails. */
void files_hold_standard_streams(void);
