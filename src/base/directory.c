/* Directories: opened, made, renamed, emptied. Errors name the path and the system's reason. */
#include "base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const Directory no_directory = {.fd = AT_FDCWD};

bool directory_open(Directory *d, const char *path, Error *err) {
    *d = (Directory){0};
    if (strlen(path) >= sizeof d->path)
        return usage_error(err, "the path of the directory of results is too long: %s", path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return usage_error(err, "%s is not the directory of a run: %s", path, strerror(errno));
    if (fd < 0) return runtime_error(err, "cannot open the directory %s: %s", path, strerror(errno));
    d->fd = fd;
    memcpy(d->path, path, strlen(path) + 1);
    return true;
}

bool directory_in_place(const Directory *d, Error *err) {
    struct stat opened, there;
    if (d->fd == AT_FDCWD || fstat(d->fd, &opened) != 0) return true;
    const bool found = stat(d->path, &there) == 0;
    if (found ? opened.st_dev == there.st_dev && opened.st_ino == there.st_ino
              : errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        return true;
    return runtime_error(err,
                         "%s was moved or removed while it trained: this process ends here, and what it has saved is "
                         "where that directory is now",
                         d->path);
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

bool directory_make_in(const Directory *d, const char *name, Error *err) {
    struct stat info;
    if (mkdirat(d->fd, name, 0777) == 0) return true;
    const int reason = errno;
    if (reason == EEXIST && fstatat(d->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(info.st_mode)) return true;
        if (S_ISLNK(info.st_mode))
            return usage_error(err, "%s/%s is a symbolic link, which is not followed: put the directory itself there",
                               d->path, name);
    }
    return runtime_error(err, "cannot make the directory %s/%s: %s", d->path, name, strerror(reason));
}

bool directory_no_link(const char *path, Error *err) {
    struct stat info;
    return lstat(path, &info) != 0 || !S_ISLNK(info.st_mode) ||
           usage_error(err, "%s is a symbolic link, which is not followed: put the directory itself there", path);
}

bool directory_sync(int fd, const char *path, Error *err) {
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP ||
           runtime_error(err, "cannot write the directory %s: %s", path, strerror(errno));
}

bool directory_sync_above(const char *path, Error *err) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    const char *above = dirname(copy);
    const int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return runtime_error(err, "cannot write the directory %s: %s", above, strerror(errno));
    const bool ok = directory_sync(fd, above, err);
    close(fd);
    return ok;
}

void directory_empty(int fd) {
    const int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = own < 0 ? NULL : fdopendir(own);
    if (!directory && own >= 0) close(own);
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
