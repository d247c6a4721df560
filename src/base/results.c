/* Where results go. A directory is locked while it is written to, and nothing in it is ever removed: what --force
   replaces is moved aside. Everything that can be refused is refused before anything is written. */
#include "base/results.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/machine.h"

bool run_description_load(Json **run, const char *directory, Error *err) {
    char path[4096];
    *run = NULL;
    if (!path_join(path, sizeof path, directory, "run.json", err)) return false;
    if (!path_exists(path))
        return usage_error(err, "%s is not the directory of a run: it holds no run.json", directory);
    if (!js_load(run, path, "run.json", err)) return false;
    const char *program = js_as_text(js_get(*run, "program"));
    if (program && strcmp(program, "sqrtdk") == 0) return true;
    return usage_error(err, "%s is not a run.json of this program", path);
}

/* Fails when a process trains in one of the runs that a sweep's run.json names. */
static bool lock_runs(const char *path, const Json *runs, Error *err) {
    char run[2 * RESULTS_PATH];
    for (size_t i = 0; i < js_array_size(runs); i++) {
        const char *name = js_as_text(js_get(js_at(runs, i), "name"));
        int lock = -1;
        if (name &&
            (!path_join(run, sizeof run, path, name, err) || (path_exists(run) && !directory_lock(run, &lock, err))))
            return false;
        if (lock >= 0) close(lock);
    }
    return true;
}

/* Puts the directory's path into `path`. A directory that --force has to move is locked: *old_lock. Writes nothing. */
static bool find_place(char path[RESULTS_PATH], const char *out, bool force, int *old_lock, Error *err) {
    bool there;
    struct stat info;
    Json *run;
    if (!results_name(path, RESULTS_PATH, out, 1, err) || !path_find(path, &there, err)) return false;
    if (!there) return true;
    if (!force) return usage_error(err, "%s exists: name another --out, or add --force to replace a run", path);
    if (lstat(path, &info) != 0 || S_ISLNK(info.st_mode))
        return usage_error(err, "%s is a symbolic link, which --force does not move: name the directory itself", path);
    bool ok = run_description_load(&run, path, err) && directory_lock(path, old_lock, err) &&
              lock_runs(path, js_get(run, "runs"), err);
    js_free(run);
    return ok;
}

bool results_check(const char *out, bool force, Error *err) {
    char path[RESULTS_PATH];
    int old_lock = -1;
    bool ok = !out || find_place(path, out, force, &old_lock, err);
    if (old_lock >= 0) close(old_lock);
    return ok;
}

bool results_name(char *out, size_t capacity, const char *wanted, unsigned number, Error *err) {
    size_t name = strlen(wanted);
    while (name > 1 && wanted[name - 1] == '/') name--; /* after "runs/a/" comes "runs/a-2" */
    int length = number == 1 ? snprintf(out, capacity, "%.*s", (int)name, wanted)
                             : snprintf(out, capacity, "%.*s-%u", (int)name, wanted, number);
    return (length > 0 && (size_t)length < capacity) ||
           usage_error(err, "the path of the directory of results is empty or too long: \"%.200s\"", wanted);
}

/* The first name that is free: `wanted`, or one with a number behind it. */
static bool find_free(char path[RESULTS_PATH], const char *wanted, Error *err) {
    bool there = true;
    for (unsigned number = 1; there && number < 1000000; number++)
        if (!results_name(path, RESULTS_PATH, wanted, number, err) || !path_find(path, &there, err)) return false;
    return !there || runtime_error(err, "%s and every numbered name behind it are taken: name another --out", wanted);
}

static bool make_locked(ResultsDirectory *d, Error *err) {
    if (!directory_make(d->path, true, err)) return false;
    if (directory_lock(d->path, &d->lock, err)) return true;
    rmdir(d->path);
    return false;
}

/* Moves the directory that is there, and makes a new one in its place. */
static bool replace(ResultsDirectory *d, Error *err) {
    char wanted[RESULTS_PATH + 8], old[RESULTS_PATH];
    snprintf(wanted, sizeof wanted, "%s.old", d->path);
    if (!find_free(old, wanted, err)) return false;
    if (rename(d->path, old) != 0) return runtime_error(err, "cannot move %s to %s: %s", d->path, old, strerror(errno));
    snprintf(d->note, sizeof d->note, "note: what stood in %s is now in %s", d->path, old);
    if (make_locked(d, err)) return true;
    if (path_exists(d->path) || rename(old, d->path) != 0)
        error_set(err, err->status, "%.400s; %s", err->message, d->note + strlen("note: "));
    return false;
}

static bool make_next(ResultsDirectory *d, const char *log_out, Error *err) {
    do {
        if (!find_free(d->path, log_out, err)) return false;
        if (make_locked(d, err)) return true;
    } while (path_exists(d->path)); /* another process was quicker */
    return false;
}

bool results_make(ResultsDirectory *d, const char *out, const char *log_out, bool force, Error *err) {
    int old_lock = -1;
    *d = (ResultsDirectory){.lock = -1};
    bool ok = out ? find_place(d->path, out, force, &old_lock, err) : make_next(d, log_out, err);
    if (ok && out) ok = old_lock < 0 ? make_locked(d, err) : replace(d, err);
    if (old_lock >= 0) close(old_lock);
    if (!ok) results_release(d);
    return ok;
}

void results_release(ResultsDirectory *d) {
    if (*d->path && d->lock >= 0) close(d->lock);
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
