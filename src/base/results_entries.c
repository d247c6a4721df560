#include "base/results_entries.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/results.h"

/* Every name that this program writes into a directory of results, and no other: "name/" is a directory, "name ->
   target" a symbolic link, # a number, * any text. A file or link may also wait under its new name (FILE_NEW). The
   directories of a sweep's arms are named by its run.json and hold a run's names. */
static const char *const KNOWN[] = {
    "run.json",
    "config.ini",
    "report.html",
    "loss.png",
    /* a run's */
    "vocab.json",
    "metrics.csv",
    "attention.csv",
    "samples.txt",
    "attention/",
    "attention/step#_layer#.png",
    "attention/step#.safetensors",
    "checkpoint/",
    "checkpoint/best.safetensors",
    "checkpoint/current -> a",
    "checkpoint/current -> b",
    "checkpoint/model.safetensors -> current/model.safetensors",
    "checkpoint/optimizer.safetensors -> current/optimizer.safetensors",
    "checkpoint/state.json -> current/state.json",
    "checkpoint/a/",
    "checkpoint/a/model.safetensors",
    "checkpoint/a/optimizer.safetensors",
    "checkpoint/a/state.json",
    "checkpoint/b/",
    "checkpoint/b/model.safetensors",
    "checkpoint/b/optimizer.safetensors",
    "checkpoint/b/state.json",
    "checkpoint/model.safetensors", /* these three up to version 0.2.0 */
    "checkpoint/optimizer.safetensors",
    "checkpoint/state.json",
    /* a sweep's */
    "configs/",
    "configs/*.ini",
    "summary.csv",
    "summary.md",
    "entropy.png",
    "score_std.png",
    "qk_norm.png",
    "final.png",
    "attention_compare.png",
    /* theory's */
    "theory.csv",
    "theory.png",
};

static bool matches(const char *entry, const char *pattern) {
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            size_t digits = strspn(entry, "0123456789");
            if (digits == 0) return false;
            entry += digits;
        } else if (*pattern == '*') {
            size_t length = strlen(entry), rest = strlen(pattern + 1);
            if (length <= rest || strchr(entry, '/')) return false;
            entry += length - rest;
        } else if (*pattern != *entry++) {
            return false;
        }
    }
    return *entry == 0;
}

static bool is_known(const char *entry) {
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (matches(entry, KNOWN[i])) return true;
    return false;
}

static bool is_arm(const Json *arms, const char *name) {
    for (size_t i = 0; i < js_array_size(arms); i++) {
        const char *arm = js_as_text(js_get(js_at(arms, i), "name"));
        if (arm && strcmp(arm, name) == 0) return true;
    }
    return false;
}

/* An entry as KNOWN has it, from its name below the directory of results. */
static bool describe_entry(const char *path, const char *name, mode_t type, char entry[4096], Error *err) {
    char target[1024];
    size_t length = strlen(name), suffix = strlen(FILE_NEW);
    if (!S_ISDIR(type) && length > suffix && strcmp(name + length - suffix, FILE_NEW) == 0) length -= suffix;
    ssize_t size = S_ISLNK(type) ? readlink(path, target, sizeof target - 1) : 0;
    if (size < 0) return error_set(err, STATUS_FAILED, "cannot read the link %s: %s", path, strerror(errno));
    target[size] = 0;
    snprintf(entry, 4096, "%.*s%s%s", (int)length, name,
             S_ISREG(type)   ? ""
             : S_ISDIR(type) ? "/"
             : S_ISLNK(type) ? " -> "
                             : " (neither file nor directory)",
             target);
    return true;
}

static bool nobody_in(const char *directory, Error *err) {
    int lock;
    if (!directory_lock(directory, &lock, err)) return false;
    if (lock >= 0) close(lock);
    return true;
}

static bool check_entries(const char *directory, const char *within, const Json *arms, Error *err);

/* `name` is the entry's below the directory of results. `arms` NULL: no arm is expected. */
static bool check_entry(const char *path, const char *name, const Json *arms, Error *err) {
    struct stat info;
    char entry[4096];
    if (lstat(path, &info) != 0)
        return error_set(err, STATUS_FAILED, "cannot tell what %s is: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode) && is_arm(arms, name)) return nobody_in(path, err) && check_entries(path, "", NULL, err);
    if (!describe_entry(path, name, info.st_mode, entry, err)) return false;
    if (!is_known(entry))
        return error_set(
            err, STATUS_USAGE,
            "%s is nothing that this program writes there, so --force does not remove it: move it, or name another --out",
            path);
    return !S_ISDIR(info.st_mode) || check_entries(path, entry, NULL, err);
}

/* `within`: "", or the directory's own entry ("attention/"). */
static bool check_entries(const char *directory, const char *within, const Json *arms, Error *err) {
    char path[4096], name[512];
    bool ok = true;
    DIR *stream = opendir(directory);
    if (!stream) return error_set(err, STATUS_FAILED, "cannot read the directory %s: %s", directory, strerror(errno));
    while (ok) {
        errno = 0;
        const struct dirent *found = readdir(stream);
        if (!found && errno)
            ok = error_set(err, STATUS_FAILED, "cannot read the directory %s: %s", directory, strerror(errno));
        if (!found) break;
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) continue;
        snprintf(name, sizeof name, "%s%s", within, found->d_name);
        ok = path_join(path, sizeof path, directory, found->d_name, err) && check_entry(path, name, arms, err);
    }
    closedir(stream);
    return ok;
}

bool results_hold_only_ours(const char *directory, Error *err) {
    Json *run = NULL;
    bool ours = run_description_load(&run, directory, err);
    if (!ours && err->status == STATUS_USAGE)
        error_set(
            err, STATUS_USAGE,
            "%s is not a run of this program (it holds no run.json of ours), so --force does not replace it: name another --out",
            directory);
    bool ok = ours && check_entries(directory, "", js_get(run, "arms"), err);
    js_free(run);
    return ok;
}
