#include "base/results_entries.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/results.h"

/* Every name that this program writes into a directory of results, and no other: "name/" is a directory, "name ->
   target" a symbolic link, # a number. A file or link may also wait under its new name (FILE_NEW). A sweep's run.json
   names its arms: their directories, which hold a run's names, and their configs/NAME.ini. */
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
        } else if (*pattern != *entry++) {
            return false;
        }
    }
    return *entry == 0;
}

/* Whether an entry is before an arm's name and behind it ("configs/" NAME ".ini"). */
static bool is_of_arm(const Json *arms, const char *entry, const char *before, const char *behind) {
    char expected[1024];
    for (size_t i = 0; i < js_array_size(arms); i++) {
        const char *arm = js_as_text(js_get(js_at(arms, i), "name"));
        if (!arm) continue;
        int length = snprintf(expected, sizeof expected, "%s%s%s", before, arm, behind);
        if (length > 0 && (size_t)length < sizeof expected && strcmp(expected, entry) == 0) return true;
    }
    return false;
}

static bool is_known(const Json *arms, const char *entry) {
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (matches(entry, KNOWN[i])) return true;
    return is_of_arm(arms, entry, "configs/", ".ini");
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

/* A sweep, an arm, its checkpoint, a slot of that: known directories are no deeper. */
enum { DEPTH_MAX = 8 };

/* The directories from the one of results down to that which is being read. */
typedef struct {
    const Json *arms;
    char path[4096]; /* of the entry, or the directory, that is looked at */
    size_t depth;
    struct {
        DIR *stream;
        size_t length; /* of its path, without a slash */
        size_t run;    /* where in the path the names begin that KNOWN lists: below the results, or below an arm */
    } open[DEPTH_MAX];
} Walk;

/* Opens the directory at w->path, whose entries must be removable. */
static bool descend(Walk *w, size_t run, Error *err) {
    if (faccessat(AT_FDCWD, w->path, W_OK | X_OK, AT_EACCESS) != 0)
        return error_set(err, STATUS_USAGE, "nothing in %s can be removed: %s; change that, or name another --out",
                         w->path, strerror(errno));
    DIR *stream = w->depth < DEPTH_MAX ? opendir(w->path) : NULL;
    if (!stream)
        return error_set(err, STATUS_FAILED, "cannot read the directory %s: %s", w->path,
                         strerror(w->depth < DEPTH_MAX ? errno : ENAMETOOLONG));
    w->open[w->depth].stream = stream;
    w->open[w->depth].length = strlen(w->path);
    w->open[w->depth++].run = run;
    return true;
}

/* The entry at w->path; a known directory is opened. Only the sweep's own directory has arms. */
static bool check_entry(Walk *w, Error *err) {
    struct stat info;
    char entry[4096];
    const size_t run = w->open[w->depth - 1].run;
    const char *name = w->path + run;
    const Json *arms = run == w->open[0].run ? w->arms : NULL;
    if (lstat(w->path, &info) != 0)
        return error_set(err, STATUS_FAILED, "cannot tell what %s is: %s", w->path, strerror(errno));
    if (S_ISDIR(info.st_mode) && is_of_arm(arms, name, "", ""))
        return nobody_in(w->path, err) && descend(w, strlen(w->path) + 1, err);
    if (!describe_entry(w->path, name, info.st_mode, entry, err)) return false;
    if (!is_known(arms, entry))
        return error_set(
            err, STATUS_USAGE,
            "%s is nothing that this program writes there, so it is not removed: move it, or name another --out",
            w->path);
    return !S_ISDIR(info.st_mode) || descend(w, run, err);
}

/* Puts the next entry of the innermost directory into w->path; leaves the directory where there is none. */
static bool next_entry(Walk *w, bool *found, Error *err) {
    const size_t length = w->open[w->depth - 1].length;
    w->path[length] = 0;
    errno = 0;
    const struct dirent *next = readdir(w->open[w->depth - 1].stream);
    *found = next && strcmp(next->d_name, ".") != 0 && strcmp(next->d_name, "..") != 0;
    if (!next && errno)
        return error_set(err, STATUS_FAILED, "cannot read the directory %s: %s", w->path, strerror(errno));
    if (!next) closedir(w->open[--w->depth].stream);
    if (!*found) return true;
    int size = snprintf(w->path + length, sizeof w->path - length, "/%s", next->d_name);
    return (size > 0 && (size_t)size < sizeof w->path - length) ||
           error_set(err, STATUS_FAILED, "the path is too long: %.200s...", w->path);
}

static bool check_entries(const char *directory, const Json *arms, Error *err) {
    Walk w = {.arms = arms};
    size_t length = strlen(directory);
    if (length >= sizeof w.path) return error_set(err, STATUS_FAILED, "the path is too long: %.200s...", directory);
    memcpy(w.path, directory, length + 1);
    bool found, ok = descend(&w, length + 1, err);
    while (ok && w.depth > 0) ok = next_entry(&w, &found, err) && (!found || check_entry(&w, err));
    while (w.depth > 0) closedir(w.open[--w.depth].stream);
    return ok;
}

bool results_hold_only_ours(const char *directory, Error *err) {
    Json *run = NULL;
    bool ours = run_description_load(&run, directory, err);
    if (!ours && err->status == STATUS_USAGE)
        error_set(
            err, STATUS_USAGE,
            "%s is not a run of this program (it holds no run.json of ours), so it is not removed: move it, or name another --out",
            directory);
    bool ok = ours && check_entries(directory, js_get(run, "runs"), err);
    js_free(run);
    return ok;
}
