/* Files and directories. A file that is replaced is written under another name, flushed and renamed: whenever the
   program is killed or the disk is full, a reader finds the old content or the new. The program writes only into
   regular files, and not through symbolic links. So a link in a directory from an unknown source cannot make it
   overwrite a file elsewhere, and a pipe cannot make it wait. Errors name the path and the system's reason. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/machine.h"

bool file_read(const char *path, const char *what, size_t limit, Status status, char **data, size_t *size, Error *err) {
    /* O_NONBLOCK: opening a pipe that nobody writes to would wait forever, before its type is known. */
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
    struct stat info = {0};
    char *bytes = NULL;
    const char *wrong = !file || fstat(fd, &info) != 0 ? strerror(errno)
                        : S_ISDIR(info.st_mode)        ? "it is a directory; name a file"
                        : !S_ISREG(info.st_mode)       ? "it is not a regular file"
                                                       : NULL;
    bool ok = !wrong || error_set(err, status, "cannot read %s %s: %s", what, path, wrong);
    if (ok && (unsigned long long)info.st_size > limit)
        ok = error_set(err, status, "%s %s has %lld bytes; at most %zu are accepted", what, path,
                       (long long)info.st_size, limit);
    if (ok) {
        *size = (size_t)info.st_size;
        bytes = malloc(*size + 1);
        ok = bytes || runtime_error(err, "no memory for the %zu bytes of %s", *size, path);
    }
    if (ok && fread(bytes, 1, *size, file) != *size)
        ok = error_set(err, status, "cannot read %s %s: %s", what, path,
                       ferror(file) ? strerror(errno) : "it became shorter while it was read");
    if (file) fclose(file);
    if (!file && fd >= 0) close(fd);
    if (ok) bytes[*size] = 0, *data = bytes;
    else free(bytes);
    return ok;
}

bool input_read(char *text, size_t capacity, size_t *size, Error *err) {
    *size = fread(text, 1, capacity, stdin);
    if (ferror(stdin)) return runtime_error(err, "cannot read standard input: %s", strerror(errno));
    if (*size > 0 && text[*size - 1] == '\n') --*size;
    return true;
}

/* Writes the path of a file for messages and, where the directory is none, for opening it. */
static bool join(char path[4096], const Directory *d, const char *name, Error *err) {
    if (*d->path) return path_join(path, 4096, d->path, name, err);
    const int length = snprintf(path, 4096, "%s", name);
    return (length > 0 && length < 4096) || runtime_error(err, "the path is too long: %s", name);
}

/* The file's name in the directory that holds it. */
static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Opens the directory that holds the file. Fails with errno. */
static int open_parent(const Directory *d, const char *name) {
    char above[4096];
    snprintf(above, sizeof above, "%.*s", (int)(last_part(name) - name), name); /* "checkpoint/" */
    for (size_t n = strlen(above); n > 1 && above[n - 1] == '/'; n--) above[n - 1] = 0;
    if (!*above) return openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd == AT_FDCWD) return open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return openat(d->fd, above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Why the file cannot be written; NULL where the name is that of a regular file or of nothing. */
static const char *not_writable(int parent, const char *name) {
    struct stat info;
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISLNK(info.st_mode)) return "it is a symbolic link, which is not followed: name the file itself";
    if (S_ISDIR(info.st_mode)) return "it is a directory";
    return S_ISREG(info.st_mode) ? NULL : "it is not a regular file";
}

/* Opens the file with these flags and as a stream, never through a symbolic link and never waiting. NULL on failure,
   with the reason in errno. */
static FILE *open_stream(int parent, const char *name, int flags) {
    const int fd = openat(parent, name, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w+b"); /* which, unlike fopen, cuts nothing off */
    if (!stream && fd >= 0) close(fd);
    return stream;
}

bool file_update(const Directory *d, const char *name, FILE **file, Error *err) {
    char path[4096];
    *file = NULL;
    if (!join(path, d, name, err)) return false;
    const char *wrong = not_writable(d->fd, name);
    if (!wrong) *file = open_stream(d->fd, name, O_RDWR);
    return *file || runtime_error(err, "cannot write %s: %s", path, wrong ? wrong : strerror(errno));
}

/* The name that the file has while it is written. */
static const char *new_name(const FileWriter *writer, char out[4096 + sizeof FILE_NEW]) {
    snprintf(out, 4096 + sizeof FILE_NEW, "%s" FILE_NEW, last_part(writer->path));
    return out;
}

bool file_writer_open(FileWriter *w, const Directory *d, const char *name, Error *err) {
    char new[4096 + sizeof FILE_NEW];
    *w = (FileWriter){.directory = d};
    if (!join(w->path, d, name, err) || !directory_holds(d, err)) return false;
    w->parent = open_parent(d, name);
    if (w->parent < 0) return runtime_error(err, "cannot write %s: %s", w->path, strerror(errno));
    const char *wrong = not_writable(w->parent, last_part(w->path));
    if (!wrong) {
        new_name(w, new);
        unlinkat(w->parent, new, 0); /* left by a killed process, or a link or a pipe that somebody put there */
        w->stream = open_stream(w->parent, new, O_RDWR | O_EXCL);
        if (w->stream) return true;
    }
    runtime_error(err, "cannot write %s%s: %s", w->path, wrong ? "" : FILE_NEW, wrong ? wrong : strerror(errno));
    close(w->parent);
    return false;
}

/* Renames the file that was written. It is another one by now where a second process writes the same file. */
static bool put_in_place(const FileWriter *w, const char *new, const struct stat *written) {
    struct stat there;
    if (fstatat(w->parent, new, &there, AT_SYMLINK_NOFOLLOW) != 0) return false;
    errno = EBUSY;
    return there.st_dev == written->st_dev && there.st_ino == written->st_ino &&
           renameat(w->parent, new, w->parent, last_part(w->path)) == 0;
}

void file_writer_close(FileWriter *w) {
    if (!w->stream) return;
    fclose(w->stream);
    close(w->parent);
    w->stream = NULL;
}

bool file_writer_commit(FileWriter *w, Error *err) {
    char new[4096 + sizeof FILE_NEW];
    struct stat written;
    new_name(w, new);
    bool ok = !ferror(w->stream) && fflush(w->stream) == 0 && fsync(fileno(w->stream)) == 0 &&
              fstat(fileno(w->stream), &written) == 0;
    int reason = errno ? errno : EIO; /* the failed write's, unless a later call changed it */
    if (fclose(w->stream) != 0 && ok) ok = false, reason = errno;
    w->stream = NULL;
    const bool moved = ok && !directory_holds(w->directory, err); /* the name may be another process's by now */
    if (ok && !moved && !put_in_place(w, new, &written)) ok = false, reason = errno;
    if (!ok && reason != EBUSY) unlinkat(w->parent, new, 0);
    if (!ok) runtime_error(err, "cannot write %s: %s", w->path, strerror(reason));
    else if (!moved) ok = directory_sync(w->parent, w->path, err);
    close(w->parent);
    return ok && !moved;
}

bool file_write(const Directory *d, const char *name, const void *data, size_t size, Error *err) {
    FileWriter writer;
    if (!file_writer_open(&writer, d, name, err)) return false;
    if (size) fwrite(data, 1, size, writer.stream);
    return file_writer_commit(&writer, err);
}

bool path_join(char *out, size_t capacity, const char *directory, const char *name, Error *err) {
    int length = snprintf(out, capacity, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= capacity)
        return runtime_error(err, "the path is too long: %s/%s", directory, name);
    return true;
}

bool path_find(const char *path, bool *exists, Error *err) {
    struct stat info;
    *exists = lstat(path, &info) == 0;
    if (*exists || errno == ENOENT || errno == ENOTDIR) return true;
    return runtime_error(err, "cannot determine what %s is: %s", path, strerror(errno));
}

bool path_exists(const char *path) {
    bool exists;
    Error ignored;
    return !path_find(path, &exists, &ignored) || exists;
}

const char *path_installed(const char *path, char out[4096]) {
    if (*path == '/' || path_exists(path)) return path;
    char *program = program_path(); /* PREFIX/bin/sqrtdk */
    for (int i = 0; program && i < 2; i++) {
        char *slash = strrchr(program, '/');
        if (slash) *slash = 0;
    }
    const int length = program ? snprintf(out, 4096, "%s/share/sqrtdk/%s", program, path) : -1;
    free(program);
    return length > 0 && length < 4096 && path_exists(out) ? out : path;
}
