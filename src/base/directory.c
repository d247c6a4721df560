/* Directories: opened, made, flushed, emptied. Errors name the path and the system's reason. */
#include "base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/memory.h"

const Directory no_directory = {.fd = AT_FDCWD};

static void close_directory(void *block) {
    const Directory *d = block;
    directory_unlock(d);
    if (d->fd > 0) close(d->fd);
}

Directory *directory_open(const char *path) {
    Directory *d = memory_make_undone(sizeof *d, close_directory, "a directory");
    if (strlen(path) >= sizeof d->path) usage_error("the path of the directory of results is too long: %s", path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        usage_error("%s is not the directory of a run: %s", path, strerror(errno));
    if (fd < 0) runtime_error("cannot open the directory %s: %s", path, strerror(errno));
    d->fd = fd;
    memcpy(d->path, path, strlen(path) + 1);
    return d;
}

bool directory_in_place(const Directory *d) {
    struct stat opened, there;
    if (d->fd == AT_FDCWD || fstat(d->fd, &opened) != 0) return true;
    if (stat(d->path, &there) == 0) return opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
    return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
}

static _Noreturn void cannot_make(const char *path, int reason) {
    runtime_error("cannot make the directory %s: %s", path, strerror(reason));
}

bool directory_make_new(const char *path) {
    char part[PATH_CAPACITY];
    const size_t length = strlen(path);
    if (length >= sizeof part || length == 0) usage_error("the directory's path is %s", length ? "too long" : "empty");
    memcpy(part, path, length + 1);
    for (size_t n = length; n > 1 && part[n - 1] == '/'; n--) part[n - 1] = 0;
    for (char *slash = part; (slash = strchr(slash + 1, '/')); *slash = '/') { /* the directories above it */
        *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) cannot_make(part, errno);
    }
    if (mkdir(part, 0777) == 0) return true;
    if (errno != EEXIST) cannot_make(part, errno);
    return false;
}

void directory_make_in(const Directory *d, const char *name) {
    char path[RESULTS_PATH + 256];
    struct stat info;
    if (mkdirat(d->fd, name, 0777) == 0) return;
    const int reason = errno;
    const bool known = reason == EEXIST && fstatat(d->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (known && S_ISDIR(info.st_mode)) return;
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    if (known && S_ISLNK(info.st_mode)) directory_check_no_link(path);
    cannot_make(path, reason);
}

void directory_check_no_link(const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        usage_error("%s is a symbolic link, which is not followed: put the directory itself there", path);
}

void directory_sync(int fd, const char *path) {
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        runtime_error("cannot write the directory %s: %s", path, strerror(errno));
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the directories are. */
void directory_empty(int fd) {
    const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    if (!directory && copy >= 0) close(copy);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (unlinkat(fd, entry->d_name, 0) == 0) continue;
        const int below = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) continue;
        directory_empty(below);
        close(below);
        unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    if (directory) closedir(directory);
}
