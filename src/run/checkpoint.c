/* Saving and loading checkpoints: the tensors of the file, the state in its metadata, and at the end the file as a
   whole. Every entry of a file is compared with the config, the table of tensors and the logs (logs_resume) before it
   is used. */
#include "run/checkpoint.h"

#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "ops/update.h"

enum { FORMAT = 3 }; /* of the state: it changes when the meaning of an entry or a key changes */
const char *const CHECKPOINT_NAMES[] = {
    [CHECKPOINT_LAST] = "checkpoint/last.safetensors", [CHECKPOINT_BEST] = "checkpoint/best.safetensors"};

/* --- tensors */

typedef struct {
    NamedArray *items; /* the parameters, by the table, and then the moments */
    size_t count;
} ArrayList;

/* Returns whether a tensor has one moment, a velocity; the others have AdamW's two. */
static bool has_velocity(OptimizerKind kind, const Tensor *t) {
    return OPTIMIZERS[kind].moments == 1 || (OPTIMIZERS[kind].muon && t->blocks->is_matrix);
}

static void add_array(ArrayList *list, const char *prefix, const Tensor *t, real *flat) {
    NamedArray *array = &list->items[list->count++];
    *array = (NamedArray){.type = sizeof(real) == 4 ? ARRAY_F32 : ARRAY_F64,
                          .dimensions = t->dimensions,
                          .shape = {t->size[0], t->size[1]},
                          .data = flat ? flat + t->offset : NULL};
    snprintf(array->name, sizeof array->name, "%s%s", prefix, t->name);
}

/* Lists all arrays of a file, the moments under the names that torch.optim gives them. If moments are NULL, their
   entries in the file are checked, but their numbers are not read. */
static ArrayList list_arrays(OptimizerKind kind, Checkpoint which, const Model *model, Moments moments) {
    const Tensor *tensors = model->tensors.items;
    const size_t count = model->tensors.count;
    ArrayList list = {memory_make(3 * count, sizeof *list.items, "a list of tensors"), 0};
    for (size_t i = 0; i < count; i++) add_array(&list, "", &tensors[i], model->parameters);
    if (which == CHECKPOINT_BEST) return list;
    for (size_t i = 0; i < count; i++)
        if (has_velocity(kind, &tensors[i])) add_array(&list, "momentum_buffer.", &tensors[i], moments.first);
    for (size_t i = 0; i < count; i++)
        if (!has_velocity(kind, &tensors[i])) add_array(&list, "exp_avg.", &tensors[i], moments.first);
    for (size_t i = 0; i < count; i++)
        if (!has_velocity(kind, &tensors[i])) add_array(&list, "exp_avg_sq.", &tensors[i], moments.second);
    return list;
}

/* Checks that all numbers are finite and no second moment is below 0. The file is whole, so any other number comes
   from training. */
static void check_numbers(const SafetensorsFile *file, const ArrayList *list) {
    static const char squares[] = "exp_avg_sq.";
    for (size_t i = 0; i < list->count; i++) {
        const NamedArray *a = &list->items[i];
        const real *numbers = a->data;
        const size_t count = numbers ? named_array_bytes(a) / sizeof *numbers : 0;
        const double least = strncmp(a->name, squares, strlen(squares)) == 0 ? 0 : -INFINITY;
        for (size_t j = 0; j < count; j++)
            if (!isfinite((double)numbers[j]) || (double)numbers[j] < least)
                usage_error("%s: the tensor %s has a %s in it, to which training has brought it: train anew with a "
                            "smaller train.lr",
                            file->path, a->name,
                            isfinite((double)numbers[j]) ? "number below 0" : "NaN or an infinity");
    }
}

/* --- the state */

/* Returns whether a key must have the value of the checkpoint when a run is resumed. All must, except a few that do
   not change what is trained, or what is measured at a step. */
static bool must_match(const char *key) {
    static const char *const keys_that_may_change[] = {
        "data.corpus",  /* the text may move; run.json has its fingerprint */
        "train.engine", /* both engines compute the same, to rounding */
        "train.steps",  "log.out", "log.checkpoint_every", "log.page_model"};
    for (size_t i = 0; i < sizeof keys_that_may_change / sizeof *keys_that_may_change; i++)
        if (strcmp(key, keys_that_may_change[i]) == 0) return false;
    return true;
}

static Json *state_json(const Config *c, const RunState *s) {
    Json *state = js_object(), *config = js_object(), *logs = js_object();
    for (size_t i = 0; i < config_key_count(); i++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(c, i, value, sizeof value);
        if (must_match(config_key_name(i))) js_set(config, config_key_name(i), js_text(value));
    }
    for (size_t i = 0; i < LOG_COUNT; i++) js_set(logs, LOG_NAMES[i], js_size(s->log_size[i]));
    js_set(state, "format", js_integer(FORMAT));
    js_set(state, "version", js_text(SQRTDK_VERSION));
    js_set(state, "step", js_size(s->step));
    js_set(state, "seconds", js_number(s->seconds));
    js_set(state, "logs", logs);
    js_set(state, "config", config);
    return state;
}

static size_t whole_number(const char *path, const Json *object, const char *key) {
    int64_t number;
    if (!js_as_integer(js_get(object, key), &number) || number < 0)
        usage_error("%s is damaged: \"%s\" in its state is not a whole number", path, key);
    return (size_t)number;
}

static bool is_key(const char *name) {
    size_t i = 0;
    while (i < config_key_count() && strcmp(config_key_name(i), name) != 0) i++;
    return i < config_key_count();
}

/* Refuses keys of the checkpoint's config that this version does not have: they may change what is computed. */
static void check_keys(const char *path, const char *version, const Json *config) {
    if (js_object_size(config) == 0) usage_error("%s is damaged: its state has no \"config\"", path);
    for (size_t i = 0; i < js_object_size(config); i++) {
        const char *key = js_object_key(config, i), *value = js_as_text(js_get(config, key));
        if (!value) usage_error("%s is damaged: \"%.100s\" in its state is not a text", path, key);
        if (!is_key(key))
            usage_error("%s was made with %.100s = %.100s by sqrtdk %.40s, and sqrtdk %s has no such key: "
                        "continue the run with that version",
                        path, key, value, version ? version : "?", SQRTDK_VERSION);
    }
}

/* Compares the config that the checkpoint was made with, key by key, with config.ini. A key that the checkpoint lacks
   had its default: the version that wrote it had no such key. */
static void compare_config(const Run *run, const char *path, const Json *config) {
    for (size_t i = 0; i < config_key_count(); i++) {
        const char *key = config_key_name(i), *then = js_as_text(js_get(config, key));
        char now[CONFIG_VALUE_MAX], initial[CONFIG_VALUE_MAX];
        if (!must_match(key)) continue;
        config_value_text(&run->config, i, now, sizeof now);
        if (!then) {
            config_default_text(&run->config, i, initial, sizeof initial);
            then = initial;
        }
        if (strcmp(then, now) != 0)
            usage_error("%s was made with %s = %.100s, and %s/config.ini says %.100s: set it back", path, key, then,
                        run->directory, now);
    }
}

static RunState read_state(const Run *run, const SafetensorsFile *file) {
    const char *path = file->path, *text = safetensors_metadata(file, "state");
    RunState s = {.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    if (!text) usage_error("%s is no checkpoint: it has no state in its metadata", path);
    const Json *state = js_parse(text, strlen(text), path), *logs = js_get(state, "logs"),
               *config = js_get(state, "config");
    const size_t format = whole_number(path, state, "format");
    if (format != FORMAT)
        usage_error("%s was made by another version of sqrtdk, in format %zu; this is %s, which reads %d: "
                    "continue the run with that version",
                    path, format, SQRTDK_VERSION, FORMAT);
    s.step = whole_number(path, state, "step");
    if (!js_as_number(js_get(state, "seconds"), &s.seconds) || !(s.seconds >= 0 && s.seconds < 1e10))
        usage_error("%s is damaged: \"seconds\" in its state is not a duration", path);
    for (size_t i = 0; i < LOG_COUNT; i++) s.log_size[i] = whole_number(path, logs, LOG_NAMES[i]);
    check_keys(path, js_as_text(js_get(state, "version")), config);
    compare_config(run, path, config);
    return s;
}

/* --- saving and loading */

void checkpoint_write(FILE *out, const Config *c, Checkpoint which, const Model *model, Moments moments,
                      const RunState *s) {
    const size_t mark = memory_mark();
    const char *state = js_dump(state_json(c, s), JS_LINE);
    const ArrayList list = list_arrays(c->train.optimizer, which, model, moments);
    safetensors_write(out, list.items, list.count, &(Metadata){"state", state}, 1);
    memory_release(mark);
}

void checkpoint_save(const Run *run, Checkpoint which, const Model *model, Moments moments, const RunState *s) {
    if (which == CHECKPOINT_LAST) run_compare_parameters(model, s->step);
    if (!run->locked) return;
    FileWriter *writer = file_writer_open(run->locked, CHECKPOINT_NAMES[which]);
    checkpoint_write(writer->stream, &run->config, which, model, moments, s);
    file_writer_commit(writer);
}

RunState checkpoint_load(const Run *run, Checkpoint which, Model *model, Moments moments) {
    const size_t mark = memory_mark();
    char path[PATH_CAPACITY];
    path_join(path, run->directory, CHECKPOINT_NAMES[which]);
    const ArrayList list = list_arrays(run->config.train.optimizer, which, model, moments);
    const SafetensorsFile file = safetensors_open(path, size_mul(size_mul(3, model->tensors.parameters), sizeof(real)));
    const RunState s = read_state(run, &file);
    safetensors_take(&file, list.items, list.count, "the model of config.ini and vocab.json");
    check_numbers(&file, &list);
    memory_release(mark);
    attention_set_divisor(&model->shape.attention, &run->config, s.step);
    return s;
}
