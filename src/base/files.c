/* Files and directories. A file that is replaced is written under another name, flushed and renamed: whenever the
   program is killed or the disk is full, a reader finds the old content or the new. The program writes only into
   regular files, and not through symbolic links. So a link in a directory from an unknown source cannot make it
   overwrite a file elsewhere, and a pipe cannot make it wait. Errors name the path and the system's reason. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
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

/* Why the path cannot be written; NULL where it names a regular file or nothing. */
static const char *not_writable(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0) return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISLNK(info.st_mode)) return "it is a symbolic link, which is not followed: name the file itself";
    if (S_ISDIR(info.st_mode)) return "it is a directory";
    return S_ISREG(info.st_mode) ? NULL : "it is not a regular file";
}

/* Opens the path with these flags and as a stream, never through a symbolic link and never waiting. NULL on failure,
   with the reason in errno. */
static FILE *open_stream(const char *path, int flags) {
    const int fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w+b"); /* which, unlike fopen, cuts nothing off */
    if (!stream && fd >= 0) close(fd);
    return stream;
}

bool file_update(const char *path, FILE **file, Error *err) {
    const char *wrong = not_writable(path);
    *file = wrong ? NULL : open_stream(path, O_RDWR);
    return *file || runtime_error(err, "cannot write %s: %s", path, wrong ? wrong : strerror(errno));
}

bool file_writer_open(FileWriter *writer, const char *path, Error *err) {
    if (strlen(path) >= sizeof writer->path) return runtime_error(err, "the path is too long: %s", path);
    const char *wrong = not_writable(path);
    if (wrong) return runtime_error(err, "cannot write %s: %s", path, wrong);
    if (!directory_locks_hold(err)) return false;
    snprintf(writer->path, sizeof writer->path, "%s", path);
    snprintf(writer->temporary, sizeof writer->temporary, "%s" FILE_NEW, path);
    unlink(writer->temporary); /* left by a process that was killed, or a link or a pipe that somebody put there */
    writer->stream = open_stream(writer->temporary, O_RDWR | O_EXCL);
    return writer->stream || runtime_error(err, "cannot write %s: %s", writer->temporary, strerror(errno));
}

/* Renames the file that was written. It is another one by now where a second process writes the same path. */
static bool put_in_place(const FileWriter *writer, const struct stat *written) {
    struct stat there;
    if (lstat(writer->temporary, &there) != 0) return false;
    errno = EBUSY;
    return there.st_dev == written->st_dev && there.st_ino == written->st_ino &&
           rename(writer->temporary, writer->path) == 0;
}

bool directory_sync(const char *path, Error *err) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    const char *directory = dirname(copy);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    if (!ok) runtime_error(err, "cannot write the directory %s: %s", directory, strerror(errno));
    if (fd >= 0) close(fd);
    return ok;
}

bool file_writer_commit(FileWriter *writer, Error *err) {
    struct stat written;
    bool ok = !ferror(writer->stream) && fflush(writer->stream) == 0 && fsync(fileno(writer->stream)) == 0 &&
              fstat(fileno(writer->stream), &written) == 0;
    int reason = errno ? errno : EIO; /* the failed write's, unless a later call changed it */
    if (fclose(writer->stream) != 0 && ok) ok = false, reason = errno;
    writer->stream = NULL;
    if (ok && !directory_locks_hold(err)) return false; /* the name may be another process's by now */
    if (ok && !put_in_place(writer, &written)) ok = false, reason = errno;
    if (ok) return directory_sync(writer->path, err);
    if (reason != EBUSY) unlink(writer->temporary);
    return runtime_error(err, "cannot write %s: %s", writer->path, strerror(reason));
}

bool file_write(const char *path, const void *data, size_t size, Error *err) {
    FileWriter writer;
    if (!file_writer_open(&writer, path, err)) return false;
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

bool directory_no_link(const char *path, Error *err) {
    struct stat info;
    return lstat(path, &info) != 0 || !S_ISLNK(info.st_mode) ||
           usage_error(err, "%s is a symbolic link, which is not followed: put the directory itself there", path);
}

bool directory_make(const char *path, bool must_be_new, Error *err) {
    char part[4096];
    struct stat info;
    const size_t length = strlen(path);
    if (length >= sizeof part || length == 0)
        return usage_error(err, "the directory's path is %s", length ? "too long" : "empty");
    memcpy(part, path, length + 1);
    for (size_t n = length; n > 1 && part[n - 1] == '/'; n--) part[n - 1] = 0;
    for (char *slash = part; (slash = strchr(slash + 1, '/')); *slash = '/') { /* the directories above it */
        *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return runtime_error(err, "cannot make the directory %s: %s", part, strerror(errno));
    }
    if (!must_be_new && !directory_no_link(part, err)) return false;
    if (mkdir(part, 0777) == 0) return true;
    const int reason = errno;
    return (reason == EEXIST && !must_be_new && stat(part, &info) == 0 && S_ISDIR(info.st_mode)) ||
           runtime_error(err, "cannot make the directory %s: %s", part, strerror(reason));
}
