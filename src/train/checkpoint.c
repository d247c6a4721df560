#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/safetensors.h"

enum { FORMAT = 2, FILE_COUNT = 3 };
static const char MODEL_FILE[] = "model.safetensors", OPTIMIZER_FILE[] = "optimizer.safetensors",
                  STATE_FILE[] = "state.json";
static const size_t STATE_LIMIT = (size_t)1 << 20; /* bytes of state.json */
static const char NO_SLOT = 0, FIRST_SLOT = 'a', SECOND_SLOT = 'b';

/* --- tensors */

/* The arrays of a set, group by group, which the caller frees; NULL without memory. */
static NamedArray *arrays_of(const TensorSet *set, size_t *count, Error *err) {
    *count = set->groups * set->table->count;
    NamedArray *arrays = calloc(*count + 1, sizeof *arrays);
    if (!arrays) error_set(err, STATUS_FAILED, "no memory for a list of tensors");
    for (size_t i = 0; arrays && i < *count; i++) {
        const Tensor *t = &set->table->items[i % set->table->count];
        const size_t group = i / set->table->count;
        arrays[i] = (NamedArray){.type = sizeof(real) == 4 ? ARRAY_F32 : ARRAY_F64,
                                 .dimensions = t->dimensions,
                                 .shape = {t->size[0], t->size[1]},
                                 .data = set->group[group].flat + t->offset};
        snprintf(arrays[i].name, sizeof arrays[i].name, "%s%s", set->group[group].prefix, t->name);
    }
    return arrays;
}

bool tensor_set_save(const char *path, const TensorSet *set, size_t step, Error *err) {
    char number[32];
    size_t count;
    NamedArray *arrays = arrays_of(set, &count, err);
    const Metadata metadata = {"step", number};
    snprintf(number, sizeof number, "%zu", step);
    bool ok = arrays && safetensors_save(path, arrays, count, &metadata, 1, err);
    free(arrays);
    return ok;
}

bool tensor_set_load(const char *path, const TensorSet *set, size_t *step, Error *err) {
    SafetensorsFile file = {0};
    size_t count, limit = size_mul(size_mul(set->groups, set->table->parameters), sizeof(real));
    NamedArray *arrays = arrays_of(set, &count, err);
    bool ok = arrays && safetensors_open(&file, path, limit, err) &&
              safetensors_take(&file, arrays, count, "the model of config.ini and vocab.json", err);
    if (ok) *step = safetensors_metadata_number(&file, "step");
    safetensors_close(&file);
    free(arrays);
    return ok;
}

static TensorSet parameters_of(const Model *model) {
    return (TensorSet){&model->tensors, 1, .group = {{"", model->parameters}}};
}

/* The moments under the names that torch.optim gives them. */
static TensorSet moments_of(const Model *model, const Optimizer *o) {
    if (o->kind == OPTIMIZER_SGD) return (TensorSet){&model->tensors, 1, .group = {{"momentum_buffer.", o->m}}};
    return (TensorSet){&model->tensors, 2, .group = {{"exp_avg.", o->m}, {"exp_avg_sq.", o->v}}};
}

/* --- slots */

/* RUN/checkpoint/NAME, printf-style. */
static void __attribute__((format(printf, 3, 4)))
path_in(char path[4096], const char *directory, const char *format, ...) {
    va_list arguments;
    const size_t length = (size_t)snprintf(path, 4096, "%s/checkpoint/", directory);
    va_start(arguments, format);
    if (length < 4096) vsnprintf(path + length, 4096 - length, format, arguments);
    va_end(arguments);
}

/* The slot that `current` names; NO_SLOT where there is no `current`. */
static bool read_current(const char *directory, char *slot, Error *err) {
    char path[4096], target[8];
    struct stat info;
    path_in(path, directory, "current");
    const ssize_t size = readlink(path, target, sizeof target);
    *slot = NO_SLOT;
    if (size == 1 && (*target == FIRST_SLOT || *target == SECOND_SLOT)) {
        *slot = *target;
        return true;
    }
    if (size >= 0 || errno == EINVAL)
        return error_set(err, STATUS_USAGE,
                         "%s is no symbolic link to a or b: which checkpoint is the last is not known; make it one",
                         path);
    if (errno != ENOENT) return error_set(err, STATUS_FAILED, "cannot read the link %s: %s", path, strerror(errno));
    path_in(path, directory, "%s", MODEL_FILE); /* a link that leads nowhere now; up to version 0.2.0 a file */
    if (stat(path, &info) == 0)
        return error_set(err, STATUS_USAGE,
                         "%s is of another format, 1, which earlier versions wrote; this is sqrtdk %s, format %d", path,
                         SQRTDK_VERSION, FORMAT);
    return errno == ENOENT || error_set(err, STATUS_FAILED, "cannot read %s: %s", path, strerror(errno));
}

bool checkpoint_exists(const char *directory, bool *exists, Error *err) {
    char slot;
    bool ok = read_current(directory, &slot, err);
    *exists = ok && slot != NO_SLOT;
    return ok;
}

static bool make_links(const char *directory, Error *err) {
    static const char *const names[FILE_COUNT] = {MODEL_FILE, OPTIMIZER_FILE, STATE_FILE};
    char path[4096], target[64];
    for (int file = 0; file < FILE_COUNT; file++) {
        path_in(path, directory, "%s", names[file]);
        snprintf(target, sizeof target, "current/%s", names[file]);
        if (symlink(target, path) != 0 && errno != EEXIST)
            return error_set(err, STATUS_FAILED, "cannot make the link %s: %s", path, strerror(errno));
    }
    return true;
}

/* From here on `slot` is what is loaded. */
static bool set_current(const char *directory, char slot, Error *err) {
    char path[4096], new[4096];
    const char target[] = {slot, 0};
    path_in(path, directory, "current");
    path_in(new, directory, "current" FILE_NEW);
    if ((unlink(new) != 0 && errno != ENOENT) || symlink(target, new) != 0 || rename(new, path) != 0)
        return error_set(err, STATUS_FAILED, "cannot write %s: %s", path, strerror(errno));
    return directory_sync(path, err);
}

/* --- state.json */

/* Whether a key must be what it was when a run is resumed: all but these decide what is trained, or what is measured at
   which step, and so what the logs and the pictures hold. */
static bool binds(const char *key) {
    static const char *const free_keys[] = {"data.corpus", /* the text may move; run.json has its fingerprint */
                                            "train.steps", "log.out", "log.checkpoint_every"};
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (strcmp(key, free_keys[i]) == 0) return false;
    return true;
}

static Json *describe(const Config *c, const RunState *s) {
    Json *state = js_object(), *config = js_object(), *logs = js_object();
    for (size_t i = 0; i < config_key_count(); i++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(c, i, value, sizeof value);
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

static bool write_state(const char *path, const Config *config, const RunState *s, Error *err) {
    char *text = NULL;
    Json *state = describe(config, s);
    bool ok = js_dump(state, true, &text, err) && file_write(path, text, strlen(text), err);
    js_free(state);
    free(text);
    return ok;
}

/* What the run was trained with must be what the config says now. */
static bool check_config(const Run *run, const char *path, const Json *config, Error *err) {
    for (size_t i = 0; i < config_key_count(); i++) {
        const char *key = config_key_name(i), *then = js_as_text(js_get(config, key));
        char now[CONFIG_VALUE_MAX];
        config_value_text(&run->config, i, now, sizeof now);
        if (binds(key) && (!then || strcmp(then, now) != 0))
            return error_set(err, STATUS_USAGE,
                             "%s was made with %s = %.100s, and %s/config.ini says %.100s: set it back", path, key,
                             then ? then : "(nothing)", run->directory, now);
    }
    return true;
}

static bool whole_number(const Json *value, size_t *out) {
    int64_t number;
    if (!js_as_integer(value, &number) || number < 0) return false;
    *out = (size_t)number;
    return true;
}

static bool take_state(const Run *run, const char *path, const Json *json, RunState *s, Error *err) {
    size_t format;
    const Json *logs = js_get(json, "logs");
    const char *version = js_as_text(js_get(json, "version"));
    if (!whole_number(js_get(json, "format"), &format) || format != FORMAT)
        return error_set(err, STATUS_USAGE,
                         "%s is of another format (sqrtdk %.20s wrote it); this is sqrtdk %s, format %d", path,
                         version ? version : "?", SQRTDK_VERSION, FORMAT);
    js_as_number(js_get(json, "best_val_loss"), &s->best_val_loss); /* null in the file for INFINITY */
    bool ok = whole_number(js_get(json, "step"), &s->step) && js_as_number(js_get(json, "seconds"), &s->seconds) &&
              whole_number(js_get(json, "best_step"), &s->best_step);
    for (size_t i = 0; ok && i < LOG_COUNT; i++) ok = whole_number(js_get(logs, LOG_NAMES[i]), &s->log_size[i]);
    if (!ok) return error_set(err, STATUS_USAGE, "%s lacks entries that a checkpoint has", path);
    return check_config(run, path, js_get(json, "config"), err);
}

static bool read_state(const Run *run, const char *path, RunState *s, Error *err) {
    char *text = NULL;
    size_t size;
    Json *json = NULL;
    bool ok = file_read(path, "the checkpoint", STATE_LIMIT, STATUS_USAGE, &text, &size, err) &&
              js_parse(text, size, path, &json, err) && take_state(run, path, json, s, err);
    js_free(json);
    free(text);
    return ok;
}

/* --- saving and loading */

static bool fill_slot(const Run *run, char slot, const Model *model, const Optimizer *optimizer, const RunState *s,
                      Error *err) {
    const TensorSet parameters = parameters_of(model), moments = moments_of(model, optimizer);
    char directory[4096], model_path[4096], optimizer_path[4096], state_path[4096];
    path_in(directory, run->directory, "%c", slot);
    path_in(model_path, run->directory, "%c/%s", slot, MODEL_FILE);
    path_in(optimizer_path, run->directory, "%c/%s", slot, OPTIMIZER_FILE);
    path_in(state_path, run->directory, "%c/%s", slot, STATE_FILE);
    return directory_make(directory, false, err) && tensor_set_save(model_path, &parameters, s->step, err) &&
           tensor_set_save(optimizer_path, &moments, s->step, err) && write_state(state_path, &run->config, s, err) &&
           directory_sync(state_path, err) && directory_sync(directory, err);
}

bool checkpoint_save(const Run *run, const Model *model, const Optimizer *optimizer, const RunState *s, Error *err) {
    char checkpoint[4096], path[4096], current;
    if (!read_current(run->directory, &current, err) || !run_path(run, checkpoint, "checkpoint", err)) return false;
    path_in(path, run->directory, "current");
    const char slot = current == FIRST_SLOT ? SECOND_SLOT : FIRST_SLOT;
    /* Before the other slot is written to, `current` is on disk, whatever became of the save that wrote it. */
    if (!make_links(run->directory, err) || !directory_sync(checkpoint, err) || !directory_sync(path, err) ||
        !fill_slot(run, slot, model, optimizer, s, err) || !set_current(run->directory, slot, err))
        return false;
    Error ignored; /* what is left of the other slot, the next save overwrites */
    path_in(path, run->directory, "%c", current);
    if (current != NO_SLOT) directory_remove(path, &ignored);
    return true;
}

bool checkpoint_save_best(const Run *run, const Model *model, size_t step, Error *err) {
    const TensorSet parameters = parameters_of(model);
    char path[4096];
    path_in(path, run->directory, "best.safetensors");
    return tensor_set_save(path, &parameters, step, err);
}

static bool load_tensors(const char *path, const TensorSet *set, const RunState *s, Error *err) {
    size_t step;
    if (!tensor_set_load(path, set, &step, err)) return false;
    return step == s->step ||
           error_set(err, STATUS_USAGE,
                     "%s is not of step %zu, as state.json beside it is: they are of two checkpoints", path, s->step);
}

bool checkpoint_load(const Run *run, Model *model, Optimizer *optimizer, RunState *s, bool *found, Error *err) {
    const TensorSet parameters = parameters_of(model);
    char path[4096], slot;
    *s = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    *found = false;
    if (!read_current(run->directory, &slot, err)) return false;
    if (slot == NO_SLOT) return true;
    *found = true;
    path_in(path, run->directory, "%c/%s", slot, STATE_FILE);
    if (!read_state(run, path, s, err)) return false;
    path_in(path, run->directory, "%c/%s", slot, MODEL_FILE);
    if (!load_tensors(path, &parameters, s, err)) return false;
    if (!optimizer) return true;
    const TensorSet moments = moments_of(model, optimizer);
    path_in(path, run->directory, "%c/%s", slot, OPTIMIZER_FILE);
    return load_tensors(path, &moments, s, err);
}
