#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/safetensors.h"

enum { FORMAT = 2 };
static const char MODEL_FILE[] = "model.safetensors", OPTIMIZER_FILE[] = "optimizer.safetensors",
                  STATE_FILE[] = "state.json";
static const char *const SLOTS[] = {"a", "b"};
enum { NO_SLOT = -1 };

/* --- tensors */

/* The tensors of a table, each of them once for each group that has it, from that group's flat array: all tensors,
   those with matrices for Muon, or the others. */
enum { TENSOR_GROUPS_MAX = 3 };
typedef enum { ALL_TENSORS, MUON_TENSORS, OTHER_TENSORS } TensorGroup;
typedef struct {
    const TensorTable *table;
    size_t groups;
    struct {
        const char *prefix; /* in front of the tensors' names: "", "exp_avg." */
        real *flat;
        TensorGroup of;
    } group[TENSOR_GROUPS_MAX];
} TensorSet;

/* The arrays of a set, group by group, which the caller frees; NULL without memory. */
static NamedArray *arrays_of(const TensorSet *set, size_t *count, Error *err) {
    const size_t most = set->groups * set->table->count;
    NamedArray *arrays = calloc(most + 1, sizeof *arrays);
    *count = 0;
    if (!arrays) failed(err, "no memory for a list of tensors");
    for (size_t i = 0; arrays && i < most; i++) {
        const Tensor *t = &set->table->items[i % set->table->count];
        const size_t group = i / set->table->count;
        const TensorGroup of = set->group[group].of;
        if (of != ALL_TENSORS && of != (t->blocks->is_matrix ? MUON_TENSORS : OTHER_TENSORS)) continue;
        NamedArray *array = &arrays[(*count)++];
        *array = (NamedArray){.type = sizeof(real) == 4 ? ARRAY_F32 : ARRAY_F64,
                              .dimensions = t->dimensions,
                              .shape = {t->size[0], t->size[1]},
                              .data = set->group[group].flat + t->offset};
        snprintf(array->name, sizeof array->name, "%s%s", set->group[group].prefix, t->name);
    }
    return arrays;
}

static bool tensor_set_save(const char *path, const TensorSet *set, size_t step, Error *err) {
    char number[32];
    size_t count;
    NamedArray *arrays = arrays_of(set, &count, err);
    const Metadata metadata = {"step", number};
    snprintf(number, sizeof number, "%zu", step);
    bool ok = arrays && safetensors_save(path, arrays, count, &metadata, 1, err);
    free(arrays);
    return ok;
}

/* The file is of the checkpoint whose state is `s`, or the flat arrays stay as they were. */
static bool tensor_set_load(const char *path, const TensorSet *set, const RunState *s, Error *err) {
    SafetensorsFile file = {0};
    size_t count, limit = size_mul(size_mul(set->groups, set->table->parameters), sizeof(real));
    NamedArray *arrays = arrays_of(set, &count, err);
    bool ok = arrays && safetensors_open(&file, path, limit, err) &&
              (safetensors_metadata_number(&file, "step") == s->step ||
               rejected(err, "%s is not of step %zu, as state.json beside it is: they are of two checkpoints", path,
                        s->step)) &&
              safetensors_take(&file, arrays, count, "the model of config.ini and vocab.json", err);
    safetensors_close(&file);
    free(arrays);
    return ok;
}

static TensorSet parameters_of(const Model *model) {
    return (TensorSet){&model->tensors, 1, .group = {{"", model->parameters, ALL_TENSORS}}};
}

/* The moments under the names that torch.optim gives them. */
static TensorSet moments_of(const Model *model, const Optimizer *o) {
    static const char velocity[] = "momentum_buffer.", first[] = "exp_avg.", second[] = "exp_avg_sq.";
    const TensorTable *all = &model->tensors;
    if (o->kind == OPTIMIZER_SGD) return (TensorSet){all, 1, .group = {{velocity, o->m, ALL_TENSORS}}};
    if (o->kind == OPTIMIZER_ADAMW)
        return (TensorSet){all, 2, .group = {{first, o->m, ALL_TENSORS}, {second, o->v, ALL_TENSORS}}};
    return (TensorSet){
        all, 3, .group = {{velocity, o->m, MUON_TENSORS}, {first, o->m, OTHER_TENSORS}, {second, o->v, OTHER_TENSORS}}};
}

/* --- slots */

/* The number of the slot that `current` names; NO_SLOT where there is no `current`. */
static bool read_current(const char *directory, int *slot, Error *err) {
    char path[4096], target[8];
    struct stat info;
    *slot = NO_SLOT;
    if (!path_join(path, sizeof path, directory, "checkpoint/current", err)) return false;
    const ssize_t size = readlink(path, target, sizeof target);
    if (size == 1 && (*target == 'a' || *target == 'b')) {
        *slot = *target - 'a';
        return true;
    }
    if (size >= 0 || errno == EINVAL)
        return rejected(
            err,
            "%s is not a symbolic link to a or b, so the last checkpoint is unknown; make it a link to the newer of the two",
            path);
    if (errno != ENOENT) return failed(err, "cannot read the link %s: %s", path, strerror(errno));
    /* Now a link that leads nowhere, or nothing; up to version 0.2.0 the file itself. */
    if (!path_join(path, sizeof path, directory, "checkpoint/model.safetensors", err)) return false;
    if (stat(path, &info) == 0)
        return rejected(err, "%s is of another format, 1, which earlier versions wrote; this is sqrtdk %s, format %d",
                        path, SQRTDK_VERSION, FORMAT);
    return errno == ENOENT || failed(err, "cannot read %s: %s", path, strerror(errno));
}

bool checkpoint_exists(const char *directory, bool *exists, Error *err) {
    int slot;
    bool ok = read_current(directory, &slot, err);
    *exists = ok && slot != NO_SLOT;
    return ok;
}

/* The links for readers, in `directory`, which is RUN/checkpoint. */
static bool make_links(const char *directory, Error *err) {
    static const char *const names[] = {MODEL_FILE, OPTIMIZER_FILE, STATE_FILE};
    char path[4096], target[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(target, sizeof target, "current/%s", names[i]);
        if (!path_join(path, sizeof path, directory, names[i], err)) return false;
        if (symlink(target, path) != 0 && errno != EEXIST)
            return failed(err, "cannot make the link %s: %s", path, strerror(errno));
    }
    return true;
}

/* From here on `slot` is what is loaded. */
static bool set_current(const char *directory, const char *slot, Error *err) {
    char path[4096], new[4096];
    if (!path_join(path, sizeof path, directory, "current", err) ||
        !path_join(new, sizeof new, directory, "current" FILE_NEW, err))
        return false;
    if ((unlink(new) != 0 && errno != ENOENT) || symlink(slot, new) != 0 || rename(new, path) != 0)
        return failed(err, "cannot write %s: %s", path, strerror(errno));
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
    char divisor[64];
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
    scale_text(config_divisor(c, s->step), divisor, sizeof divisor);
    js_set(state, "divisor", js_text(divisor));
    js_set(state, "best_val_loss", js_number(s->best_val_loss));
    js_set(state, "best_step", js_integer((int64_t)s->best_step));
    js_set(state, "logs", logs);
    js_set(state, "config", config);
    return state;
}

/* What the run was trained with must be what the config says now. */
static bool check_config(const Run *run, const char *path, const Json *config, Error *err) {
    for (size_t i = 0; i < config_key_count(); i++) {
        const char *key = config_key_name(i), *then = js_as_text(js_get(config, key));
        char now[CONFIG_VALUE_MAX];
        config_value_text(&run->config, i, now, sizeof now);
        /* A program that had no such key yet did what is now its default. */
        if (binds(key) && (then ? strcmp(then, now) != 0 : !config_is_default(&run->config, i)))
            return rejected(err, "%s was made with %s = %.100s, and %s/config.ini says %.100s: set it back", path, key,
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
        return rejected(err, "%s is of another format (sqrtdk %.20s wrote it); this is sqrtdk %s, format %d", path,
                        version ? version : "?", SQRTDK_VERSION, FORMAT);
    js_as_number(js_get(json, "best_val_loss"), &s->best_val_loss); /* null in the file for INFINITY */
    bool ok = whole_number(js_get(json, "step"), &s->step) && js_as_number(js_get(json, "seconds"), &s->seconds) &&
              whole_number(js_get(json, "best_step"), &s->best_step);
    for (size_t i = 0; ok && i < LOG_COUNT; i++) ok = whole_number(js_get(logs, LOG_NAMES[i]), &s->log_size[i]);
    if (!ok) return rejected(err, "%s lacks entries that a checkpoint has", path);
    return check_config(run, path, js_get(json, "config"), err);
}

static bool read_state(const Run *run, const char *path, RunState *s, Error *err) {
    Json *json;
    const bool ok = js_load(&json, path, "the checkpoint", err) && take_state(run, path, json, s, err);
    js_free(json);
    return ok;
}

/* --- saving and loading */

/* The files of a checkpoint in `slot`, a directory, over what is there; on disk when it returns true. */
static bool fill_slot(const char *slot, const Run *run, const Model *model, const Optimizer *optimizer,
                      const RunState *s, Error *err) {
    const TensorSet parameters = parameters_of(model), moments = moments_of(model, optimizer);
    char path[4096];
    return directory_make(slot, false, err) && path_join(path, sizeof path, slot, MODEL_FILE, err) &&
           tensor_set_save(path, &parameters, s->step, err) &&
           path_join(path, sizeof path, slot, OPTIMIZER_FILE, err) && tensor_set_save(path, &moments, s->step, err) &&
           path_join(path, sizeof path, slot, STATE_FILE, err) &&
           js_save(describe(&run->config, s), JS_INDENTED, path, err) && directory_sync(path, err) &&
           directory_sync(slot, err);
}

bool checkpoint_save(const Run *run, const Model *model, const Optimizer *optimizer, const RunState *s, Error *err) {
    char directory[4096], slots[2][4096];
    int current;
    if (!read_current(run->directory, &current, err) || !run_path(run, directory, "checkpoint", err) ||
        !path_join(slots[0], sizeof slots[0], directory, SLOTS[0], err) ||
        !path_join(slots[1], sizeof slots[1], directory, SLOTS[1], err))
        return false;
    const int next = current == 0 ? 1 : 0;
    /* Before the other slot is written to, `current` is on disk, whatever became of the save that wrote it. */
    if (!make_links(directory, err) || !directory_sync(directory, err) || !directory_sync(slots[0], err) ||
        !fill_slot(slots[next], run, model, optimizer, s, err) || !set_current(directory, SLOTS[next], err))
        return false;
    Error ignored; /* what is left of the old slot, the next save overwrites */
    if (current != NO_SLOT) directory_remove(slots[current], &ignored);
    return true;
}

bool checkpoint_save_best(const Run *run, const Model *model, size_t step, Error *err) {
    const TensorSet parameters = parameters_of(model);
    char path[4096];
    return run_path(run, path, "checkpoint/best.safetensors", err) && tensor_set_save(path, &parameters, step, err);
}

bool checkpoint_load(const Run *run, Model *model, Optimizer *optimizer, RunState *s, bool *found, Error *err) {
    const TensorSet parameters = parameters_of(model), moments = optimizer ? moments_of(model, optimizer) : parameters;
    char path[4096];
    *s = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    if (!checkpoint_exists(run->directory, found, err)) return false;
    if (!*found) return true;
    if (!run_path(run, path, "checkpoint/current/state.json", err) || !read_state(run, path, s, err)) return false;
    attention_set_step(&model->shape.attention, &run->config, s->step);
    return run_path(run, path, "checkpoint/current/model.safetensors", err) &&
           tensor_set_load(path, &parameters, s, err) &&
           (!optimizer || (run_path(run, path, "checkpoint/current/optimizer.safetensors", err) &&
                           tensor_set_load(path, &moments, s, err)));
}
