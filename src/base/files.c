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

#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"

static void close_file(void *block) {
    const int *file = block;
    if (*file >= 0) close(*file);
}

/* Raises the error for a file that cannot be read. */
static _Noreturn void cannot_read(const char *what, const char *path) {
    const int reason = errno;
    error_raise(error_status(reason), "cannot read %s %s: %s", what, path, strerror(reason));
}

char *file_read(const char *path, const char *what, size_t limit, size_t *size) {
    char words[PATH_CAPACITY + 32];
    struct stat info = {0};
    int *file = memory_make_with_undo(sizeof *file, close_file, path);
    /* O_NONBLOCK: opening a pipe that nobody writes to would wait forever, before its type is known. */
    *file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*file < 0 || fstat(*file, &info) != 0) cannot_read(what, path);
    if (S_ISDIR(info.st_mode)) usage_error("cannot read %s %s: it is a directory; name a file", what, path);
    if (!S_ISREG(info.st_mode)) usage_error("cannot read %s %s: it is not a regular file", what, path);
    if ((unsigned long long)info.st_size > limit)
        usage_error("%s %s has %lld bytes; at most %zu are accepted", what, path, (long long)info.st_size, limit);
    *size = (size_t)info.st_size;
    snprintf(words, sizeof words, "the %zu bytes of %s", *size, path);
    char *bytes = memory_make(size_add(*size, 1), 1, words);
    for (size_t done = 0; done < *size;) {
        const ssize_t count = read(*file, bytes + done, *size - done);
        if (count < 0) cannot_read(what, path);
        if (count == 0) usage_error("cannot read %s %s: it became shorter while it was read", what, path);
        done += (size_t)count;
    }
    memory_free(file);
    return bytes;
}

size_t input_read(const char **given, char *input, size_t capacity, bool with_returns) {
    if (strcmp(*given, "-") != 0) return strlen(*given);
    *given = input;
    const size_t size = fread(input, 1, capacity, stdin);
    if (ferror(stdin) && interrupt_signal()) interrupt_end();
    if (ferror(stdin)) runtime_error("cannot read standard input: %s", strerror(errno));
    size_t length = 0;
    for (size_t i = size >= 3 && memcmp(input, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; i < size; i++) {
        const bool ends_line = input[i] == '\r' && i + 1 < size && input[i + 1] == '\n';
        if (with_returns || !ends_line) input[length++] = input[i];
    }
    if (length == 0 || input[length - 1] != '\n') return length;
    return length > 1 && input[length - 2] == '\r' ? length - 2 : length - 1;
}

/* Opens the directory that holds the file. Fails with errno. */
static int open_parent(const Directory *d, const char *name) {
    char above[PATH_CAPACITY];
    const char *slash = strrchr(name, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash + 1 - name) : 0, name); /* "checkpoint/" */
    for (size_t n = strlen(above); n > 1 && above[n - 1] == '/'; n--) above[n - 1] = 0;
    if (!*above) return openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd == AT_FDCWD) return open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return openat(d->fd, above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Returns why the file cannot be written; NULL where the name has a regular file or nothing. */
static const char *not_writable(int parent, const char *name) {
    struct stat info;
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISLNK(info.st_mode)) return "it is a symbolic link, which is not followed: name the file itself";
    if (S_ISDIR(info.st_mode)) return "it is a directory";
    return S_ISREG(info.st_mode) ? NULL : "it is not a regular file";
}

/* Opens the file with these flags and returns its stream. Follows no symbolic link and never waits. Returns NULL on
   failure, with the reason in errno. */
static FILE *open_stream(int parent, const char *name, int flags) {
    const int fd = openat(parent, name, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w+b"); /* which, unlike fopen, cuts nothing off */
    if (!stream && fd >= 0) close(fd);
    return stream;
}

/* Returns whether the new file still has its name. It lost it if another process writes the same file. */
static bool has_name(const FileWriter *w) {
    struct stat begun, there;
    return fstat(fileno(w->stream), &begun) == 0 && fstatat(w->parent, w->new, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           begun.st_dev == there.st_dev && begun.st_ino == there.st_ino;
}

/* Removes the new file, unless it was committed. */
static void close_writer(void *block) {
    FileWriter *w = block;
    if (w->parent < 0) return;
    if (w->stream && has_name(w)) unlinkat(w->parent, w->new, 0);
    if (w->stream) fclose(w->stream);
    close(w->parent);
}

FileWriter *file_writer_open(const Directory *d, const char *name) {
    FileWriter *w = memory_make_with_undo(sizeof *w, close_writer, name);
    w->directory = d;
    w->parent = -1;
    path_join(w->path, d->path, name);
    const char *slash = strrchr(w->path, '/');
    w->name = slash ? slash + 1 : w->path;
    snprintf(w->new, sizeof w->new, "%s" FILE_NEW, w->name);
    directory_check(d);
    w->parent = open_parent(d, name);
    if (w->parent < 0) runtime_error("cannot write %s: %s", w->path, strerror(errno));
    const char *wrong = not_writable(w->parent, w->name);
    if (wrong) runtime_error("cannot write %s: %s", w->path, wrong);
    unlinkat(w->parent, w->new, 0); /* of a process that was killed, or a link or a pipe */
    w->stream = open_stream(w->parent, w->new, O_RDWR | O_EXCL);
    if (!w->stream) runtime_error("cannot write %s" FILE_NEW ": %s", w->path, strerror(errno));
    return w;
}

void file_writer_commit(FileWriter *w) {
    const bool written = !ferror(w->stream) && fflush(w->stream) == 0 && fsync(fileno(w->stream)) == 0;
    if (!written) runtime_error("cannot write %s: %s", w->path, strerror(errno ? errno : EIO));
    directory_check(w->directory);
    errno = EBUSY;
    if (!has_name(w) || renameat(w->parent, w->new, w->parent, w->name) != 0)
        runtime_error("cannot write %s: %s", w->path, strerror(errno));
    directory_sync(w->parent, w->path);
    memory_free(w);
}

void file_write(const Directory *d, const char *name, const void *data, size_t size) {
    FileWriter *writer = file_writer_open(d, name);
    if (size) fwrite(data, 1, size, writer->stream);
    file_writer_commit(writer);
}

/* Puts a copy of an open file, of this size, into its place. */
static void replace_by_copy(const Directory *d, const char *name, FILE *file, size_t size) {
    char *bytes = memory_make(size, 1, "a copy of a file");
    if (fread(bytes, 1, size, file) != size) runtime_error("cannot read %s/%s: %s", d->path, name, strerror(errno));
    file_write(d, name, bytes, size);
    memory_free(bytes);
}

FILE *file_update(const Directory *d, const char *name) {
    char path[PATH_CAPACITY];
    struct stat info;
    path_join(path, d->path, name);
    for (bool copied = false;; copied = true) {
        const char *wrong = not_writable(d->fd, name);
        FILE *file = wrong ? NULL : open_stream(d->fd, name, O_RDWR);
        if (!file) runtime_error("cannot write %s: %s", path, wrong ? wrong : strerror(errno));
        if (fstat(fileno(file), &info) != 0 || info.st_nlink < 2 || copied) return file;
        replace_by_copy(d, name, file, (size_t)info.st_size);
        fclose(file);
    }
}

void path_join(char out[PATH_CAPACITY], const char *directory, const char *name) {
    const char *slash = *directory ? "/" : "";
    const int length = snprintf(out, PATH_CAPACITY, "%s%s%s", directory, slash, name);
    if (length < 0 || length >= PATH_CAPACITY) runtime_error("the path is too long: %s%s%s", directory, slash, name);
}

void path_check_tilde(const char *path) {
    const char *home = getenv("HOME");
    if (*path != '~' || (path[1] && path[1] != '/')) return;
    usage_error("the shell has not replaced the ~ of %s: write %s%s", path, home ? home : "/home/NAME", path + 1);
}

bool path_exists(const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0) return true;
    const int reason = errno;
    if (reason != ENOENT && reason != ENOTDIR)
        error_raise(error_status(reason), "cannot determine what %s is: %s", path, strerror(reason));
    return false;
}

const char *path_installed(const char *path, char out[PATH_CAPACITY]) {
    if (*path == '/' || path_exists(path)) return path;
    char *program = program_path(); /* PREFIX/bin/sqrtdk */
    for (int i = 0; program && i < 2; i++) {
        char *slash = strrchr(program, '/');
        if (slash) *slash = 0;
    }
    const int length = program ? snprintf(out, PATH_CAPACITY, "%s/share/sqrtdk/%s", program, path) : -1;
    free(program);
    return length > 0 && length < PATH_CAPACITY && path_exists(out) ? out : path;
}

void files_hold_standard_streams(void) {
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) close(fd);
}
