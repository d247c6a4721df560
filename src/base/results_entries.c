/* What --force, and resuming a sweep, may remove: what this program writes into a directory of results. */
#include "base/results.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

/* Every name that this program writes into a directory of results, and no other: "name/" is a directory, "name ->
   target" a symbolic link, # a number, @ one of the letters a and b. A file or link may still end in FILE_NEW, when
   writing it was interrupted. A sweep's run.json names its runs: their directories, which hold these names as well, and
   their configs/NAME.ini. */
static const char *const KNOWN[] = {
    "run.json",
    "config.ini",
    "report.html",
    /* a run's */
    "loss.png",
    "vocab.json",
    "metrics.csv",
    "attention.csv",
    "samples.txt",
    "attention/",
    "attention/step#_layer#.png",
    "attention/step#.safetensors",
    "checkpoint/",
    "checkpoint/best.safetensors",
    "checkpoint/current -> @",
    "checkpoint/model.safetensors -> current/model.safetensors",
    "checkpoint/optimizer.safetensors -> current/optimizer.safetensors",
    "checkpoint/state.json -> current/state.json",
    "checkpoint/@/",
    "checkpoint/@/model.safetensors",
    "checkpoint/@/optimizer.safetensors",
    "checkpoint/@/state.json",
    /* a sweep's */
    "configs/",
    "summary.csv",
    "summary.md", /* these, and loss.png, up to version 0.5.0 */
    "entropy.png",
    "score_std.png",
    "qk_norm.png",
    "final.png",
    "attention_compare.png",
    /* theory's */
    "theory.csv",
    "theory.png", /* up to version 0.5.0 */
};

static bool matches(const char *entry, const char *pattern) {
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            size_t digits = strspn(entry, "0123456789");
            if (digits == 0) return false;
            entry += digits;
        } else if (*pattern == '@' ? *entry != 'a' && *entry != 'b' : *entry != *pattern) {
            return false;
        } else {
            entry++;
        }
    }
    return *entry == 0;
}

/* The length of the first name of a path, if it is that of one of the sweep's runs, else 0. */
static size_t run_name(const Json *runs, const char *path) {
    const size_t length = strcspn(path, "/");
    for (size_t i = 0; i < js_array_size(runs); i++) {
        const char *name = js_as_text(js_get(js_at(runs, i), "name"));
        if (name && strlen(name) == length && strncmp(name, path, length) == 0) return length;
    }
    return 0;
}

static bool is_run_config(const Json *runs, const char *entry) {
    char name[1024];
    const size_t length = strlen(entry);
    if (strncmp(entry, "configs/", 8) != 0 || length < 13 || strcmp(entry + length - 4, ".ini") != 0) return false;
    snprintf(name, sizeof name, "%.*s", (int)(length - 12), entry + 8);
    return run_name(runs, name) == length - 12;
}

/* An entry as KNOWN has it, from its name below the directory of results. */
static bool describe_entry(const FTSENT *found, const char *name, char entry[4096], Error *err) {
    char target[1024];
    const mode_t type = found->fts_statp->st_mode;
    size_t length = strlen(name), suffix = strlen(FILE_NEW);
    if (!S_ISDIR(type) && length > suffix && strcmp(name + length - suffix, FILE_NEW) == 0) length -= suffix;
    ssize_t size = S_ISLNK(type) ? readlink(found->fts_path, target, sizeof target - 1) : 0;
    if (size < 0) return failed(err, "cannot read the link %s: %s", found->fts_path, strerror(errno));
    target[size] = 0;
    const char *kind = S_ISREG(type) ? "" : S_ISDIR(type) ? "/" : S_ISLNK(type) ? " -> " : " (no file or directory)";
    snprintf(entry, 4096, "%.*s%s%s", (int)length, name, kind, target);
    return true;
}

static bool check_known(const FTSENT *found, const char *name, const Json *runs, Error *err) {
    char entry[4096];
    if (!describe_entry(found, name, entry, err)) return false;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (matches(entry, KNOWN[i])) return true;
    return is_run_config(runs, entry) ||
           rejected(err, "%s was not written by this program, so it is not removed: move it, or name another --out",
                    found->fts_path);
}

/* A directory whose entries can be removed, and where nobody trains. */
static bool check_directory(const char *path, bool is_run, Error *err) {
    int lock = -1;
    if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0)
        return rejected(err, "nothing in %s can be removed (%s): name another --out", path, strerror(errno));
    if (is_run && !directory_lock(path, &lock, err)) return false;
    if (lock >= 0) close(lock);
    return true;
}

/* `root`: the length of the path of the directory of results and the slash after it. */
static bool check_entry(const FTSENT *found, size_t root, const Json *runs, Error *err) {
    if (found->fts_info == FTS_DP) return true; /* a directory a second time, after its entries */
    if (found->fts_info == FTS_DNR || found->fts_info == FTS_ERR || found->fts_info == FTS_NS)
        return failed(err, "cannot read %s: %s", found->fts_path, strerror(found->fts_errno));
    const char *name = found->fts_level > 0 ? found->fts_path + root : "";
    const size_t run = run_name(runs, name);
    const bool in_run = run > 0 && (name[run] || found->fts_info == FTS_D), is_run = in_run && !name[run];
    if (*name && !is_run && !check_known(found, in_run ? name + run + 1 : name, in_run ? NULL : runs, err))
        return false;
    return found->fts_info != FTS_D || check_directory(found->fts_path, is_run, err);
}

static bool check_entries(const char *directory, const Json *runs, Error *err) {
    char path[RESULTS_PATH];
    if (!results_name(path, sizeof path, directory, 1, err)) return false;
    FTS *tree = fts_open((char *[]){path, NULL}, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    bool ok = tree != NULL;
    for (const FTSENT *found; ok && (found = fts_read(tree));) ok = check_entry(found, strlen(path) + 1, runs, err);
    if (!tree || (ok && errno)) ok = failed(err, "cannot read the directory %s: %s", path, strerror(errno));
    if (tree) fts_close(tree);
    return ok;
}

bool results_hold_only_ours(const char *directory, Error *err) {
    Json *run = NULL;
    bool ours = run_description_load(&run, directory, err);
    if (!ours && err->status == STATUS_USAGE)
        rejected(
            err,
            "%s is not a run of this program (it has no run.json of this program), so it is not removed: move it, or name another --out",
            directory);
    bool ok = ours && check_entries(directory, js_get(run, "runs"), err);
    js_free(run);
    return ok;
}
