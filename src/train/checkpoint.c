#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/version.h"
#include "train/tensor_set.h"

enum { FORMAT = 1, FILE_COUNT = 3 };
enum { MODEL_FILE, OPTIMIZER_FILE, STATE_FILE }; /* in the order in which they are written and renamed */
static const char *const FILE_NAMES[FILE_COUNT] = {"model.safetensors", "optimizer.safetensors", "state.json"};
static const size_t STATE_LIMIT = (size_t)1 << 20; /* bytes of state.json */

static bool path_of(const Checkpoint *c, int file, const char *suffix, char path[4096], Error *err) {
    int length = snprintf(path, 4096, "%s/checkpoint/%s%s", c->directory, FILE_NAMES[file], suffix);
    if (length > 0 && length < 4096) return true;
    return error_set(err, STATUS_FAILED, "the path is too long: %.200s/...", c->directory);
}

/* The moments under the names that torch.optim gives them. */
static TensorSet optimizer_set(const Checkpoint *c) {
    const Optimizer *o = c->optimizer;
    if (o->kind == OPTIMIZER_SGD) return (TensorSet){&c->model->tensors, 1, .group = {{"momentum_buffer.", o->m}}};
    return (TensorSet){&c->model->tensors, 2, .group = {{"exp_avg.", o->m}, {"exp_avg_sq.", o->v}}};
}

/* Whether a key decides what is trained. The text may move and logs may change; that train.steps may is the point. */
static bool binds(const char *key) {
    static const char *const sections[] = {"data.", "model.", "attention.", "train."};
    if (strcmp(key, "data.corpus") == 0 || strcmp(key, "train.steps") == 0) return false;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strncmp(key, sections[i], strlen(sections[i])) == 0) return true;
    return false;
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

static bool write_state(const Checkpoint *c, const RunState *s, FILE *stream, Error *err) {
    char *text = NULL;
    Json *state = describe(c, s);
    bool ok = js_dump(state, true, &text, err);
    if (ok) fputs(text, stream);
    js_free(state);
    free(text);
    return ok;
}

static bool write_file(const Checkpoint *c, const RunState *s, int file, FILE *stream, Error *err) {
    const TensorSet model = tensor_set(&c->model->tensors, c->model->parameters), optimizer = optimizer_set(c);
    switch (file) {
    case MODEL_FILE: return tensor_set_write(stream, &model, s->step, err);
    case OPTIMIZER_FILE: return tensor_set_write(stream, &optimizer, s->step, err);
    default: return write_state(c, s, stream, err);
    }
}

bool checkpoint_save(const Checkpoint *c, const RunState *s, Error *err) {
    FileWriter writers[FILE_COUNT];
    char path[4096];
    int written = 0;
    bool ok = true;
    while (ok && written < FILE_COUNT) {
        FileWriter *writer = &writers[written];
        ok = path_of(c, written, "", path, err) && file_writer_open(writer, path, err);
        if (!ok) break;
        written++;
        if (write_file(c, s, written - 1, writer->stream, err))
            ok = file_writer_close(writer, err);
        else
            ok = false;
    }
    for (int i = 0; !ok && i < written; i++) file_writer_abandon(&writers[i]);
    if (!ok) return false;
    directory_sync(path); /* the new names, before the first old file goes */
    for (int i = 0; ok && i < FILE_COUNT; i++) ok = file_writer_rename(&writers[i], err);
    directory_sync(path);
    return ok;
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

/* Whether state.json's new name holds all of a text. If so, the other new files are complete, too: they were before. */
static bool new_state_is_whole(const Checkpoint *c, bool *whole, Error *err) {
    char path[4096];
    Json *state = NULL;
    *whole = false;
    if (!path_of(c, STATE_FILE, FILE_NEW, path, err)) return false;
    if (!path_exists(path)) return true;
    char *text = NULL;
    size_t size;
    if (!file_read(path, "the checkpoint", STATE_LIMIT, STATUS_FAILED, &text, &size, err)) return false;
    *whole = js_parse(text, size, path, &state, err);
    js_free(state);
    free(text);
    return *whole || err->status == STATUS_USAGE; /* which is what a text that was cut short is */
}

/* A checkpoint that was complete but not all in its place when the program was killed gets there now; what is left of
   an incomplete one is removed. */
static bool finish_renaming(const Checkpoint *c, Error *err) {
    char path[4096], new[4096];
    bool whole;
    if (!new_state_is_whole(c, &whole, err)) return false;
    for (int i = 0; i < FILE_COUNT; i++) {
        if (!path_of(c, i, "", path, err) || !path_of(c, i, FILE_NEW, new, err)) return false;
        if (!path_exists(new)) continue;
        if ((whole ? rename(new, path) : unlink(new)) != 0)
            return error_set(err, STATUS_FAILED, "cannot %s %s: %s", whole ? "rename" : "remove", new, strerror(errno));
    }
    directory_sync(path);
    return true;
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

static bool load_tensors(const Checkpoint *c, int file, const TensorSet *set, const RunState *s, Error *err) {
    char path[4096];
    size_t step;
    if (!path_of(c, file, "", path, err) || !tensor_set_load(path, set, &step, err)) return false;
    if (step == s->step) return true;
    return error_set(err, STATUS_USAGE,
                     "%s is not of step %zu, as state.json beside it is: they are of two checkpoints", path, s->step);
}

bool checkpoint_load(const Checkpoint *c, RunState *s, bool *found, Error *err) {
    char path[4096], model[4096];
    Json *json = NULL;
    const TensorSet parameters = tensor_set(&c->model->tensors, c->model->parameters), moments = optimizer_set(c);
    *s = (RunState){.best_val_loss = INFINITY};
    if (!finish_renaming(c, err) || !path_of(c, STATE_FILE, "", path, err) || !path_of(c, MODEL_FILE, "", model, err))
        return false;
    *found = path_exists(path) || path_exists(model);
    if (!*found) return true;
    bool ok = read_json(path, &json, err) && read_state(c, path, json, s, err) &&
              load_tensors(c, MODEL_FILE, &parameters, s, err) && load_tensors(c, OPTIMIZER_FILE, &moments, s, err);
    js_free(json);
    return ok;
}
