/* From a file and overrides to a checked Config: values by the table (table.c), then the defaults that depend on other
   keys, then what concerns several keys at once. */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/ini.h"
#include "config/table.h"

/* Where each key was given: the line of the file, then the --set that came after. */
typedef struct {
    int line[SETTINGS_MAX], sweep_line[SETTINGS_MAX]; /* from 1; 0: not in the file */
    bool overridden[SETTINGS_MAX];
} Origins;

/* " (line 7)", " (--set)" or " (the default)". Where config_set came from, nothing is known. */
static const char *origin_text(const Config *config, const Origins *origins, size_t setting, char out[32]) {
    out[0] = 0;
    if (!config_is_given(config, setting))
        snprintf(out, 32, " (the default)");
    else if (origins && origins->overridden[setting])
        snprintf(out, 32, " (--set)");
    else if (origins && origins->line[setting])
        snprintf(out, 32, " (line %d)", origins->line[setting]);
    return out;
}

static bool check_d_k(Config *config, const char *where, const Origins *origins, Error *err) {
    char a[32], b[32];
    if (config_is_given(config, setting_at(offsetof(Config, model.d_k)))) return true;
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
    if (!config_is_given(config, setting)) config->train.min_lr = config->train.lr / 10;
    if (config->train.min_lr <= config->train.lr) return true;
    origin_text(config, origins, setting, a);
    origin_text(config, origins, setting_at(offsetof(Config, train.lr)), b);
    text_number(config->train.min_lr, min_lr, sizeof min_lr);
    text_number(config->train.lr, lr, sizeof lr);
    return error_set(err, STATUS_USAGE, "%s: train.min_lr = %s%s is above train.lr = %s%s; it takes a number up to lr",
                     where, min_lr, a, lr, b);
}

/* The defaults that depend on other keys, and what concerns several keys. */
static bool config_finish(Config *config, const char *where, const Origins *origins, Error *err) {
    if (!check_d_k(config, where, origins, err) || !check_min_lr(config, where, origins, err)) return false;
    if (!config_is_given(config, setting_at(offsetof(Config, model.d_ff))))
        config->model.d_ff = 4 * config->model.d_model;
    if (!config_is_given(config, setting_at(offsetof(Config, log.out))))
        snprintf(config->log.out, sizeof config->log.out, "runs/%s", config->name);
    return true;
}

static bool assign(Config *config, bool in_sweep, size_t setting, const char *written, Error *why) {
    return in_sweep ? sweep_assign(config, setting, written, why) : setting_assign(config, setting, written, why);
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
    return section_check(name, why) && setting_find(name, dot + 1, setting, why) &&
           assign(config, *in_sweep, *setting, written, why);
}

/* What take_line fills in. */
typedef struct {
    Config *config;
    Origins *origins;
} Target;

/* A line of the file (IniHandler). */
static bool take_line(void *user, const char *section, const char *key, const char *written, int line, Error *why) {
    const Target *target = user;
    const bool in_sweep = strcmp(section, "sweep") == 0;
    char names[128];
    size_t setting;
    if (!key) return section_check(section, why);
    if (!*section && !setting_names(key, " or ", names, sizeof names))
        return error_set(why, STATUS_USAGE, "a [section] must come first");
    if (!*section) return error_set(why, STATUS_USAGE, "a [section] must come first; the key is %s", names);
    if (!setting_find(section, key, &setting, why)) return false;
    int *given = &(in_sweep ? target->origins->sweep_line : target->origins->line)[setting];
    if (*given) return error_set(why, STATUS_USAGE, "%s is given twice, in line %d and in line %d", key, *given, line);
    *given = line;
    return assign(target->config, in_sweep, setting, written, why);
}

static bool override_apply(Config *config, const char *override, Origins *origins, Error *err) {
    char shown[128];
    bool in_sweep = false;
    size_t setting = 0;
    Error why;
    text_clip(override, 100, shown, sizeof shown);
    char *copy = strdup(override);
    if (!copy) return error_set(err, STATUS_FAILED, "no memory for --set %s", shown);
    char *equals = strchr(copy, '=');
    bool ok;
    if (equals && equals > copy + strspn(copy, " \t")) {
        *equals = 0;
        ok = assign_by_name(config, text_trim(copy), text_trim(equals + 1), &in_sweep, &setting, &why);
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
    Target target = {config, &origins};
    char where[512];
    text_clip(path, 400, where, sizeof where);
    if (!config_defaults(config, err) || !ini_read(path, take_line, &target, err) || !name_from_path(config, path, err))
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
        text_clip(keys[i], sizeof key - 8, key, sizeof key);
        text_clip(values[i], 40, shown, sizeof shown);
        if (!assign_by_name(config, key, values[i], &in_sweep, &setting, &why))
            return error_set(err, why.status, "%.400s: %.120s=%s: %s", where, keys[i], shown, why.message);
    }
    return config_finish(config, where, NULL, err);
}

bool config_set(Config *config, const char *where, const char *key, const char *value, Error *err) {
    return config_set_all(config, where, 1, &key, &value, err);
}

bool combinations_config(const Config *config, size_t i, Config *combination, const char *values[SWEEP_AXES_MAX],
                         Error *err) {
    const char *keys[SWEEP_AXES_MAX];
    sweep_combination(config, i, keys, values);
    *combination = *config;
    return config_set_all(combination, "[sweep]", config->sweep_count, keys, values, err);
}
