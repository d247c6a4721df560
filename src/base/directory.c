/* Directories: opened, made, flushed, emptied, locked. Errors name the path and the system's reason. Every call on a
   lock is relative to the open directory, since the directory may be renamed while it is locked (--force). Where flock
   fails, two processes that replace the same owner may both make a file: the later one stays, and the other process
   finds that out before its first write (directory_check). */
#include "base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory.h"

const Directory no_directory = {.fd = AT_FDCWD, .owner = -1};

bool directory_unlocked;

/* Empties the owner's file, which says that this process has ended, and releases the lock. */
static void close_directory(void *block) {
    const Directory *d = block;
    if (d->locked && ftruncate(d->owner, 0) != 0) errno = 0; /* the text stays, as after a kill */
    if (d->owner >= 0) close(d->owner);
    if (d->fd > 0) close(d->fd);
}

Directory *directory_open(const char *path) {
    Directory *d = memory_make_with_undo(sizeof *d, close_directory, "a directory");
    if (strlen(path) >= sizeof d->path) usage_error("the path of the directory of results is too long: %s", path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        usage_error("%s is not the directory of a run: %s", path, strerror(errno));
    if (fd < 0) runtime_error("cannot open the directory %s: %s", path, strerror(errno));
    d->fd = fd;
    d->owner = -1;
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
    if (fstatat(d->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode)) return;
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    directory_check_no_link(path);
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

/* --- locks */

bool owner_parse(const char *text, Owner *o) {
    char name[16], word[256];
    *o = (Owner){0};
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (sscanf(line, "%15[a-z]%*1[ ]%255[^ \t\n]", name, word) != 2 || strlen(word) >= sizeof o->host) continue;
        if (strcmp(name, "host") == 0) memcpy(o->host, word, sizeof o->host);
        if (strcmp(name, "process") == 0) o->process = strtol(word, NULL, 10);
    }
    return *o->host && o->process > 0 && o->process <= INT_MAX;
}

static void own_host(char host[128]) {
    memset(host, 0, 128);
    if (gethostname(host, 127) != 0 || !*host) memcpy(host, "-", 2);
}

/* Raises the error for a directory that another process holds. */
static _Noreturn void refuse_held(const Directory *d, const char *text) {
    Owner o;
    char host[128];
    own_host(host);
    if (!owner_parse(text, &o)) usage_error("%s is in use: another process is writing there", d->path);
    if (strcmp(o.host, host) == 0)
        usage_error("%s is in use: process %ld is writing there; wait for it, or stop it", d->path, o.process);
    usage_error("%s is in use: process %ld of %s is writing there; wait for it, or stop it", d->path, o.process,
                o.host);
}

/* Checks the text of an owner's file that nobody has locked. */
static void check_text(const Directory *d, const char *text) {
    Owner o;
    char host[128];
    if (!*text || directory_unlocked) return; /* its process has ended, or the user says so */
    own_host(host);
    if (!owner_parse(text, &o))
        usage_error("%s/" OWNER_FILE " does not name a process, as this program writes it there: if no process trains "
                    "in that directory, remove the file",
                    d->path);
    if (strcmp(o.host, host) != 0)
        usage_error("%s was in use by process %ld of %s, which has not said that it ended: if it has, add --unlocked",
                    d->path, o.process, o.host);
}

/* Opens the owner's file, with these flags beside. Returns the number of its names, 0 if there is no such file. */
static nlink_t open_owner(Directory *d, int flags) {
    struct stat info;
    /* for writing, since NFS passes a lock on to its server for such files alone */
    d->owner = openat(d->fd, OWNER_FILE, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0666);
    if (d->owner < 0 && errno == ENOENT) return 0;
    if (d->owner < 0 || fstat(d->owner, &info) != 0) {
        const int reason = errno;
        error_raise(error_status(reason), "cannot write %s/" OWNER_FILE ": %s", d->path, strerror(reason));
    }
    if (S_ISREG(info.st_mode)) return info.st_nlink;
    usage_error("cannot write %s/" OWNER_FILE ": it is not a regular file", d->path);
}

/* Asks for the lock, a few times, since a process that only asks whether it is held has it for an instant. Returns 0,
   or the reason why not. */
static int ask(int file, int tries) {
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || --tries <= 0) return errno;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return 0;
}

/* Locks the owner's file, or raises the error for one that cannot be locked. */
static void lock_owner(const Directory *d, int tries) {
    char text[OWNER_TEXT];
    const int reason = ask(d->owner, tries);
    const ssize_t size = pread(d->owner, text, OWNER_TEXT - 1, 0);
    text[size > 0 ? size : 0] = 0;
    if (reason == EWOULDBLOCK) refuse_held(d, text);
    const bool refused = reason != 0 && !directory_unlocked;
    if (refused && error_status(reason) == STATUS_FAILED)
        runtime_error("cannot lock %s: %s", d->path, strerror(reason));
    if (refused)
        usage_error("%s cannot be locked (%s): if no other process writes there, add --unlocked", d->path,
                    strerror(reason));
    check_text(d, text);
}

/* Gives the directory an owner's file of its own, in place of one that has another name elsewhere, as in a copy made of
   hard links. */
static void replace_owner(Directory *d) {
    static const char NEW[] = OWNER_FILE ".new";
    close(d->owner);
    d->owner = -1;
    unlinkat(d->fd, NEW, 0);
    const int own = openat(d->fd, NEW, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (own >= 0) close(own);
    if (own < 0 || renameat(d->fd, NEW, d->fd, OWNER_FILE) != 0)
        runtime_error("cannot write %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    open_owner(d, O_CREAT);
}

/* Returns whether `owner` is another file than the one that was locked. */
static bool is_lost(const Directory *d) {
    struct stat locked, there;
    if (fstat(d->owner, &locked) != 0) return false;
    if (fstatat(d->fd, OWNER_FILE, &there, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
    return locked.st_dev != there.st_dev || locked.st_ino != there.st_ino;
}

/* Writes this process into the owner's file. */
static void write_owner(const Directory *d) {
    char text[OWNER_TEXT], host[128], start[32] = "-";
    const time_t now = time(NULL);
    struct tm utc;
    own_host(host);
    (void)strftime(start, sizeof start, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const int length = snprintf(text, sizeof text, "host %s\nprocess %ld\nstart %s\n", host, (long)getpid(), start);
    errno = ENOSPC; /* the reason of a write that is cut short, which sets none */
    if (ftruncate(d->owner, 0) != 0 || pwrite(d->owner, text, (size_t)length, 0) != length)
        runtime_error("cannot write %s/" OWNER_FILE ": %s", d->path, strerror(errno));
}

Directory *directory_lock(const char *path) {
    enum { TRIES = 20 };
    Directory *d = directory_open(path);
    if (open_owner(d, O_CREAT) > 1) replace_owner(d);
    lock_owner(d, TRIES);
    /* Meanwhile another process may have moved the directory and made a new one (--force). */
    if (!directory_in_place(d) || is_lost(d)) usage_error("%s is in use: it was moved just now", path);
    d->locked = true;
    write_owner(d);
    return d;
}

void directory_check_free(const char *path) {
    const size_t mark = memory_mark();
    Directory *d = directory_open(path);
    if (open_owner(d, 0)) lock_owner(d, 1);
    memory_release(mark);
}

bool directory_held(const char *path) {
    const size_t mark = memory_mark();
    Directory *d = directory_open(path);
    d->owner = openat(d->fd, OWNER_FILE, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool held = d->owner >= 0 && ask(d->owner, 1) == EWOULDBLOCK;
    memory_release(mark);
    return held;
}

void directory_check(const Directory *d) {
    if (!directory_in_place(d))
        runtime_error(
            "%s was moved or removed while it trained: this process ends here, and what it has saved is where "
            "that directory is now",
            d->path);
    if (d->locked && is_lost(d))
        runtime_error("%s/" OWNER_FILE " was removed, or replaced by another process, while this one trained: this one "
                      "ends here",
                      d->path);
}
