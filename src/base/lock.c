/* Locks on directories. Every call is relative to the open directory, since the directory may be renamed while it is
   locked (--force). Where flock fails, two processes that replace the same owner may both make a file: the later one
   stays, and the other process finds that out before its first write (directory_holds). */
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

static bool in_use(const Directory *d, const Owner *o, bool here, Error *err) {
    char job[160] = "";
    if (strcmp(o->job, "-") != 0) snprintf(job, sizeof job, " (job %s)", o->job);
    if (here)
        return usage_error(err, "%s is in use: process %ld%s is training there; wait for it, or stop it", d->path,
                           o->process, job);
    return usage_error(err,
                       "%s is in use: process %ld of %s%s is training there; if that process is known to have ended, "
                       "remove %s/" OWNER_FILE,
                       d->path, o->process, o->host, job, d->path);
}

/* Whether this process may make the owner's file of an open directory, once an old one is removed (*old). Asks for
   flock first. A process that was killed as it made the file leaves an empty one. */
static bool may_take(const Directory *d, const Owner *self, bool *old, Error *err) {
    char text[OWNER_TEXT];
    Owner other;
    const bool flocked = flock(d->fd, LOCK_EX | LOCK_NB) == 0, blocked = !flocked && errno == EWOULDBLOCK;
    *old = read_owner(d->fd, text);
    if (!*old && errno != ENOENT)
        return usage_error(err, "cannot read %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    const bool known = *old && owner_parse(text, &other);
    if (blocked && !known) return usage_error(err, "%s is in use: another process is training there", d->path);
    if (!*old || (flocked && !*text)) return true;
    if (!known)
        return usage_error(err,
                           "%s/" OWNER_FILE " does not name a process, as this program writes it there: if no process "
                           "trains in that directory, remove the file",
                           d->path);
    const bool here = strcmp(other.host, self->host) == 0;
    const bool same_job = strcmp(other.job, self->job) == 0 && strcmp(self->job, "-") != 0;
    const bool gone = here ? flocked || !process_lives(other.process, other.start) : same_job;
    return (gone && !blocked) || in_use(d, &other, here, err);
}

/* Makes the file, which must be new, and writes this process into it. */
static bool make_owner(Directory *d, const Owner *self, Error *err) {
    const int length = snprintf(d->owner, sizeof d->owner, "host %s\nprocess %ld\nstart %llu\njob %s\n", self->host,
                                self->process, self->start, self->job);
    const int file = openat(d->fd, OWNER_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST)
        return usage_error(err, "%s is in use: another process is training there", d->path);
    if (file < 0) return runtime_error(err, "cannot write %s/" OWNER_FILE ": %s", d->path, strerror(errno));
    const ssize_t written = write(file, d->owner, (size_t)length);
    const int reason = written < 0 ? errno : ENOSPC;
    close(file);
    if (written == length) return true;
    unlinkat(d->fd, OWNER_FILE, 0);
    return runtime_error(err, "cannot write %s/" OWNER_FILE ": %s", d->path, strerror(reason));
}

bool directory_lock(Directory *d, const char *path, Error *err) {
    const Owner self = describe_self();
    bool old;
    if (!directory_open(d, path, err)) return false;
    bool ok = may_take(d, &self, &old, err);
    /* Between opening it and flock, another process may have moved the directory and made a new one (--force). */
    if (ok && !directory_in_place(d, err)) ok = usage_error(err, "%s is in use: it was moved just now", path);
    if (ok && old) unlinkat(d->fd, OWNER_FILE, 0);
    if (ok) ok = make_owner(d, &self, err);
    if (ok) return true;
    *d->owner = 0;
    directory_close(d);
    return false;
}

bool directory_free(const char *path, Error *err) {
    const Owner self = describe_self();
    Directory d;
    bool old;
    if (!directory_open(&d, path, err)) return false;
    const bool ok = may_take(&d, &self, &old, err);
    directory_close(&d);
    return ok;
}

/* Whether `owner` is known to be another process's, or gone. */
static bool is_lost(const Directory *d) {
    char text[OWNER_TEXT];
    if (!read_owner(d->fd, text)) return errno == ENOENT;
    return strcmp(text, d->owner) != 0;
}

bool directory_holds(const Directory *d, Error *err) {
    if (!directory_in_place(d, err)) return false;
    return !*d->owner || !is_lost(d) ||
           runtime_error(err,
                         "%s/" OWNER_FILE " was removed, or replaced by another process, while this one trained: this "
                         "one ends here",
                         d->path);
}

void directory_close(Directory *d) {
    if (*d->owner && !is_lost(d)) unlinkat(d->fd, OWNER_FILE, 0);
    if (d->fd > 0) close(d->fd);
    *d = (Directory){0};
}
