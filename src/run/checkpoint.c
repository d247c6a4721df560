/* Saving and loading checkpoints: the tensors of the file, the state in its metadata, and at the end the file as a
   whole. Nothing that a file says is believed before it is compared with the config, the table of tensors and the logs
   (logs_resume). */
#include "run/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"

enum { FORMAT = 3 }; /* of the state; another number means another version of the program */
static const char *const NAMES[] = {
    [CHECKPOINT_LAST] = "checkpoint/last.safetensors", [CHECKPOINT_BEST] = "checkpoint/best.safetensors"};

/* --- tensors */

typedef struct {
    NamedArray *items; /* the parameters, by the table, and then the moments */
    size_t count;
} ArrayList;

/* SGD has one moment, the velocity, and so has Muon for its matrices. Every other tensor has AdamW's two. */
static bool has_velocity(OptimizerKind kind, const Tensor *t) {
    return kind == OPTIMIZER_SGD || (kind == OPTIMIZER_MUON && t->blocks->is_matrix);
}

static void add_array(ArrayList *list, const char *prefix, const Tensor *t, real *flat) {
    NamedArray *array = &list->items[list->count++];
    *array = (NamedArray){.type = sizeof(real) == 4 ? ARRAY_F32 : ARRAY_F64,
                          .dimensions = t->dimensions,
                          .shape = {t->size[0], t->size[1]},
                          .data = flat ? flat + t->offset : NULL};
    snprintf(array->name, sizeof array->name, "%s%s", prefix, t->name);
}

/* Lists all arrays of a file, the moments under the names that torch.optim gives them. If moments are NULL,
   their entries in the file are checked, but their numbers are not read. Free list->items. */
static bool list_arrays(ArrayList *list, const Run *run, Checkpoint which, const Model *model, Moments moments,
                        Error *err) {
    const OptimizerKind kind = (OptimizerKind)run->config.train.optimizer;
    const Tensor *tensors = model->tensors.items;
    const size_t count = model->tensors.count;
    *list = (ArrayList){calloc(3 * count, sizeof *list->items), 0};
    if (!list->items) return runtime_error(err, "no memory for a list of tensors");
    for (size_t i = 0; i < count; i++) add_array(list, "", &tensors[i], model->parameters);
    if (which == CHECKPOINT_BEST) return true;
    for (size_t i = 0; i < count; i++)
        if (has_velocity(kind, &tensors[i])) add_array(list, "momentum_buffer.", &tensors[i], moments.first);
    for (size_t i = 0; i < count; i++)
        if (!has_velocity(kind, &tensors[i])) add_array(list, "exp_avg.", &tensors[i], moments.first);
    for (size_t i = 0; i < count; i++)
        if (!has_velocity(kind, &tensors[i])) add_array(list, "exp_avg_sq.", &tensors[i], moments.second);
    return true;
}

/* Whether all numbers are finite and no second moment is below 0. If not, the error names the tensor, and says whether
   training itself has brought it there. */
static bool check_numbers(const SafetensorsFile *file, const ArrayList *list, Error *err) {
    static const char squares[] = "exp_avg_sq.";
    Error changed;
    for (size_t i = 0; i < list->count; i++) {
        const NamedArray *a = &list->items[i];
        const real *numbers = a->data;
        const size_t count = numbers ? named_array_bytes(a) / sizeof *numbers : 0;
        const double least = strncmp(a->name, squares, strlen(squares)) == 0 ? 0 : -INFINITY;
        for (size_t j = 0; j < count; j++)
            if (!isfinite((double)numbers[j]) || (double)numbers[j] < least)
                return usage_error(err, "%s: the tensor %s has a %s in it%s", file->path, a->name,
                                   isfinite((double)numbers[j]) ? "number below 0" : "NaN or an infinity",
                                   safetensors_check(file, &changed)
                                       ? ", to which training has brought it: train anew with a smaller train.lr"
                                       : ": the file is damaged, or was changed");
    }
    return safetensors_check(file, err);
}

/* --- the state */

/* Whether a key must have the value of the checkpoint when a run is resumed. All must, except a few that decide neither
   what is trained nor what is measured at which step. */
static bool must_match(const char *key) {
    static const char *const free_keys[] = {"data.corpus",  /* the text may move; run.json has its fingerprint */
                                            "train.engine", /* both engines compute the same, to rounding */
                                            "train.steps",  "log.out", "log.checkpoint_every", "log.page_model"};
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (strcmp(key, free_keys[i]) == 0) return false;
    return true;
}

static Json *state_json(const Config *c, const RunState *s) {
    Json *state = js_object(), *config = js_object(), *logs = js_object();
    for (size_t i = 0; i < config_key_count(); i++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(c, i, value, sizeof value);
        if (must_match(config_key_name(i))) js_set(config, config_key_name(i), js_text(value));
    }
    for (size_t i = 0; i < LOG_COUNT; i++) js_set(logs, LOG_NAMES[i], js_integer((int64_t)s->log_size[i]));
    js_set(state, "format", js_integer(FORMAT));
    js_set(state, "step", js_integer((int64_t)s->step));
    js_set(state, "seconds", js_number(s->seconds));
    js_set(state, "logs", logs);
    js_set(state, "config", config);
    return state;
}

static bool other_version(const char *path, Error *err) {
    return usage_error(err, "%s was made by another version of sqrtdk; this is %s: continue the run with that version",
                       path, SQRTDK_VERSION);
}

static bool whole_number(const char *path, const Json *object, const char *key, size_t *out, Error *err) {
    int64_t number;
    if (!js_as_integer(js_get(object, key), &number) || number < 0)
        return usage_error(err, "%s is damaged: \"%s\" in its state is not a whole number", path, key);
    *out = (size_t)number;
    return true;
}

/* Compares the config that the checkpoint was made with, key by key, with what config.ini says now. */
static bool check_config(const Run *run, const char *path, const Json *config, Error *err) {
    size_t keys = 0;
    for (size_t i = 0; i < config_key_count(); i++) {
        const char *key = config_key_name(i), *then = js_as_text(js_get(config, key));
        char now[CONFIG_VALUE_MAX];
        if (!must_match(key)) continue;
        config_value_text(&run->config, i, now, sizeof now);
        if (!then) return other_version(path, err);
        if (strcmp(then, now) != 0)
            return usage_error(err, "%s was made with %s = %.100s, and %s/config.ini says %.100s: set it back", path,
                               key, then, run->directory, now);
        keys++;
    }
    return js_object_size(config) == keys || other_version(path, err);
}

static bool parse_state(const Run *run, const char *path, const Json *state, RunState *s, Error *err) {
    size_t format = 0;
    const Json *logs = js_get(state, "logs");
    if (!whole_number(path, state, "format", &format, err)) return false;
    if (format != FORMAT) return other_version(path, err);
    if (!whole_number(path, state, "step", &s->step, err)) return false;
    if (!js_as_number(js_get(state, "seconds"), &s->seconds) || !(s->seconds >= 0 && s->seconds < 1e10))
        return usage_error(err, "%s is damaged: \"seconds\" in its state is not a duration", path);
    for (size_t i = 0; i < LOG_COUNT; i++)
        if (!whole_number(path, logs, LOG_NAMES[i], &s->log_size[i], err)) return false;
    return check_config(run, path, js_get(state, "config"), err);
}

static bool read_state(const Run *run, const SafetensorsFile *file, RunState *s, Error *err) {
    const char *text = safetensors_metadata(file, "state");
    Json *state = NULL;
    if (!text) return usage_error(err, "%s is no checkpoint: it has no state in its metadata", file->path);
    const bool ok =
        js_parse(text, strlen(text), file->path, &state, err) && parse_state(run, file->path, state, s, err);
    js_free(state);
    return ok;
}

/* --- saving and loading */

bool checkpoint_save(const Run *run, Checkpoint which, const Model *model, Moments moments, const RunState *s,
                     Error *err) {
    char *text = NULL;
    ArrayList list = {0};
    Json *state = state_json(&run->config, s);
    const bool ok = js_dump(state, JS_LINE, &text, err) && list_arrays(&list, run, which, model, moments, err) &&
                    safetensors_save(&run->results.directory, NAMES[which], list.items, list.count,
                                     &(Metadata){"state", text}, 1, err);
    js_free(state);
    free(text);
    free(list.items);
    return ok;
}

bool checkpoint_load(const Run *run, Checkpoint which, Model *model, Moments moments, RunState *s, Error *err) {
    const size_t limit = size_mul(size_mul(3, model->tensors.parameters), sizeof(real));
    char path[4096];
    ArrayList list = {0};
    SafetensorsFile file = {0};
    *s = (RunState){.train_loss = NAN, .val_loss = NAN, .best_val_loss = INFINITY};
    if (!run_path(run, path, NAMES[which], err) || !list_arrays(&list, run, which, model, moments, err)) return false;
    const bool ok = safetensors_open(&file, path, limit, err) && read_state(run, &file, s, err) &&
                    safetensors_take(&file, list.items, list.count, "the model of config.ini and vocab.json", err) &&
                    check_numbers(&file, &list, err);
    safetensors_close(&file);
    free(list.items);
    if (ok) attention_set_step(&model->shape.attention, &run->config, s->step);
    return ok;
}
