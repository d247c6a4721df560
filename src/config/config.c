/* From a file and overrides to a checked Config: values by the table (config_table.c), then the defaults that depend on
   other keys, then what concerns several keys at once. */
#include "config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "config/table.h"

static bool is_given(const Config *config, size_t setting) { return config->given[setting / 64] >> setting % 64 & 1; }

bool setting_assign(Config *config, size_t setting, const char *written, Error *why) {
    Value value;
    if (!value_parse(&SETTINGS[setting], written, &value, why)) return false;
    value_store(config, &SETTINGS[setting], &value);
    config->given[setting / 64] |= (uint64_t)1 << setting % 64;
    return true;
}

/* One value of an axis, from a text without blanks around it. */
static bool axis_add(SweepAxis *axis, const char *text, Error *why) {
    const Setting *setting = &SETTINGS[axis->setting];
    char shown[64];
    Error reason;
    Value value, other;
    text_clip(text, strlen(text), 40, shown, sizeof shown);
    if (!*text) return error_set(why, STATUS_USAGE, "a value is missing; write values with commas between them");
    if (strlen(text) >= sizeof axis->values[0])
        return error_set(why, STATUS_USAGE, "the value %s is too long; at most %zu bytes are accepted", shown,
                         sizeof axis->values[0] - 1);
    if (!value_parse(setting, text, &value, &reason))
        return error_set(why, STATUS_USAGE, "the value \"%s\": %s", shown, reason.message);
    for (size_t i = 0; i < axis->count; i++)
        if (value_parse(setting, axis->values[i], &other, &reason) && value_equal(setting, &value, &other))
            return error_set(why, STATUS_USAGE, "the value %s is there twice", shown);
    if (axis->count == SWEEP_VALUES_MAX)
        return error_set(why, STATUS_USAGE, "%s has more than the %d values accepted", setting->name, SWEEP_VALUES_MAX);
    memcpy(axis->values[axis->count++], text, strlen(text) + 1);
    return true;
}

static bool axis_parse(SweepAxis *axis, const char *written, Error *why) {
    char list[2 * sizeof axis->values];
    if (!value_unquote(written, list, sizeof list, why)) return false;
    for (char *rest = list, *text; rest;) {
        text = rest;
        rest = strchr(text, ',');
        if (rest) *rest++ = 0;
        while (isspace((unsigned char)*text)) text++;
        size_t length = strlen(text);
        while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = 0;
        if (!axis_add(axis, text, why)) return false;
    }
    return true;
}

/* An axis that is there already is replaced. */
bool sweep_assign(Config *config, size_t setting, const char *written, Error *why) {
    if (SETTINGS[setting].kind == KIND_TEXT)
        return error_set(why, STATUS_USAGE, "%s is a text; texts and directories cannot be swept",
                         SETTINGS[setting].name);
    size_t i = 0;
    while (i < config->sweep_count && config->sweep[i].setting != setting) i++;
    if (i == SWEEP_AXES_MAX)
        return error_set(why, STATUS_USAGE, "more than the %d keys that [sweep] accepts", SWEEP_AXES_MAX);
    SweepAxis *axis = &config->sweep[i];
    memset(axis, 0, sizeof *axis);
    axis->setting = setting;
    if (i == config->sweep_count) config->sweep_count++;
    return axis_parse(axis, written, why);
}

/* " (line 7)", " (--set)" or " (the default)". Where config_set came from, nothing is known. */
static const char *origin_text(const Config *config, const Origins *origins, size_t setting, char out[32]) {
    out[0] = 0;
    if (!is_given(config, setting))
        snprintf(out, 32, " (the default)");
    else if (origins && origins->overridden[setting])
        snprintf(out, 32, " (--set)");
    else if (origins && origins->line[setting])
        snprintf(out, 32, " (line %d)", origins->line[setting]);
    return out;
}

static bool check_d_k(Config *config, const char *where, const Origins *origins, Error *err) {
    char a[32], b[32];
    if (is_given(config, setting_at(offsetof(Config, model.d_k)))) return true;
    if (config->model.d_model % config->model.heads == 0) {
        config->model.d_k = config->model.d_model / config->model.heads;
        return true;
    }
    origin_text(config, origins, setting_at(offsetof(Config, model.heads)), a);
    origin_text(config, origins, setting_at(offsetof(Config, model.d_model)), b);
    return error_set(err, STATUS_USAGE,
                     "%s: model.heads = %lld%s does not divide model.d_model = %lld%s; choose others, or set model.d_k",
                     where, (long long)config->model.heads, a, (long long)config->model.d_model, b);
}

static bool check_min_lr(Config *config, const char *where, const Origins *origins, Error *err) {
    char a[32], b[32], lr[32], min_lr[32];
    size_t setting = setting_at(offsetof(Config, train.min_lr));
    if (!is_given(config, setting)) config->train.min_lr = config->train.lr / 10;
    if (config->train.min_lr <= config->train.lr) return true;
    origin_text(config, origins, setting, a);
    origin_text(config, origins, setting_at(offsetof(Config, train.lr)), b);
    number_text(config->train.min_lr, min_lr, sizeof min_lr);
    number_text(config->train.lr, lr, sizeof lr);
    return error_set(err, STATUS_USAGE, "%s: train.min_lr = %s%s is above train.lr = %s%s; it takes a number up to lr",
                     where, min_lr, a, lr, b);
}

/* The defaults that depend on other keys, and what concerns several keys. */
static bool config_finish(Config *config, const char *where, const Origins *origins, Error *err) {
    if (!check_d_k(config, where, origins, err) || !check_min_lr(config, where, origins, err)) return false;
    if (!is_given(config, setting_at(offsetof(Config, model.d_ff)))) config->model.d_ff = 4 * config->model.d_model;
    if (!is_given(config, setting_at(offsetof(Config, log.out))))
        snprintf(config->log.out, sizeof config->log.out, "runs/%s", config->name);
    return true;
}

/* "section.key", or "sweep." and what stands in [sweep], in place: the first dot ends the section. */
static bool assign_by_name(Config *config, char *name, const char *written, bool *in_sweep, size_t *setting,
                           Error *why) {
    char names[256];
    char *dot = strchr(name, '.');
    if (!dot) {
        if (setting_names(name, " or ", names, sizeof names))
            return error_set(why, STATUS_USAGE, "%s needs its section: write %s", name, names);
        return setting_find("sweep", name, setting, why); /* fails with the nearest of all keys */
    }
    *dot = 0;
    *in_sweep = strcmp(name, "sweep") == 0;
    if (!section_check(name, why) || !setting_find(name, dot + 1, setting, why)) return false;
    return *in_sweep ? sweep_assign(config, *setting, written, why) : setting_assign(config, *setting, written, why);
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    for (size_t length = strlen(text); length > 0 && isspace((unsigned char)text[length - 1]);) text[--length] = 0;
    return text;
}

static bool override_apply(Config *config, const char *override, Origins *origins, Error *err) {
    char shown[128];
    bool in_sweep = false;
    size_t setting = 0;
    Error why;
    text_clip(override, strlen(override), 100, shown, sizeof shown);
    char *copy = strdup(override);
    if (!copy) return error_set(err, STATUS_FAILED, "no memory for --set %s", shown);
    char *equals = strchr(copy, '=');
    bool ok;
    if (equals && equals > copy + strspn(copy, " \t")) {
        *equals = 0;
        ok = assign_by_name(config, trim(copy), trim(equals + 1), &in_sweep, &setting, &why);
    } else
        ok = error_set(&why, STATUS_USAGE, "write section.key=value");
    free(copy);
    if (!ok) return error_set(err, why.status, "--set %s: %s", shown, why.message);
    if (!in_sweep) origins->overridden[setting] = true;
    return true;
}

/* The name of runs and directories: the path without directory and ".ini". */
static bool name_from_path(Config *config, const char *path, Error *err) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".ini") == 0) length -= 4;
    if (length >= sizeof config->name)
        return error_set(err, STATUS_USAGE, "the config's file name has more than %zu bytes", sizeof config->name - 1);
    memcpy(config->name, base, length);
    config->name[length] = 0;
    return true;
}

static bool config_defaults(Config *config, Error *err) {
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        Error why;
        if (SETTINGS[i].initial && !setting_assign(config, i, SETTINGS[i].initial, &why))
            return error_set(err, STATUS_FAILED, "the table of settings: %s", why.message);
    }
    memset(config->given, 0, sizeof config->given);
    return true;
}

bool config_load(Config *config, const char *path, const char *const *overrides, size_t override_count, Error *err) {
    Origins origins = {0};
    char where[512];
    text_clip(path, strlen(path), 400, where, sizeof where);
    if (!config_defaults(config, err) || !config_file_read(config, path, &origins, err) ||
        !name_from_path(config, path, err))
        return false;
    for (size_t i = 0; i < override_count; i++)
        if (!override_apply(config, overrides[i], &origins, err)) return false;
    return config_finish(config, where, &origins, err);
}

bool config_set_all(Config *config, const char *where, size_t count, const char *const *keys, const char *const *values,
                    Error *err) {
    for (size_t i = 0; i < count; i++) {
        char key[128], shown[64];
        bool in_sweep = false;
        size_t setting;
        Error why;
        text_clip(keys[i], strlen(keys[i]), sizeof key - 8, key, sizeof key);
        text_clip(values[i], strlen(values[i]), 40, shown, sizeof shown);
        if (!assign_by_name(config, key, values[i], &in_sweep, &setting, &why))
            return error_set(err, why.status, "%.400s: %.120s=%s: %s", where, keys[i], shown, why.message);
    }
    return config_finish(config, where, NULL, err);
}

bool config_set(Config *config, const char *where, const char *key, const char *value, Error *err) {
    return config_set_all(config, where, 1, &key, &value, err);
}
