#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/results.h"
#include "train/tensor_set.h"

enum { FORMAT = 2, FILE_COUNT = 3 };
enum { MODEL_FILE, OPTIMIZER_FILE, STATE_FILE }; /* in the order in which they are written */
static const char *const FILE_NAMES[FILE_COUNT] = {"model.safetensors", "optimizer.safetensors", "state.json"};
static const size_t STATE_LIMIT = (size_t)1 << 20; /* bytes of state.json */
static const char NO_SLOT = 0, FIRST_SLOT = 'a', SECOND_SLOT = 'b';

/* RUN/checkpoint/NAME, printf-style. */
static bool __attribute__((format(printf, 4, 5)))
path_in(char path[4096], const char *directory, Error *err, const char *format, ...) {
    va_list arguments;
    int length = snprintf(path, 4096, "%s/checkpoint/", directory);
    if (length > 0 && length < 4096) {
        va_start(arguments, format);
        length += vsnprintf(path + length, 4096 - (size_t)length, format, arguments);
        va_end(arguments);
    }
    if (length > 0 && length < 4096) return true;
    return error_set(err, STATUS_FAILED, "the path is too long: %.200s/...", directory);
}

/* Up to version 0.2.0 the three files themselves were in checkpoint/. */
static bool check_not_format_1(const char *directory, Error *err) {
    char path[4096];
    struct stat info;
    for (int file = 0; file < FILE_COUNT; file++) {
        if (!path_in(path, directory, err, "%s", FILE_NAMES[file])) return false;
        if (lstat(path, &info) != 0) {
            if (errno == ENOENT) continue;
            return error_set(err, STATUS_FAILED, "cannot tell what %s is: %s", path, strerror(errno));
        }
        if (!S_ISLNK(info.st_mode))
            return error_set(err, STATUS_USAGE,
                             "%s is of another format, 1, which earlier versions wrote; this is sqrtdk %s, format %d",
                             path, SQRTDK_VERSION, FORMAT);
    }
    return true;
}

/* The slot that `current` names; NO_SLOT where there is no `current`. */
static bool read_current(const char *directory, char *slot, Error *err) {
    char path[4096], target[8];
    *slot = NO_SLOT;
    if (!path_in(path, directory, err, "current")) return false;
    ssize_t size = readlink(path, target, sizeof target);
    if (size < 0 && errno == ENOENT) return check_not_format_1(directory, err);
    if (size < 0 && errno != EINVAL)
        return error_set(err, STATUS_FAILED, "cannot read the link %s: %s", path, strerror(errno));
    if (size != 1 || (*target != FIRST_SLOT && *target != SECOND_SLOT))
        return error_set(err, STATUS_USAGE,
                         "%s is no symbolic link to a or b: which checkpoint is the last is not known; make it one",
                         path);
    *slot = *target;
    return true;
}

bool checkpoint_exists(const char *directory, bool *exists, Error *err) {
    char slot;
    bool ok = read_current(directory, &slot, err);
    *exists = ok && slot != NO_SLOT;
    return ok;
}

/* The moments under the names that torch.optim gives them. */
static TensorSet optimizer_set(const Checkpoint *c) {
    const Optimizer *o = c->optimizer;
    if (o->kind == OPTIMIZER_SGD) return (TensorSet){&c->model->tensors, 1, .group = {{"momentum_buffer.", o->m}}};
    return (TensorSet){&c->model->tensors, 2, .group = {{"exp_avg.", o->m}, {"exp_avg_sq.", o->v}}};
}

/* Whether a key must be what it was when a run is resumed: all but these decide what is trained, or what is measured at
   which step, and so what the logs and the pictures hold. */
static bool binds(const char *key) {
    static const char *const free_keys[] = {"data.corpus", /* the text may move; run.json has its fingerprint */
                                            "train.steps", "log.out", "log.checkpoint_every"};
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (strcmp(key, free_keys[i]) == 0) return false;
    return true;
}

static Json *describe(const Checkpoint *c, const RunState *s) {
    Json *state = js_object(), *config = js_object(), *logs = js_object();
    for (size_t i = 0; i < config_key_count(); i++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(c->config, i, value, sizeof value);
        if (binds(config_key_name(i))) js_set(config, config_key_name(i), js_text(value));
    }
    for (size_t i = 0; i < LOG_COUNT; i++) js_set(logs, LOG_NAMES[i], js_integer((int64_t)s->log_size[i]));
    js_set(state, "program", js_text("sqrtdk"));
    js_set(state, "version", js_text(SQRTDK_VERSION));
    js_set(state, "format", js_integer(FORMAT));
    js_set(state, "step", js_integer((int64_t)s->step));
    js_set(state, "seconds", js_number(s->seconds));
    js_set(state, "best_val_loss", js_number(s->best_val_loss));
    js_set(state, "best_step", js_integer((int64_t)s->best_step));
    js_set(state, "logs", logs);
    js_set(state, "config", config);
    return state;
}

static bool write_state(const Checkpoint *c, const RunState *s, const char *path, Error *err) {
    char *text = NULL;
    Json *state = describe(c, s);
    bool ok = js_dump(state, true, &text, err) && file_write(path, text, strlen(text), err);
    js_free(state);
    free(text);
    return ok;
}

static bool write_file(const Checkpoint *c, const RunState *s, int file, const char *path, Error *err) {
    const TensorSet model = tensor_set(&c->model->tensors, c->model->parameters), optimizer = optimizer_set(c);
    switch (file) {
    case MODEL_FILE: return tensor_set_save(path, &model, s->step, err);
    case OPTIMIZER_FILE: return tensor_set_save(path, &optimizer, s->step, err);
    default: return write_state(c, s, path, err);
    }
}

/* A symbolic link at `path`, which may be there already. */
static bool make_link(const char *target, const char *path, Error *err) {
    char found[256];
    if (symlink(target, path) == 0) return true;
    ssize_t size = errno == EEXIST ? readlink(path, found, sizeof found) : -1;
    if (size == (ssize_t)strlen(target) && memcmp(found, target, (size_t)size) == 0) return true;
    return error_set(err, STATUS_FAILED, "cannot make the link %s: %s", path,
                     strerror(errno == EINVAL ? EEXIST : errno));
}

static bool make_links(const char *directory, Error *err) {
    char path[4096], target[64];
    for (int file = 0; file < FILE_COUNT; file++) {
        snprintf(target, sizeof target, "current/%s", FILE_NAMES[file]);
        if (!path_in(path, directory, err, "%s", FILE_NAMES[file]) || !make_link(target, path, err)) return false;
    }
    return true;
}

/* The slot, empty; and its path. */
static bool make_slot(const Checkpoint *c, char slot, char path[4096], Error *err) {
    if (!path_in(path, c->directory, err, "%c", slot)) return false;
    if (mkdir(path, 0777) == 0) return true;
    if (errno == EEXIST) {
        if (!directory_remove(path, err)) return false;
        if (mkdir(path, 0777) == 0) return true;
    }
    return error_set(err, STATUS_FAILED, "cannot make the directory %s: %s", path, strerror(errno));
}

static bool fill_slot(const Checkpoint *c, const RunState *s, char slot, Error *err) {
    char path[4096];
    if (!make_slot(c, slot, path, err)) return false;
    for (int file = 0; file < FILE_COUNT; file++)
        if (!path_in(path, c->directory, err, "%c/%s", slot, FILE_NAMES[file]) || !write_file(c, s, file, path, err))
            return false;
    return directory_sync(path, err);
}

/* From here on `slot` is what is loaded. */
static bool set_current(const Checkpoint *c, char slot, Error *err) {
    char path[4096], new[4096];
    const char target[] = {slot, 0};
    if (!path_in(path, c->directory, err, "current") || !path_in(new, c->directory, err, "current" FILE_NEW) ||
        !directory_sync(path, err))
        return false;
    if ((unlink(new) != 0 && errno != ENOENT) || symlink(target, new) != 0 || rename(new, path) != 0)
        return error_set(err, STATUS_FAILED, "cannot write %s: %s", path, strerror(errno));
    return directory_sync(path, err);
}

bool checkpoint_save(const Checkpoint *c, const RunState *s, Error *err) {
    char path[4096], current;
    if (!read_current(c->directory, &current, err) || !path_in(path, c->directory, err, "current")) return false;
    char slot = FIRST_SLOT;
    if (current == FIRST_SLOT) slot = SECOND_SLOT;
    /* Before the other slot goes, `current` is on disk, whatever became of the save that wrote it. */
    if (!make_links(c->directory, err) || !directory_sync(path, err) || !fill_slot(c, s, slot, err)) return false;
    path[strlen(path) - strlen("/current")] = 0; /* checkpoint/ itself may be as new as its first slot */
    if ((current == NO_SLOT && !directory_sync(path, err)) || !set_current(c, slot, err)) return false;
    Error ignored; /* what is left of the other slot, the next save removes */
    if (current != NO_SLOT && path_in(path, c->directory, &ignored, "%c", current)) directory_remove(path, &ignored);
    return true;
}

static bool whole_number(const Json *value, size_t *out) {
    int64_t number;
    if (!js_as_integer(value, &number) || number < 0) return false;
    *out = (size_t)number;
    return true;
}

static bool read_json(const char *path, Json **json, Error *err) {
    char *text = NULL;
    size_t size;
    bool ok = file_read(path, "the checkpoint", STATE_LIMIT, STATUS_USAGE, &text, &size, err) &&
              js_parse(text, size, path, json, err);
    free(text);
    return ok;
}

/* What the run was trained with must be what the config says now. */
static bool check_config(const Checkpoint *c, const char *path, const Json *config, Error *err) {
    for (size_t i = 0; i < config_key_count(); i++) {
        const char *key = config_key_name(i), *then = js_as_text(js_get(config, key));
        char now[CONFIG_VALUE_MAX];
        config_value_text(c->config, i, now, sizeof now);
        if (binds(key) && (!then || strcmp(then, now) != 0))
            return error_set(err, STATUS_USAGE,
                             "%s was made with %s = %.100s, and %s/config.ini says %.100s: set it back", path, key,
                             then ? then : "(nothing)", c->directory, now);
    }
    return true;
}

/* By the links, so that checkpoints of format 1, whose files stand in their places, are checked as well. */
bool checkpoint_check_config(const char *directory, const Config *config, Error *err) {
    const Checkpoint c = {.directory = directory, .config = config};
    char path[4096], current[4096];
    Json *json = NULL;
    if (!path_in(current, directory, err, "current") || !path_in(path, directory, err, "%s", FILE_NAMES[STATE_FILE]))
        return false;
    if (access(path, F_OK) != 0 && errno == ENOENT && !path_exists(current))
        return error_set(err, STATUS_USAGE, "%s has no checkpoint yet: ./train resume %s", directory, directory);
    bool ok = read_json(path, &json, err) && check_config(&c, path, js_get(json, "config"), err);
    js_free(json);
    return ok;
}

static bool read_state(const Checkpoint *c, const char *path, const Json *json, RunState *s, Error *err) {
    size_t format;
    const Json *logs = js_get(json, "logs");
    const char *version = js_as_text(js_get(json, "version"));
    if (!whole_number(js_get(json, "format"), &format) || format != FORMAT)
        return error_set(err, STATUS_USAGE,
                         "%s is of another format (sqrtdk %.20s wrote it); this is sqrtdk %s, format %d", path,
                         version ? version : "?", SQRTDK_VERSION, FORMAT);
    s->best_val_loss = INFINITY; /* null in the file */
    js_as_number(js_get(json, "best_val_loss"), &s->best_val_loss);
    bool ok = whole_number(js_get(json, "step"), &s->step) && js_as_number(js_get(json, "seconds"), &s->seconds) &&
              whole_number(js_get(json, "best_step"), &s->best_step);
    for (size_t i = 0; ok && i < LOG_COUNT; i++) ok = whole_number(js_get(logs, LOG_NAMES[i]), &s->log_size[i]);
    if (!ok) return error_set(err, STATUS_USAGE, "%s lacks entries that a checkpoint has", path);
    return check_config(c, path, js_get(json, "config"), err);
}

static bool load_tensors(const Checkpoint *c, char slot, int file, const TensorSet *set, const RunState *s,
                         Error *err) {
    char path[4096];
    size_t step;
    if (!path_in(path, c->directory, err, "%c/%s", slot, FILE_NAMES[file]) || !tensor_set_load(path, set, &step, err))
        return false;
    if (step == s->step) return true;
    return error_set(err, STATUS_USAGE,
                     "%s is not of step %zu, as state.json beside it is: they are of two checkpoints", path, s->step);
}

bool checkpoint_load(const Checkpoint *c, RunState *s, bool *found, Error *err) {
    char path[4096], slot;
    Json *json = NULL;
    const TensorSet parameters = tensor_set(&c->model->tensors, c->model->parameters), moments = optimizer_set(c);
    *s = (RunState){.best_val_loss = INFINITY};
    *found = false;
    if (!read_current(c->directory, &slot, err)) return false;
    if (slot == NO_SLOT) return true;
    *found = true;
    bool ok = path_in(path, c->directory, err, "%c/%s", slot, FILE_NAMES[STATE_FILE]) && read_json(path, &json, err) &&
              read_state(c, path, json, s, err) && load_tensors(c, slot, MODEL_FILE, &parameters, s, err) &&
              load_tensors(c, slot, OPTIMIZER_FILE, &moments, s, err);
    js_free(json);
    return ok;
}
