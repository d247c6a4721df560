/* Locks on directories. Every call is relative to the open directory, since the directory may be renamed while it is
   locked (--force).

   To take over from an owner that is gone, a process makes a second file with O_EXCL: owner.TOKEN, with the token of
   the old owner. Then it checks that the old owner's file is still there, and renames the new file over it. If this
   process dies in between, it is gone as well: the next process makes a file with the dead process's token, and
   continues from there. So at any time only one process can take over. */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/text.h"

enum { BEAT = 15, SILENT = 300 };                                   /* seconds */
enum { HELD_MAX = 4, CHAIN_MAX = 4, OWNER_TEXT = 1024, NAME = 64 }; /* locks at a time; files of one taking over */

typedef struct {
    int directory;              /* 0: the place is free */
    volatile sig_atomic_t file; /* owner, open, to be touched; 0: none yet */
    bool passed;
    char path[4096], text[OWNER_TEXT], note[1024];
} Held;
static Held held[HELD_MAX];

/* An owner's file as it was found. */
typedef struct {
    Owner owner; /* an empty token: nothing is written in it */
    bool is_there;
    unsigned long long number;
    time_t beat; /* when it was last touched */
} Found;

/* --- the file */

#define FORMAT "host %s\nsystem %s\nprocess %ld\nstart %llu\nfile %llu\njob %s\ntoken %s\n"

bool owner_parse(const char *text, Owner *o) {
    char process[16], start[24], file[24];
    *o = (Owner){0};
    if (sscanf(text, "host %127s system %127s process %10[0-9] start %20[0-9] file %20[0-9] job %63s token %32[0-9a-f]",
               o->host, o->system, process, start, file, o->job, o->token) != 7)
        return false;
    o->process = strtol(process, NULL, 10);
    o->start = strtoull(start, NULL, 10);
    o->file = strtoull(file, NULL, 10);
    return o->process > 0 && o->process <= INT_MAX;
}

/* Writes a word of the file: `text`, or "-" if `text` is not one word. */
static void take_word(char *out, size_t capacity, const char *text) {
    const bool fits = text && *text && strlen(text) < capacity && !strpbrk(text, " \t\n\v\f\r");
    snprintf(out, capacity, "%s", fits ? text : "-");
}

/* Describes this process on this system, with a new token. */
static bool describe_self(Owner *o, Error *err) {
    static const char *const jobs[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    char host[sizeof o->host] = "";
    const char *job = NULL;
    unsigned char random[16];
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs && !job; i++) job = getenv(jobs[i]);
    if (gethostname(host, sizeof host - 1) != 0) *host = 0;
    take_word(o->host, sizeof o->host, host);
    take_word(o->job, sizeof o->job, job);
    system_identity(o->system, sizeof o->system);
    o->process = getpid();
    o->start = process_start(o->process);
    if (getentropy(random, sizeof random) != 0) return runtime_error(err, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(o->token + 2 * i, 3, "%02x", random[i]);
    return true;
}

/* Reads a file of the directory; false, with errno, where that fails. */
static bool read_text(int directory, const char *name, char text[OWNER_TEXT], struct stat *info) {
    const int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t size = fstat(file, info) == 0 ? read(file, text, OWNER_TEXT - 1) : -1;
    const int reason = errno;
    close(file);
    text[size > 0 ? size : 0] = 0;
    errno = reason;
    return size >= 0;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

/* Finds out who owns the file. A process writes the file as soon as it has made it: if a file stays empty for two
   seconds, its process was killed in between. */
static bool find(const char *path, int directory, const char *name, Found *found, Error *err) {
    char text[OWNER_TEXT];
    struct stat info;
    *found = (Found){0};
    for (int tries = 0; tries < 20; tries++) {
        if (!read_text(directory, name, text, &info))
            return errno == ENOENT || usage_error(err, "cannot read %s/%s: %s", path, name, strerror(errno));
        if (*text) break;
        pause_ms(100);
    }
    found->is_there = true;
    found->number = info.st_ino;
    found->beat = info.st_mtime;
    return !*text || owner_parse(text, &found->owner) ||
           usage_error(err, "%s/%s is not what this program writes there: move it away", path, name);
}

static bool is_here(const Owner *o, const Owner *self) {
    return strcmp(o->host, self->host) == 0 &&
           (strcmp(o->system, self->system) == 0 || *o->system == '-' || *self->system == '-');
}

/* Whether the owner is gone. `flocked`: this process has the directory's flock. A living owner on this machine would
   hold it, so a file with another number than the owner wrote is then a copy. */
static bool is_gone(const Found *f, const Owner *self, bool flocked, time_t now) {
    const Owner *o = &f->owner;
    if (!*o->token) return true;
    if (!is_here(o, self)) return now - f->beat > SILENT;
    return !process_lives(o->process, o->start) || (flocked && o->file != f->number);
}

/* "process 123 of node7 (job 45)" */
static const char *owner_text(const Found *f, const Owner *self) {
    static char text[320];
    const Owner *o = &f->owner;
    if (!*o->token) return "another process";
    snprintf(text, sizeof text, "process %ld", o->process);
    if (!is_here(o, self)) text_append(text, sizeof text, " of %s", o->host);
    if (strcmp(o->job, "-") != 0) text_append(text, sizeof text, " (job %s)", o->job);
    return text;
}

static bool in_use(const char *path, const Found *f, const Owner *self, Error *err) {
    usage_error(err, "%s is in use: %s is training there; wait for it, or stop it", path, owner_text(f, self));
    const long long left = (long long)f->beat + SILENT + 1 - (long long)time(NULL);
    if (!*f->owner.token || is_here(&f->owner, self)) return false;
    return usage_error(err, "%s; if it was killed, this works in %lld s", err->message, left > 0 ? left : 1);
}

/* --- taking the directory */

/* Asks for flock. If the owner has ended and its flock is still held, a process that the owner forked is about to
   release it, so this waits for up to two seconds. */
static bool take_flock(const char *path, int directory, const Owner *self, bool *flocked, Error *err) {
    Found f;
    for (int tries = 0;; tries++) {
        *flocked = flock(directory, LOCK_EX | LOCK_NB) == 0;
        if (*flocked || errno != EWOULDBLOCK) return true;
        if (!find(path, directory, OWNER_FILE, &f, err)) return false;
        if (tries == 100 || !*f.owner.token || !is_gone(&f, self, false, time(NULL)))
            return in_use(path, &f, self, err);
        pause_ms(20);
    }
}

/* Makes the file of that name, which must be new, and writes this process into it. Fails with errno. */
static bool make_file(Held *h, const char *name, const Owner *self, struct stat *info) {
    h->file = openat(h->directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (h->file < 0) return false;
    ssize_t written = -1;
    if (fstat(h->file, info) == 0) {
        snprintf(h->text, sizeof h->text, FORMAT, self->host, self->system, self->process, self->start,
                 (unsigned long long)info->st_ino, self->job, self->token);
        written = write(h->file, h->text, strlen(h->text));
    }
    if (written == (ssize_t)strlen(h->text) && written > 0 && fstat(h->file, info) == 0) return true;
    const int reason = written < 0 ? errno : ENOSPC;
    unlinkat(h->directory, name, 0);
    close(h->file);
    errno = reason;
    return false;
}

/* Makes the owner's file, or takes over from one who is gone. */
static bool take(Held *h, const Owner *self, bool flocked, Error *err) {
    char names[CHAIN_MAX][NAME] = {OWNER_FILE};
    struct stat made;
    Found first = {0}, f;
    size_t n = 0;
    while (!make_file(h, names[n], self, &made)) {
        if (errno != EEXIST) return runtime_error(err, "cannot write %s/%s: %s", h->path, names[n], strerror(errno));
        if (!find(h->path, h->directory, names[n], &f, err)) return false;
        if (!f.is_there) continue; /* given back in the meantime */
        if (n == 0) first = f;
        if (!is_gone(&f, self, flocked, time(NULL)) || n + 1 == CHAIN_MAX) return in_use(h->path, &f, self, err);
        snprintf(names[++n], NAME, OWNER_FILE ".%s", f.owner.token);
    }
    if (n == 0) return true;
    /* This machine's clock may be wrong, so the new file's time decides. */
    const bool ok = find(h->path, h->directory, OWNER_FILE, &f, err) && f.is_there &&
                    strcmp(f.owner.token, first.owner.token) == 0 && is_gone(&f, self, flocked, made.st_mtime) &&
                    renameat(h->directory, names[n], h->directory, OWNER_FILE) == 0;
    for (size_t i = ok ? 1 : n; i < n + !ok; i++) unlinkat(h->directory, names[i], 0);
    if (!ok) {
        close(h->file);
        return in_use(h->path, &f, self, err);
    }
    if (*f.owner.token)
        snprintf(h->note, sizeof h->note, "note: %.500s is taken over from %s, %s", h->path, owner_text(&f, self),
                 !is_here(&f.owner, self)                        ? "which was last heard of over five minutes ago"
                 : process_lives(f.owner.process, f.owner.start) ? "of whose directory it is a copy"
                                                                 : "which has ended");
    return true;
}

static void beat(int signal_number) {
    const int reason = errno;
    (void)signal_number;
    for (Held *h = held; h < held + HELD_MAX; h++)
        if (h->file) futimens(h->file, NULL);
    alarm(BEAT);
    errno = reason;
}

static Held *find_held(int directory) {
    Held *h = held;
    while (h < held + HELD_MAX && h->directory != directory) h++;
    return h < held + HELD_MAX ? h : NULL;
}

/* The lock on that directory that this process has passed on (directory_lock_pass); NULL where there is none. */
static Held *find_passed(const struct stat *wanted) {
    struct stat info;
    for (Held *h = held; h < held + HELD_MAX; h++)
        if (h->passed && fstat(h->directory, &info) == 0 && info.st_dev == wanted->st_dev &&
            info.st_ino == wanted->st_ino)
            return h;
    return NULL;
}

/* Opens the directory for a lock, and asks for flock if no lock was passed on. Between these two calls another process
   may have moved the directory and made a new one (--force). */
static bool open_directory(Held *h, const char *path, const Owner *self, bool *flocked, Held **passed, Error *err) {
    struct stat opened, there;
    const Found unknown = {0};
    snprintf(h->path, sizeof h->path, "%s", path);
    h->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h->directory < 0 || fstat(h->directory, &opened) != 0)
        return runtime_error(err, "cannot open the directory %s: %s", path, strerror(errno));
    *passed = find_passed(&opened);
    if (*passed) return true;
    if (!take_flock(path, h->directory, self, flocked, err)) return false;
    return (stat(path, &there) == 0 && opened.st_dev == there.st_dev && opened.st_ino == there.st_ino) ||
           in_use(path, &unknown, self, err);
}

bool directory_lock(const char *path, int *lock, Error *err) {
    Held h = {0}, *place = find_held(0), *passed = NULL;
    Owner self;
    bool flocked = false;
    *lock = -1;
    if (!place) return runtime_error(err, "%s is one directory too many to be locked", path);
    const bool ok = describe_self(&self, err) && open_directory(&h, path, &self, &flocked, &passed, err) &&
                    (passed || take(&h, &self, flocked, err));
    if (passed || !ok) {
        if (h.directory > 0) close(h.directory);
        if (!passed) return false;
        passed->passed = false;
        *lock = passed->directory;
        return true;
    }
    *place = h;
    *lock = h.directory;
    struct sigaction action = {.sa_handler = beat, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    alarm(BEAT);
    return true;
}

bool directory_free(const char *path, Error *err) {
    Held h = {0}, *passed = NULL;
    Owner self;
    Found f = {0};
    bool flocked = false;
    bool ok = describe_self(&self, err) && open_directory(&h, path, &self, &flocked, &passed, err);
    if (ok && !passed)
        ok = find(path, h.directory, OWNER_FILE, &f, err) &&
             (!f.is_there || is_gone(&f, &self, flocked, time(NULL)) || in_use(path, &f, &self, err));
    if (h.directory > 0) close(h.directory);
    return ok;
}

const char *directory_lock_note(int lock) {
    const Held *h = lock > 0 ? find_held(lock) : NULL;
    return h ? h->note : "";
}

void directory_lock_pass(int lock) {
    Held *h = find_held(lock);
    if (h) h->passed = true;
}

/* Finds out who owns the directory now. If the file is gone, the lock is lost; if it cannot be read, the owner is
   unknown. */
typedef enum { OWN, UNKNOWN, LOST } Whose;
static Whose find_whose(const Held *h, Found *now) {
    char text[OWNER_TEXT];
    struct stat info;
    *now = (Found){0};
    if (!read_text(h->directory, OWNER_FILE, text, &info)) return errno == ENOENT ? LOST : UNKNOWN;
    owner_parse(text, &now->owner);
    return strcmp(text, h->text) == 0 ? OWN : LOST;
}

bool directory_locks_hold(Error *err) {
    Found now;
    Owner self;
    for (const Held *h = held; h < held + HELD_MAX; h++)
        if (h->directory && find_whose(h, &now) == LOST && describe_self(&self, err))
            return runtime_error(err, "%s was taken over by %s while this process was suspended: this one ends here",
                                 h->path, owner_text(&now, &self));
    return true;
}

static void forget(Held *h) {
    const Held was = *h;
    *h = (Held){0};
    close(was.file);
    close(was.directory);
}

void directory_unlock(int lock) {
    Held *h = lock > 0 ? find_held(lock) : NULL;
    Found now;
    if (!h) return;
    if (find_whose(h, &now) == OWN) unlinkat(h->directory, OWNER_FILE, 0);
    forget(h);
}

void directory_locks_forget(void) {
    for (Held *h = held; h < held + HELD_MAX; h++)
        if (h->directory) forget(h);
}
