/* Makes directories of results. A directory is locked while it is written to, and nothing in it is ever removed:
   --force moves old results aside. Everything that can be refused is refused before anything is written. */
#include "base/results.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory.h"

Json *run_description_load(const char *directory) {
    char path[PATH_CAPACITY];
    path_join(path, directory, "run.json");
    if (!path_exists(path)) usage_error("%s is not the directory of a run: it holds no run.json", directory);
    Json *run = js_load(path, "run.json");
    const char *program = js_as_text(js_get(run, "program"));
    if (!program || strcmp(program, "sqrtdk") != 0) usage_error("%s is not a run.json of this program", path);
    return run;
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

/* Checks that no process trains in one of the runs that a sweep's run.json names. */
static void check_runs_free(const char *path) {
    char run[PATH_CAPACITY];
    const Json *runs = js_get(run_description_load(path), "runs");
    for (size_t i = 0; i < js_array_size(runs); i++) {
        const char *name = js_as_text(js_get(js_at(runs, i), "name"));
        if (!name) continue;
        path_join(run, path, name);
        if (path_exists(run)) directory_check_free(run);
    }
}

static _Noreturn void in_the_way(const char *path) {
    usage_error("%s exists: name another --out, or add --force to replace a run", path);
}

/* Checks that the path that --out names may be used, or its directory moved. */
static void check_place(const char *path, bool force) {
    struct stat info;
    if (!path_exists(path)) return;
    const bool unused = results_unused(path);
    if (!unused && !force && stat(path, &info) == 0 && S_ISDIR(info.st_mode) && directory_held(path))
        directory_check_free(path); /* the reason of a run that has just begun (--resume, twice at once) */
    if (!unused && !force) in_the_way(path);
    if (!unused && (lstat(path, &info) != 0 || S_ISLNK(info.st_mode)))
        usage_error("%s is a symbolic link, which --force does not move: name the directory itself", path);
    directory_check_free(path);
    if (!unused) check_runs_free(path);
}

/* Checks that numbers can be put behind log.out. */
static void check_name(const char *log_out) {
    const char *slash = strrchr(log_out, '/'), *name = slash ? slash + 1 : log_out;
    path_check_tilde(log_out);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        usage_error("log.out = %s does not end in the name of a directory", log_out);
}

void results_check(const char *out, const char *log_out, bool force) {
    char path[RESULTS_PATH];
    results_name(path, out ? out : log_out, 1);
    if (out) check_place(path, force);
    else check_name(path);
}

void results_name(char out[RESULTS_PATH], const char *wanted, unsigned number) {
    size_t name = strlen(wanted);
    while (name > 1 && wanted[name - 1] == '/') name--; /* after "runs/a/" comes "runs/a-2" */
    int length = number == 1 ? snprintf(out, RESULTS_PATH, "%.*s", (int)name, wanted)
                             : snprintf(out, RESULTS_PATH, "%.*s-%u", (int)name, wanted, number);
    bool fits = length > 0 && length < RESULTS_PATH;
    for (size_t at = 0, part; fits && out[at]; at += strspn(out + at, "/")) {
        part = strcspn(out + at, "/");
        fits = part <= NAME_MAX;
        at += part;
    }
    if (!fits) usage_error("the path of the directory of results is empty or too long: \"%.200s\"", wanted);
}

/* Writes the first name that is free: `wanted`, or one with a number behind it. */
static void find_free(char path[RESULTS_PATH], const char *wanted) {
    for (unsigned number = 1; number < 1000000; number++) {
        results_name(path, wanted, number);
        if (!path_exists(path)) return;
    }
    runtime_error("%s and every numbered name behind it are taken: name another --out", wanted);
}

/* Empties a directory that was made here, if the results do not begin. The block is newer than the lock, so that the
   directory is emptied before it is unlocked. */
static void empty_beginning(void *block) {
    const ResultsDirectory *r = *(ResultsDirectory **)block;
    if (r->made && !r->begun) directory_empty(r->directory->fd);
}

/* Removes the empty directory, and says where the old one is. */
static void remove_place(void *block) {
    const ResultsDirectory *r = block;
    if (r->begun) return;
    if (r->made) rmdir(r->path);
    if (*r->old) error_append("; what stood in %s is now in %s", r->path, r->old);
}

/* Makes the first directory of that name that is free. */
static void make_next(ResultsDirectory *r, const char *log_out) {
    results_name(r->path, log_out, 1);
    check_name(r->path);
    do find_free(r->path, log_out);
    while (!directory_make_new(r->path)); /* until no other process is quicker */
    r->made = true;
    r->directory = directory_lock(r->path);
}

/* Locks the old directory, moves it, and unlocks it. */
static void replace(ResultsDirectory *r) {
    char wanted[RESULTS_PATH + 8], old[RESULTS_PATH];
    const size_t mark = memory_mark();
    directory_lock(r->path);
    snprintf(wanted, sizeof wanted, "%s.old", r->path);
    find_free(old, wanted);
    if (rename(r->path, old) != 0) runtime_error("cannot move %s to %s: %s", r->path, old, strerror(errno));
    memcpy(r->old, old, sizeof old);
    memory_release(mark);
}

/* Makes the directory that --out names, or uses or replaces the one that is there. */
static void make_named(ResultsDirectory *r, const char *out, bool force) {
    results_name(r->path, out, 1);
    check_place(r->path, force);
    if (force && path_exists(r->path) && !results_unused(r->path)) replace(r);
    r->made = directory_make_new(r->path);
    r->directory = directory_lock(r->path);
    if (!r->made && !results_unused(r->path)) in_the_way(r->path); /* from now on it stays so */
}

ResultsDirectory *results_make(const char *out, const char *log_out, bool force) {
    ResultsDirectory *r = memory_make_with_undo(sizeof *r, remove_place, "the directory of results");
    if (out) make_named(r, out, force);
    else make_next(r, log_out);
    ResultsDirectory **beginning = memory_make_with_undo(sizeof(void *), empty_beginning, "the directory of results");
    *beginning = r;
    fclose(file_update(r->directory, "run.json" FILE_NEW)); /* marks it as a beginning */
    return r;
}

void results_begin(ResultsDirectory *r, const Json *description) {
    run_description_save(description, r->directory);
    r->begun = true;
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
    js_set(run, "threads", js_size(threads));
    js_set(run, "start", time_now());
    return run;
}

void run_description_save(const Json *run, const Directory *directory) {
    js_save(run, JS_INDENTED, directory, "run.json");
}
