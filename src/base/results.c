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

static bool has_checkpoint(const char *directory) {
    char path[4096];
    Error ignored;
    return path_join(path, sizeof path, directory, "checkpoint/last.safetensors", &ignored) && path_exists(path);
}

bool run_description_load(Json **run, const char *directory, Error *err) {
    char path[4096];
    *run = NULL;
    if (!path_join(path, sizeof path, directory, "run.json", err)) return false;
    if (!path_exists(path) && has_checkpoint(directory) && !results_unused(directory))
        return usage_error(
            err, "%s is the directory of a run, but lacks run.json: put that file back, or move the directory away",
            directory);
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

/* The files of a new directory before it has results. run.json.new is made before all others and removed after them. */
static const char *const FIRST_FILES[] = {"config.ini",  "vocab.json",    "metrics.csv",
                                          "samples.txt", "attention.csv", "checkpoint/last.safetensors",
                                          "checkpoint",  "theory.csv",    "run.json"};
enum { FIRST_COUNT = sizeof FIRST_FILES / sizeof *FIRST_FILES };

/* Whether a name is one of FIRST_FILES, perhaps with the suffix of a file that is being written. */
static bool is_first_file(const char *name) {
    for (size_t i = 0; i < FIRST_COUNT; i++) {
        const size_t length = strlen(FIRST_FILES[i]);
        if (strncmp(name, FIRST_FILES[i], length) == 0 && (!name[length] || strcmp(name + length, FILE_NEW) == 0))
            return true;
    }
    return false;
}

static void remove_first_files(const char *directory) {
    char path[RESULTS_PATH + 32];
    for (size_t i = 0; i < FIRST_COUNT; i++) {
        snprintf(path, sizeof path, "%s/%s" FILE_NEW, directory, FIRST_FILES[i]);
        (void)remove(path);
        path[strlen(path) - strlen(FILE_NEW)] = 0;
        (void)remove(path);
    }
}

bool results_unused(const char *path) {
    DIR *directory = opendir(path);
    size_t files = 0;
    bool first = directory != NULL, begun = false;
    for (struct dirent *entry; first && (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (strncmp(entry->d_name, OWNER_FILE, strlen(OWNER_FILE)) == 0) continue;
        files++;
        begun = begun || strcmp(entry->d_name, "run.json" FILE_NEW) == 0;
        first = is_first_file(entry->d_name) && strcmp(entry->d_name, "run.json") != 0;
    }
    if (directory) closedir(directory);
    return first && (files == 0 || begun);
}

/* A path that goes through "." or ".." could lead elsewhere once the directory has been moved. */
static bool resolve(char path[RESULTS_PATH], Error *err) {
    char *resolved = strstr(path, "/.") || *path == '.' ? realpath(path, NULL) : NULL;
    const bool fits = !resolved || strlen(resolved) < RESULTS_PATH;
    if (resolved && fits) snprintf(path, RESULTS_PATH, "%s", resolved);
    free(resolved);
    return fits || usage_error(err, "the path of the directory of results is too long: %s", path);
}

/* Locks the directory. If `lock` is NULL, only checks whether it can be locked. */
static bool enter(const char *path, int *lock, Error *err) {
    return lock ? directory_lock(path, lock, err) : directory_free(path, err);
}

/* Whether --force may move what is there: one of our directories, that no process holds. It is locked: *lock. */
static bool may_move(const char *path, int *lock, Error *err) {
    Json *run;
    struct stat info;
    if (lstat(path, &info) != 0 || S_ISLNK(info.st_mode))
        return usage_error(err, "%s is a symbolic link, which --force does not move: name the directory itself", path);
    /* locked first: the directory that another process has just made there is empty */
    if (S_ISDIR(info.st_mode) && !enter(path, lock, err)) return false;
    const bool ok = (run_description_load(&run, path, err) || has_checkpoint(path)) &&
                    runs_are_free(path, js_get(run, "runs"), err);
    js_free(run);
    return ok;
}

static bool in_the_way(const char *path, Error *err) {
    return usage_error(err, "%s exists: name another --out, or add --force to replace a run", path);
}

/* Puts the directory's path into `path`. If it exists, it is locked: *lock. If `lock` is NULL, nothing is written. */
static bool find_place(char path[RESULTS_PATH], const char *out, bool force, int *lock, Error *err) {
    bool there;
    if (!results_name(path, RESULTS_PATH, out, 1, err) || !path_find(path, &there, err)) return false;
    if (!there) return true;
    if (results_unused(path)) return enter(path, lock, err);
    if (!force) return in_the_way(path, err);
    return may_move(path, lock, err) && resolve(path, err);
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

static void hold(ResultsDirectory *d, int lock) {
    d->lock = lock;
    if (!*d->note) snprintf(d->note, sizeof d->note, "%s", directory_lock_note(lock));
}

bool results_enter(ResultsDirectory *d, Error *err) {
    int lock;
    if (!directory_lock(d->path, &lock, err)) return false;
    hold(d, lock);
    return true;
}

static bool make_locked(ResultsDirectory *d, Error *err) {
    if (!directory_make(d->path, true, err)) return false;
    if (results_enter(d, err)) return true;
    rmdir(d->path);
    return false;
}

/* Moves what stood at the path back there. */
static void move_back(ResultsDirectory *d, Error *err) {
    if (*d->old && (path_exists(d->path) || rename(d->old, d->path) != 0))
        error_set(err, err->status, "%s; what stood in %s is now in %s", err->message, d->path, d->old);
}

/* Moves the directory that is there, and makes a new one in its place. */
static bool replace(ResultsDirectory *d, Error *err) {
    char wanted[RESULTS_PATH + 8], old[RESULTS_PATH];
    snprintf(wanted, sizeof wanted, "%s.old", d->path);
    if (!find_free(old, wanted, err)) return false;
    if (rename(d->path, old) != 0) return runtime_error(err, "cannot move %s to %s: %s", d->path, old, strerror(errno));
    memcpy(d->old, old, sizeof old);
    snprintf(d->note, sizeof d->note, "note: what stood in %s is now in %s", d->path, old);
    if (make_locked(d, err)) return true;
    move_back(d, err);
    return false;
}

static void leave(ResultsDirectory *d) {
    if (d->beginning.stream) fclose(d->beginning.stream);
    directory_unlock(d->lock);
}

void results_abandon(ResultsDirectory *d, Error *err) {
    if (!*d->path) return;
    remove_first_files(d->path);
    leave(d);
    if (!d->was_there) rmdir(d->path);
    move_back(d, err);
    *d = (ResultsDirectory){0};
}

static bool make_next(ResultsDirectory *d, const char *log_out, Error *err) {
    if (!results_name(d->path, RESULTS_PATH, log_out, 1, err)) return false;
    const char *slash = strrchr(d->path, '/'), *name = slash ? slash + 1 : d->path;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return usage_error(err, "log.out = %s does not end in the name of a directory", log_out);
    do {
        if (!find_free(d->path, log_out, err)) return false;
        if (make_locked(d, err)) return true;
    } while (path_exists(d->path)); /* another process was quicker */
    return false;
}

/* Makes the directory that --out names, or takes or replaces what is there. */
static bool make_named(ResultsDirectory *d, const char *out, bool force, Error *err) {
    int lock = -1;
    bool ok = find_place(d->path, out, force, &lock, err);
    if (ok && lock < 0) return make_locked(d, err);
    if (ok && results_unused(d->path)) { /* it has been locked since, so it stays so */
        remove_first_files(d->path);
        d->was_there = true;
        hold(d, lock);
        return true;
    }
    if (ok) ok = force ? replace(d, err) : in_the_way(d->path, err);
    directory_unlock(lock);
    return ok;
}

bool results_make(ResultsDirectory *d, const char *out, const char *log_out, bool force, Error *err) {
    char path[4096];
    *d = (ResultsDirectory){.lock = -1};
    if (!(out ? make_named(d, out, force, err) : make_next(d, log_out, err))) {
        results_release(d);
        return false;
    }
    if (path_join(path, sizeof path, d->path, "run.json", err) && file_writer_open(&d->beginning, path, err))
        return true;
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
    if (*d->path) leave(d);
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
