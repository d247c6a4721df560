/* Where results go. A directory is locked while it is written to, and nothing in it is ever removed: what --force
   replaces is moved aside. Everything that can be refused is refused before anything is written. */
#include "base/results.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/machine.h"
#include "base/text.h"

bool run_description_load(Json **run, const char *directory, Error *err) {
    char path[4096];
    *run = NULL;
    if (!path_join(path, sizeof path, directory, "run.json", err)) return false;
    if (!path_exists(path))
        return usage_error(err, "%s is not the directory of a run: it holds no run.json", directory);
    if (!js_load(run, path, "run.json", err)) return false;
    const char *program = js_as_text(js_get(*run, "program"));
    if (program && strcmp(program, "sqrtdk") == 0) return true;
    js_free(*run);
    *run = NULL;
    return usage_error(err, "%s is not a run.json of this program", path);
}

/* Fails when a process trains in one of the runs that a sweep's run.json names. */
static bool runs_are_free(const char *path, const Json *runs, Error *err) {
    char run[2 * RESULTS_PATH];
    for (size_t i = 0; i < js_array_size(runs); i++) {
        const char *name = js_as_text(js_get(js_at(runs, i), "name"));
        if (name && (!path_join(run, sizeof run, path, name, err) || (path_exists(run) && !directory_free(run, err))))
            return false;
    }
    return true;
}

bool results_unused(const char *path) {
    DIR *directory = opendir(path);
    bool empty = true, begun = false, has_results = false;
    if (!directory) return false;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, OWNER_FILE) == 0) continue;
        empty = false;
        begun = begun || strcmp(name, "run.json" FILE_NEW) == 0;
        has_results = has_results || strcmp(name, "run.json") == 0;
    }
    const bool all_read = errno == 0;
    closedir(directory);
    return all_read && (empty || begun) && !has_results;
}

/* A path that goes through "." or ".." could lead elsewhere once the directory has been moved. */
static bool resolve(char path[RESULTS_PATH], Error *err) {
    char *resolved = strstr(path, "/.") || *path == '.' ? realpath(path, NULL) : NULL;
    const bool fits = !resolved || strlen(resolved) < RESULTS_PATH;
    if (resolved && fits) snprintf(path, RESULTS_PATH, "%s", resolved);
    free(resolved);
    return fits || usage_error(err, "the path of the directory of results is too long: %s", path);
}

/* Locks the directory. If `into` is NULL, only checks whether it can be locked. */
static bool enter(const char *path, Directory *into, Error *err) {
    return into ? directory_lock(into, path, err) : directory_free(path, err);
}

/* Whether --force may move what is there: one of our directories, that no process holds. It is locked. */
static bool may_move(const char *path, Directory *into, Error *err) {
    Json *run;
    struct stat info;
    if (lstat(path, &info) != 0 || S_ISLNK(info.st_mode))
        return usage_error(err, "%s is a symbolic link, which --force does not move: name the directory itself", path);
    /* locked first: the directory that another process has just made there is empty */
    if (S_ISDIR(info.st_mode) && !enter(path, into, err)) return false;
    const bool ok = run_description_load(&run, path, err) && runs_are_free(path, js_get(run, "runs"), err);
    js_free(run);
    return ok;
}

static bool in_the_way(const char *path, Error *err) {
    return usage_error(err, "%s exists: name another --out, or add --force to replace a run", path);
}

/* Puts the directory's path into `path`. If it exists, it is locked. If `into` is NULL, nothing is written. */
static bool find_place(char path[RESULTS_PATH], const char *out, bool force, Directory *into, Error *err) {
    bool there;
    if (!results_name(path, RESULTS_PATH, out, 1, err) || !path_find(path, &there, err)) return false;
    if (!there) return true;
    if (results_unused(path)) return enter(path, into, err);
    if (!force) return in_the_way(path, err);
    return may_move(path, into, err) && resolve(path, err);
}

bool results_check(const char *out, bool force, Error *err) {
    char path[RESULTS_PATH];
    return !out || find_place(path, out, force, NULL, err);
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

static bool make_locked(Directory *d, const char *path, Error *err) {
    if (!directory_make(path, true, err)) return false;
    if (directory_lock(d, path, err)) return true;
    rmdir(path);
    return false;
}

/* Moves what stood at the path back there. */
static void move_back(const char *path, const char *old, Error *err) {
    if (*old && (path_exists(path) || rename(old, path) != 0))
        error_set(err, err->status, "%s; what stood in %s is now in %s", err->message, path, old);
}

/* Moves the directory that is there, and makes a new one in its place. */
static bool replace(ResultsDirectory *d, const char *path, Error *err) {
    char wanted[RESULTS_PATH + 8], old[RESULTS_PATH];
    snprintf(wanted, sizeof wanted, "%s.old", path);
    if (!find_free(old, wanted, err)) return false;
    if (rename(path, old) != 0) return runtime_error(err, "cannot move %s to %s: %s", path, old, strerror(errno));
    memcpy(d->old, old, sizeof old);
    if (make_locked(&d->directory, path, err)) return true;
    move_back(path, old, err);
    return false;
}

void results_abandon(ResultsDirectory *d, Error *err) {
    const ResultsDirectory was = *d;
    const char *path = was.directory.path;
    Error ignored;
    if (!*path) return;
    if (!was.was_there) directory_empty(was.directory.fd);
    const bool in_place = directory_in_place(&was.directory, &ignored);
    results_release(d);
    if (!was.was_there && in_place) rmdir(path);
    move_back(path, was.old, err);
}

static bool make_next(ResultsDirectory *d, const char *log_out, Error *err) {
    char path[RESULTS_PATH];
    if (!results_name(path, sizeof path, log_out, 1, err)) return false;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return usage_error(err, "log.out = %s does not end in the name of a directory", log_out);
    do {
        if (!find_free(path, log_out, err)) return false;
        if (make_locked(&d->directory, path, err)) return true;
    } while (path_exists(path)); /* another process was quicker */
    return false;
}

/* Makes the directory that --out names, or takes or replaces what is there. */
static bool make_named(ResultsDirectory *d, const char *out, bool force, Error *err) {
    char path[RESULTS_PATH];
    Directory there = {0};
    bool ok = find_place(path, out, force, &there, err);
    if (ok && !there.fd) return make_locked(&d->directory, path, err);
    if (ok && results_unused(path)) { /* it has been locked since, so it stays so */
        d->was_there = true;
        d->directory = there;
        return true;
    }
    if (ok) ok = force ? replace(d, path, err) : in_the_way(path, err);
    directory_close(&there);
    return ok;
}

bool results_make(ResultsDirectory *d, const char *out, const char *log_out, bool force, Error *err) {
    *d = (ResultsDirectory){0};
    if (!(out ? make_named(d, out, force, err) : make_next(d, log_out, err))) {
        *d = (ResultsDirectory){0};
        return false;
    }
    if (file_writer_open(&d->beginning, &d->directory, "run.json", err)) return true;
    results_abandon(d, err);
    return false;
}

bool results_begin(ResultsDirectory *d, const Json *description, Error *err) {
    char *text;
    if (!js_dump(description, JS_INDENTED, &text, err)) return false;
    fputs(text, d->beginning.stream);
    free(text);
    return file_writer_commit(&d->beginning, err);
}

void results_release(ResultsDirectory *d) {
    file_writer_close(&d->beginning);
    directory_close(&d->directory);
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

bool run_description_save(Json *run, const Directory *directory, Error *err) {
    return js_save(js_copy(run), JS_INDENTED, directory, "run.json", err);
}
