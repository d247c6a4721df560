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

const Directory no_directory = {.fd = AT_FDCWD};

/* Reads the owner's file. Returns false, with errno, where that fails. */
static bool read_owner(int directory, char text[OWNER_TEXT]) {
    const int file = openat(directory, OWNER_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t size = read(file, text, OWNER_TEXT - 1);
    const int reason = errno;
    close(file);
    text[size > 0 ? size : 0] = 0;
    errno = reason;
    return size >= 0;
}

/* Returns whether `owner` is known to be missing, or the file of another process. */
static bool is_lost(const Directory *d) {
    char text[OWNER_TEXT];
    if (!read_owner(d->fd, text)) return errno == ENOENT;
    return strcmp(text, d->owner) != 0;
}

static void close_directory(void *block) {
    const Directory *d = block;
    if (*d->owner && !is_lost(d)) unlinkat(d->fd, OWNER_FILE, 0);
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
    *o = (Owner){.job = "-"};
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (sscanf(line, "%15[a-z]%*1[ ]%255[^ \t\n]", name, word) != 2 || strlen(word) >= sizeof o->host) continue;
        if (strcmp(name, "host") == 0) memcpy(o->host, word, sizeof o->host);
        if (strcmp(name, "job") == 0) memcpy(o->job, word, sizeof o->job);
        if (strcmp(name, "process") == 0) o->process = strtol(word, NULL, 10);
        if (strcmp(name, "start") == 0) o->start = strtoull(word, NULL, 10);
    }
    return *o->host && o->process > 0 && o->process <= INT_MAX;
}

/* Returns this process. Its job is that of the scheduler that started it, with its index in an array of jobs. */
static Owner describe_self(void) {
    static const char *const jobs[][2] = {{"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"},
                                          {"SLURM_JOB_ID", NULL},
                                          {"PBS_JOBID", "PBS_ARRAY_INDEX"},
                                          {"LSB_JOBID", "LSB_JOBINDEX"},
                                          {"JOB_ID", "SGE_TASK_ID"}};
    Owner self = {.process = getpid(), .start = process_start(getpid())};
    const char *job = NULL, *index = NULL;
    if (gethostname(self.host, sizeof self.host - 1) != 0 || !*self.host) strcpy(self.host, "-");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs && !job; i++) {
        job = getenv(jobs[i][0]);
        index = jobs[i][1] ? getenv(jobs[i][1]) : NULL;
    }
    const int length =
        snprintf(self.job, sizeof self.job, "%s%s%s", job ? job : "", index ? "_" : "", index ? index : "");
    if (!job || !*job || (size_t)length >= sizeof self.job || strpbrk(self.job, " \t\n\v\f\r")) strcpy(self.job, "-");
    return self;
}

/* Raises the error for a directory whose owner lives or may live. Its process is 0 while it has no file. */
static _Noreturn void refuse(const Directory *d, const Owner *o) {
    const Owner self = describe_self();
    char job[160] = "";
    if (strcmp(o->job, "-") != 0) snprintf(job, sizeof job, " (job %s)", o->job);
    if (o->process == 0) usage_error("%s is in use: another process is writing there", d->path);
    if (strcmp(o->host, self.host) == 0)
        usage_error("%s is in use: process %ld%s is writing there; wait for it, or stop it", d->path, o->process, job);
    usage_error("%s is in use: process %ld of %s%s is writing there; if that process is known to have ended, remove "
                "%s/" OWNER_FILE,
                d->path, o->process, o->host, job, d->path);
}

typedef enum { OWNER_NONE, OWNER_ENDED, OWNER_LIVES } OwnerState;

/* Returns whether an owner on this host is known to have ended. */
static bool has_ended(const Owner *o, const Owner *self) {
    return o->process != 0 && strcmp(o->host, self->host) == 0 && !process_lives(o->process, o->start);
}

/* Finds the owner of an open directory. Asks for flock first, since a process holds it before it makes its file. An
   empty file is that of a process that was killed as it made it. An owner on another host, which may live, is an
   error. */
static OwnerState find_owner(const Directory *d, Owner *other) {
    char text[OWNER_TEXT] = "";
    const Owner self = describe_self();
    bool flocked = flock(d->fd, LOCK_EX | LOCK_NB) == 0, blocked = !flocked && errno == EWOULDBLOCK;
    const bool there = read_owner(d->fd, text);
    if (!there && errno != ENOENT) usage_error("cannot read %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    const bool known = owner_parse(text, other);
    if (!known) *other = (Owner){.job = "-"};
    /* Waits for a process that a killed owner was just starting: it holds the lock until its program begins. */
    for (int tries = 0; blocked && has_ended(other, &self) && tries < 100; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        flocked = flock(d->fd, LOCK_EX | LOCK_NB) == 0;
        blocked = !flocked;
    }
    if (blocked) return OWNER_LIVES;
    if (!there) return OWNER_NONE;
    if (!known && flocked && !*text) return OWNER_ENDED;
    if (!known)
        usage_error("%s/" OWNER_FILE " does not name a process, as this program writes it there: if no process trains "
                    "in that directory, remove the file",
                    d->path);
    if (strcmp(other->host, self.host) == 0) return flocked || has_ended(other, &self) ? OWNER_ENDED : OWNER_LIVES;
    if (strcmp(other->job, self.job) != 0 || strcmp(self.job, "-") == 0) refuse(d, other);
    return OWNER_ENDED;
}

/* Makes the file, which must be new, and writes this process into it. */
static void make_owner(Directory *d) {
    const Owner self = describe_self();
    char text[OWNER_TEXT];
    const int length = snprintf(text, sizeof text, "host %s\nprocess %ld\nstart %llu\njob %s\n", self.host,
                                self.process, self.start, self.job);
    const int file = openat(d->fd, OWNER_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) refuse(d, &(Owner){.job = "-"});
    if (file < 0) runtime_error("cannot write %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    errno = ENOSPC; /* the reason of a write that is cut short, which sets none */
    const bool written = write(file, text, (size_t)length) == length;
    const int reason = errno;
    close(file);
    if (!written) unlinkat(d->fd, OWNER_FILE, 0);
    if (!written) runtime_error("cannot write %s/" OWNER_FILE ": %s", d->path, strerror(reason));
    memcpy(d->owner, text, sizeof text);
}

Directory *directory_lock(const char *path) {
    Owner other;
    Directory *d = directory_open(path);
    const OwnerState state = find_owner(d, &other);
    if (state == OWNER_LIVES) refuse(d, &other);
    /* Between opening it and flock, another process may have moved the directory and made a new one (--force). */
    if (!directory_in_place(d)) usage_error("%s is in use: it was moved just now", path);
    if (state == OWNER_ENDED) unlinkat(d->fd, OWNER_FILE, 0);
    make_owner(d);
    return d;
}

/* Returns whether the directory at `path` has an owner that lives or, if `refuses`, raises the error for it. Without
   the file it does not ask for flock, which would refuse the directory to a process that starts. */
static bool has_owner(const char *path, bool refuses) {
    const size_t mark = memory_mark();
    Owner other;
    const Directory *d = directory_open(path);
    const bool none = faccessat(d->fd, OWNER_FILE, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    const bool lives = !none && find_owner(d, &other) == OWNER_LIVES;
    if (lives && refuses) refuse(d, &other);
    memory_release(mark);
    return lives;
}

void directory_check_free(const char *path) { has_owner(path, true); }

bool directory_held(const char *path) { return has_owner(path, false); }

void directory_check(const Directory *d) {
    if (!directory_in_place(d))
        runtime_error(
            "%s was moved or removed while it trained: this process ends here, and what it has saved is where "
            "that directory is now",
            d->path);
    if (*d->owner && is_lost(d))
        runtime_error("%s/" OWNER_FILE " was removed, or replaced by another process, while this one trained: this one "
                      "ends here",
                      d->path);
}
