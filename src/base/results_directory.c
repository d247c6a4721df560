#include "base/results_directory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/files.h"
#include "base/version.h"

/* Whether `directory` is the working directory or above it. */
static bool holds_us(const char *directory) {
    char *here = getcwd(NULL, 0), *there = realpath(directory, NULL);
    size_t length = there ? strlen(there) : 0;
    bool holds =
        here && there && strncmp(here, there, length) == 0 && (here[length] == 0 || here[length] == '/' || length == 1);
    free(here);
    free(there);
    return holds;
}

bool run_description_load(Json **run, const char *directory, Error *err) {
    char path[4096], *text = NULL;
    size_t size;
    *run = NULL;
    if (!path_join(path, sizeof path, directory, "run.json", err)) return false;
    if (!path_exists(path))
        return error_set(err, STATUS_USAGE, "%s is not the directory of a run: it holds no run.json", directory);
    bool ok = file_read(path, "run.json", (size_t)1 << 20, STATUS_USAGE, &text, &size, err) &&
              js_parse(text, size, path, run, err);
    const char *program = ok ? js_as_text(js_get(*run, "program")) : NULL;
    free(text);
    if (!ok || (program && strcmp(program, "sqrtdk") == 0)) return ok;
    return error_set(err, STATUS_USAGE, "%s is not a run.json of this program", path);
}

static bool is_our_run(const char *directory) {
    Json *run;
    Error ignored;
    bool ours = run_description_load(&run, directory, &ignored);
    js_free(run);
    return ours;
}

bool run_directory_check(const char *wanted, bool named, bool force, Error *err) {
    if (!named || !path_exists(wanted)) return true;
    if (!force)
        return error_set(err, STATUS_USAGE, "%s exists: name another --out, or add --force to replace a run", wanted);
    if (holds_us(wanted))
        return error_set(err, STATUS_USAGE,
                         "%s is or holds the directory you are in, so --force does not replace it: name another --out",
                         wanted);
    if (!is_our_run(wanted))
        return error_set(
            err, STATUS_USAGE,
            "%s is not a run of this program (it holds no run.json of ours), so --force does not replace it: name another --out",
            wanted);
    int lock;
    if (!directory_lock(wanted, &lock, err)) return false;
    if (lock >= 0) close(lock);
    return true;
}

bool run_directory_name(char *out, size_t capacity, const char *wanted, unsigned number, Error *err) {
    size_t name = strlen(wanted);
    while (name > 1 && wanted[name - 1] == '/') name--; /* the next to "runs/a/" is "runs/a-2" */
    int length = number == 1 ? snprintf(out, capacity, "%.*s", (int)name, wanted)
                             : snprintf(out, capacity, "%.*s-%u", (int)name, wanted, number);
    return (length >= 0 && (size_t)length < capacity) ||
           error_set(err, STATUS_USAGE, "the path of the run directory is too long: %.200s...", wanted);
}

bool run_directory_make(char *out, size_t capacity, const char *wanted, bool named, bool force, Error *err) {
    if (!run_directory_check(wanted, named, force, err)) return false;
    if (named && path_exists(wanted) && !directory_remove(wanted, err)) return false;
    for (unsigned number = 1; number < 1000000; number++) {
        if (!run_directory_name(out, capacity, wanted, number, err)) return false;
        if (!named && path_exists(out)) continue;
        if (directory_make(out, true, err)) return true;
        if (named || !path_exists(out)) return false; /* else another run was quicker */
    }
    return error_set(err, STATUS_FAILED, "%s and every numbered name behind it are taken: name another --out", wanted);
}

Json *time_now(void) {
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    bool known = gmtime_r(&now, &utc) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0;
    return js_text(known ? text : "unknown");
}

Json *run_description(const char *command_line, size_t threads) {
    Json *run = js_object(), *machine = js_object();
    struct utsname system;
    char cpu[64];
    cpu_name(cpu, sizeof cpu);
    js_set(machine, "processor", js_text(cpu));
    js_set(machine, "instructions", js_text(cpu_level_name(cpu_level())));
    js_set(machine, "processors", js_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    js_set(machine, "system", js_text(uname(&system) == 0 ? system.sysname : "unknown"));
    js_set(machine, "architecture", js_text(uname(&system) == 0 ? system.machine : "unknown"));
    js_set(run, "program", js_text("sqrtdk"));
    js_set(run, "version", js_text(SQRTDK_VERSION));
    js_set(run, "command", js_text(command_line));
    js_set(run, "machine", machine);
    js_set(run, "threads", js_integer((int64_t)threads));
    js_set(run, "start", time_now());
    return run;
}

bool run_description_save(const Json *description, const char *directory, Error *err) {
    char path[4096], *text = NULL;
    bool ok = path_join(path, sizeof path, directory, "run.json", err) && js_dump(description, true, &text, err) &&
              file_write(path, text, strlen(text), err);
    free(text);
    return ok;
}
