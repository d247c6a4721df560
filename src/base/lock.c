/* Locks on directories. Every call is relative to the open directory, since the directory may be renamed while it is
   locked (--force). Where flock fails, two processes that replace the same owner may both make a file: the later one
   stays, and the other process finds that out before its first write (directory_check). */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"

/* --- the file */

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

/* The job of the scheduler that started this process, with its index in an array of jobs. */
static void describe_job(char *out, size_t capacity) {
    static const char *const jobs[][2] = {{"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"},
                                          {"SLURM_JOB_ID", NULL},
                                          {"PBS_JOBID", "PBS_ARRAY_INDEX"},
                                          {"LSB_JOBID", "LSB_JOBINDEX"},
                                          {"JOB_ID", "SGE_TASK_ID"}};
    const char *job = NULL, *index = NULL;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs && !job; i++) {
        job = getenv(jobs[i][0]);
        index = jobs[i][1] ? getenv(jobs[i][1]) : NULL;
    }
    const int length = snprintf(out, capacity, "%s%s%s", job ? job : "", index ? "_" : "", index ? index : "");
    if (!job || !*job || (size_t)length >= capacity || strpbrk(out, " \t\n\v\f\r")) snprintf(out, capacity, "-");
}

static Owner describe_self(void) {
    Owner self = {.process = getpid()};
    if (gethostname(self.host, sizeof self.host - 1) != 0 || !*self.host) snprintf(self.host, sizeof self.host, "-");
    describe_job(self.job, sizeof self.job);
    self.start = process_start(self.process);
    return self;
}

/* Reads the owner's file. False, with errno, where that fails. */
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

/* --- taking the directory */

/* What is known of the owner of a directory. */
typedef enum {
    OWNER_NONE,
    OWNER_GONE,      /* it has ended: its file is to be removed */
    OWNER_LIVES,     /* which process it is, is unknown while it has not written the file */
    OWNER_ELSEWHERE, /* a process of another host, which may live */
    OWNER_DAMAGED    /* the file does not name a process */
} OwnerState;

/* Finds the owner of an open directory. Asks for flock first. A process that was killed as it made the file leaves an
   empty one. */
static OwnerState find_owner(const Directory *d, const Owner *self, Owner *other) {
    char text[OWNER_TEXT];
    const bool flocked = flock(d->fd, LOCK_EX | LOCK_NB) == 0, blocked = !flocked && errno == EWOULDBLOCK;
    const bool there = read_owner(d->fd, text);
    if (!there && errno != ENOENT) usage_error("cannot read %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    const bool known = there && owner_parse(text, other);
    if (!known) *other = (Owner){.job = "-"};
    if (blocked) return OWNER_LIVES;
    if (!there) return OWNER_NONE;
    if (!known) return flocked && !*text ? OWNER_GONE : OWNER_DAMAGED;
    if (strcmp(other->host, self->host) == 0)
        return flocked || !process_lives(other->process, other->start) ? OWNER_GONE : OWNER_LIVES;
    return strcmp(other->job, self->job) == 0 && strcmp(self->job, "-") != 0 ? OWNER_GONE : OWNER_ELSEWHERE;
}

static _Noreturn void in_use_by_another(const Directory *d) {
    usage_error("%s is in use: another process is writing there", d->path);
}

/* Checks that this process may make the owner's file. */
static void check_owner(const Directory *d, OwnerState state, const Owner *other, const Owner *self) {
    const bool here = strcmp(other->host, self->host) == 0;
    char job[160] = "";
    if (strcmp(other->job, "-") != 0) snprintf(job, sizeof job, " (job %s)", other->job);
    if (state == OWNER_DAMAGED)
        usage_error("%s/" OWNER_FILE " does not name a process, as this program writes it there: if no process trains "
                    "in that directory, remove the file",
                    d->path);
    if (state == OWNER_NONE || state == OWNER_GONE) return;
    if (other->process == 0) in_use_by_another(d);
    if (!here)
        usage_error(
            "%s is in use: process %ld of %s%s is writing there; if that process is known to have ended, remove "
            "%s/" OWNER_FILE,
            d->path, other->process, other->host, job, d->path);
    usage_error("%s is in use: process %ld%s is writing there; wait for it, or stop it", d->path, other->process, job);
}

/* Returns whether `owner` is known to be another process's, or gone. */
static bool is_lost(const Directory *d) {
    char text[OWNER_TEXT];
    if (!read_owner(d->fd, text)) return errno == ENOENT;
    return strcmp(text, d->owner) != 0;
}

/* What removes the file when the directory is released. */
typedef struct {
    const Directory *directory;
} Lock;

static void remove_owner(void *block) {
    const Directory *d = ((Lock *)block)->directory;
    if (*d->owner && !is_lost(d)) unlinkat(d->fd, OWNER_FILE, 0);
}

/* Makes the file, which must be new, and writes this process into it. */
static void make_owner(Directory *d, const Owner *self) {
    Lock *lock = memory_make_undone(sizeof *lock, remove_owner, "a lock");
    char text[OWNER_TEXT];
    const int length = snprintf(text, sizeof text, "host %s\nprocess %ld\nstart %llu\njob %s\n", self->host,
                                self->process, self->start, self->job);
    lock->directory = d;
    const int file = openat(d->fd, OWNER_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) in_use_by_another(d);
    if (file < 0) runtime_error("cannot write %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    const ssize_t written = write(file, text, (size_t)length);
    const int reason = written < 0 ? errno : ENOSPC;
    close(file);
    if (written == length) {
        memcpy(d->owner, text, sizeof text);
        return;
    }
    unlinkat(d->fd, OWNER_FILE, 0);
    runtime_error("cannot write %s/" OWNER_FILE ": %s", d->path, strerror(reason));
}

Directory *directory_lock(const char *path) {
    const Owner self = describe_self();
    Owner other;
    Directory *d = directory_open(path);
    const OwnerState state = find_owner(d, &self, &other);
    check_owner(d, state, &other, &self);
    /* Between opening it and flock, another process may have moved the directory and made a new one (--force). */
    if (!directory_in_place(d)) usage_error("%s is in use: it was moved just now", path);
    if (state == OWNER_GONE) unlinkat(d->fd, OWNER_FILE, 0);
    make_owner(d, &self);
    return d;
}

/* Finds the owner of the directory at `path`, without the file `owner` not by flock: a process that starts would take
   this one for another. Checks it, or only returns what is known of it. */
static OwnerState look_up_owner(const char *path, bool check) {
    const size_t mark = memory_mark();
    const Owner self = describe_self();
    Owner other;
    OwnerState state = OWNER_NONE;
    const Directory *d = directory_open(path);
    if (faccessat(d->fd, OWNER_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        state = find_owner(d, &self, &other);
    if (check) check_owner(d, state, &other, &self);
    memory_release(mark);
    return state;
}

void directory_check_free(const char *path) { look_up_owner(path, true); }

bool directory_held(const char *path) { return look_up_owner(path, false) == OWNER_LIVES; }

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
