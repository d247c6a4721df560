#include "base/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/machine.h"

static const char SUFFIX[] = ".old";

/* Whether `directory` is the working directory or above it, or the system does not say where these are. */
static bool holds_us(const char *directory) {
    char *here = getcwd(NULL, 0), *there = realpath(directory, NULL);
    size_t length = there ? strlen(there) : 0;
    bool holds = !here || !there ||
                 (strncmp(here, there, length) == 0 && (here[length] == 0 || here[length] == '/' || length == 1));
    free(here);
    free(there);
    return holds;
}

bool run_description_load(Json **run, const char *directory, Error *err) {
    char path[4096];
    *run = NULL;
    if (!path_join(path, sizeof path, directory, "run.json", err)) return false;
    if (!path_exists(path)) return rejected(err, "%s is not the directory of a run: it holds no run.json", directory);
    if (!js_load(run, path, "run.json", err)) return false;
    const char *program = js_as_text(js_get(*run, "program"));
    if (program && strcmp(program, "sqrtdk") == 0) return true;
    return rejected(err, "%s is not a run.json of this program", path);
}

bool results_set_aside(const char *path, char old[RESULTS_PATH]) {
    Error ignored;
    if (!results_name(old, RESULTS_PATH - sizeof SUFFIX, path, 1, &ignored)) return false;
    memcpy(old + strlen(old), SUFFIX, sizeof SUFFIX);
    return path_exists(old);
}

/* Whether what is at `path` may be replaced; then its lock is held. */
static bool lock_replaceable(const char *path, int *lock, Error *err) {
    struct stat info;
    if (lstat(path, &info) != 0) return failed(err, "cannot determine what %s is: %s", path, strerror(errno));
    if (S_ISLNK(info.st_mode))
        return rejected(err, "%s is a symbolic link, which --force does not replace: name the directory itself", path);
    if (holds_us(path))
        return rejected(
            err, "%s is or holds the directory you are in, so --force does not replace it: name another --out", path);
    return results_hold_only_ours(path, err) && directory_lock(path, lock, err);
}

/* Names the directory, and what it has to replace, which is locked then. Writes nothing. */
static bool find_place(ResultsDirectory *d, const char *wanted, bool force, Error *err) {
    char old[RESULTS_PATH];
    bool there;
    *d = (ResultsDirectory){.lock = -1, .replaced_lock = -1};
    if (!results_name(d->path, sizeof d->path - sizeof SUFFIX, wanted, 1, err) || !path_find(d->path, &there, err))
        return false;
    if (there && !force) return rejected(err, "%s exists: name another --out, or add --force to replace it", d->path);
    if (force && results_set_aside(d->path, old))
        return rejected(err, "%s is there, left by an interrupted --force: move it back to %s, or remove it", old,
                        d->path);
    if (!there) return true;
    if (!lock_replaceable(d->path, &d->replaced_lock, err)) return false;
    memcpy(d->replaced, old, sizeof old);
    return true;
}

bool results_check(const char *wanted, bool named, bool force, Error *err) {
    ResultsDirectory d;
    if (!named) return true;
    bool ok = find_place(&d, wanted, force, err);
    results_release(&d);
    return ok;
}

bool results_name(char *out, size_t capacity, const char *wanted, unsigned number, Error *err) {
    size_t name = strlen(wanted);
    while (name > 1 && wanted[name - 1] == '/') name--; /* the next to "runs/a/" is "runs/a-2" */
    int length = number == 1 ? snprintf(out, capacity, "%.*s", (int)name, wanted)
                             : snprintf(out, capacity, "%.*s-%u", (int)name, wanted, number);
    return (length >= 0 && (size_t)length < capacity) ||
           rejected(err, "the path of the directory of results is too long: %.200s...", wanted);
}

static bool make_locked(ResultsDirectory *d, Error *err) {
    if (!directory_make(d->path, true, err)) return false;
    if (directory_lock(d->path, &d->lock, err)) return true;
    rmdir(d->path);
    return false;
}

static bool make_named(ResultsDirectory *d, const char *wanted, bool force, Error *err) {
    if (!find_place(d, wanted, force, err)) return false;
    if (*d->replaced && rename(d->path, d->replaced) != 0)
        return failed(err, "cannot move %s to %s: %s", d->path, d->replaced, strerror(errno));
    if (make_locked(d, err)) return true;
    if (*d->replaced && rename(d->replaced, d->path) != 0)
        error_set(err, err->status, "%.400s; the old results are in %s", err->message, d->replaced);
    return false;
}

static bool make_next(ResultsDirectory *d, const char *wanted, Error *err) {
    *d = (ResultsDirectory){.lock = -1, .replaced_lock = -1};
    for (unsigned n = 1; n < 1000000; n++) {
        bool there;
        if (!results_name(d->path, sizeof d->path, wanted, n, err) || !path_find(d->path, &there, err)) return false;
        if (there) continue;
        if (make_locked(d, err)) return true;
        if (!path_exists(d->path)) return false; /* else another process was quicker */
    }
    return failed(err, "%s and every numbered name behind it are taken: name another --out", wanted);
}

bool results_make(ResultsDirectory *d, const char *wanted, bool named, bool force, Error *err) {
    bool ok = named ? make_named(d, wanted, force, err) : make_next(d, wanted, err);
    if (!ok) results_release(d);
    return ok;
}

bool results_keep(ResultsDirectory *d, Error *err) {
    if (!*d->replaced) return true;
    bool ok =
        directory_sync(d->path, err) && results_hold_only_ours(d->replaced, err) && directory_remove(d->replaced, err);
    *d->replaced = 0;
    return ok;
}

void results_withdraw(ResultsDirectory *d, Error *err) {
    Error ignored;
    if (!*d->replaced) return;
    if ((!path_exists(d->path) || directory_remove(d->path, &ignored)) && rename(d->replaced, d->path) == 0)
        error_set(err, err->status, "%.600s; %.300s was restored", err->message, d->path);
    else
        error_set(err, err->status, "%.600s; the old results are in %.300s", err->message, d->replaced);
    *d->replaced = 0;
}

void results_release(ResultsDirectory *d) {
    if (*d->path && d->lock >= 0) close(d->lock);
    if (*d->path && d->replaced_lock >= 0) close(d->replaced_lock);
    *d = (ResultsDirectory){0};
}

Json *time_now(void) {
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    const size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return js_text(length ? text : "unknown");
}

Json *run_description(const char *command_line, size_t threads) {
    Json *run = js_object(), *machine = js_object();
    struct utsname system;
    char cpu[64];
    if (uname(&system) != 0) system = (struct utsname){.sysname = "unknown", .machine = "unknown"};
    cpu_name(cpu, sizeof cpu);
    js_set(machine, "processor", js_text(cpu));
    js_set(machine, "instructions", js_text(cpu_level_name(cpu_level())));
    js_set(machine, "processors", js_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    js_set(machine, "system", js_text(system.sysname));
    js_set(machine, "architecture", js_text(system.machine));
    js_set(run, "program", js_text("sqrtdk"));
    js_set(run, "version", js_text(SQRTDK_VERSION));
    js_set(run, "command", js_text(command_line));
    js_set(run, "machine", machine);
    js_set(run, "threads", js_integer((int64_t)threads));
    js_set(run, "start", time_now());
    return run;
}

bool run_description_save(Json *run, const char *directory, Error *err) {
    char path[4096];
    return path_join(path, sizeof path, directory, "run.json", err) && js_save(js_copy(run), JS_INDENTED, path, err);
}
