/* Makes a checked Config from a file and overrides, in this order: the table's defaults, the file, the overrides, the
   defaults that depend on other keys, and the checks that concern several keys at once. The grammar of a file:

       [section]          ; comments begin with ; or #, at the start of a line or after a blank
       key = value        # or key : value; blanks around both are cut
       key = "a ; value"  # in double quotes blanks, ; and # stay; \n \t \r \" \\ are escapes

   Indented lines are lines like others, a byte order mark and ends of lines \r\n are accepted. A line that is none of
   these is an error. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/files.h"
#include "base/text.h"
#include "config/table.h"

enum { FILE_LIMIT = 1 << 20 };

/* Gives a key of [section] its value. If `section` is empty, `name` has it (key_find). `origin` is as in Config. */
static bool assign(Config *config, SweepAxes *axes, const char *section, const char *name, const char *written,
                   int origin, Error *why) {
    const bool in_sweep = strcmp(section, "sweep") == 0;
    SweepAxis *axis;
    size_t key;
    if (!key_find(section, name, &key, why)) return false;
    if (in_sweep && !axes_find(axes, key, &axis, why)) return false;
    int *before = in_sweep ? &axis->origin : &config->origin[key];
    if (origin > 0 && *before > 0)
        return usage_error(why, "%s is given twice, in line %d and in line %d", name, *before, origin);
    *before = origin;
    return in_sweep ? axis_assign(axis, written, why)
                    : value_parse(&KEYS[key], written, (char *)config + KEYS[key].offset, why);
}

/* Where the comment of a line begins, or the line ends. */
static char *find_comment(char *text) {
    char *at = text;
    while (*at && !((*at == ';' || *at == '#') && (at == text || isspace((unsigned char)at[-1])))) at++;
    return at;
}

static bool parse_section(const char *line, char section[128], Error *why) {
    const char *close = strchr(line, ']'), *rest = close ? close + 1 + strspn(close + 1, " \t") : line;
    if (!close) return usage_error(why, "a ] is missing after the section's name");
    if (*rest && *rest != ';' && *rest != '#')
        return usage_error(why, "only a comment may follow [section] on its line");
    snprintf(section, 128, "%.*s", (int)(close - line - 1), line + 1);
    return section_check(section, why);
}

/* Parses one line of the file, without blanks around it. `section` is the section that it is in, or begins. */
static bool parse_line(Config *config, SweepAxes *axes, char *line, int number, char section[128], Error *why) {
    char *comment = find_comment(line), *separator = strpbrk(line, "=:");
    if (comment == line) return true; /* or an empty line */
    if (*line == '[') return parse_section(line, section, why);
    if (!separator || separator == line || separator > comment)
        return usage_error(why, "this is neither a [section] nor key = value nor a comment (; or #)");
    *separator = 0;
    char *value = text_trim(separator + 1);
    if (*value != '"') *comment = 0;
    return assign(config, axes, section, text_trim(line), text_trim(value), number, why);
}

/* Adds to "cannot read" the file that was probably meant: one with .ini behind it, or in configs/. */
static void hint_at_file(const char *path, Error *err) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char candidates[3][512], found[4096];
    if (strlen(path) > 400 || path_exists(path_installed(path, found)) || !*base) return;
    snprintf(candidates[0], sizeof *candidates, "%s.ini", path);
    snprintf(candidates[1], sizeof *candidates, "configs/%s", base);
    snprintf(candidates[2], sizeof *candidates, "configs/%s.ini", base);
    for (size_t i = 0; i < 3; i++) {
        if (!path_exists(path_installed(candidates[i], found))) continue;
        error_set(err, err->status, "%.500s; did you mean %s?", err->message, candidates[i]);
        return;
    }
    if (!strpbrk(path, "./"))
        error_set(err, err->status, "%.500s; %s --help lists the verbs", err->message, program_name);
}

/* Parses the text of a file, which is cut into its lines; `where` is its path for messages. */
static bool parse_text(Config *config, SweepAxes *axes, char *text, const char *where, Error *err) {
    static const char BYTE_ORDER_MARK[] = "\xEF\xBB\xBF";
    char shown[108], section[128] = "", *line;
    if (strncmp(text, BYTE_ORDER_MARK, 3) == 0) text += 3;
    for (int number = 1; (line = strsep(&text, "\n")); number++) {
        line = text_trim(line);
        text_clip(line, 100, shown, sizeof shown);
        if (!parse_line(config, axes, line, number, section, err))
            return error_set(err, err->status, "%s:%d: \"%s\": %s", where, number, shown, err->message);
    }
    return true;
}

static bool read_config(Config *config, SweepAxes *axes, const char *path, const char *where, Error *err) {
    char *data, found[4096];
    size_t size;
    if (!file_read(path_installed(path, found), "config", FILE_LIMIT, STATUS_USAGE, &data, &size, err)) {
        hint_at_file(path, err);
        return false;
    }
    const bool ok = strlen(data) == size ? parse_text(config, axes, data, where, err)
                                         : usage_error(err, "%s holds a zero byte; a config is text in UTF-8", where);
    free(data);
    return ok;
}

/* Parses "section.key = value", and cuts `text` up. If the value is a list for [sweep], "sweep." stands in front. */
static bool parse_override(Config *config, SweepAxes *axes, char *text, Error *err) {
    static const char SWEEP[] = "sweep.";
    char *value = text, *name = text_trim(strsep(&value, "="));
    if (!value || !*name) return usage_error(err, "write section.key=value");
    const bool in_sweep = strncmp(name, SWEEP, strlen(SWEEP)) == 0;
    if (in_sweep) name += strlen(SWEEP);
    return assign(config, axes, in_sweep ? "sweep" : "", name, text_trim(value), ORIGIN_OVERRIDE, err);
}

static bool apply_override(Config *config, SweepAxes *axes, const char *override, Error *err) {
    char shown[128], *copy = strdup(override);
    if (!copy) return runtime_error(err, "no memory for --set %.100s", override);
    const bool ok = parse_override(config, axes, copy, err);
    free(copy);
    text_clip(override, 100, shown, sizeof shown);
    return ok || error_set(err, err->status, "--set %s: %s", shown, err->message);
}

static bool is_given_at(const Config *config, size_t offset) { return config_is_given(config, key_at(offset)); }
/* Whether a key was given, or is in [sweep], whose values are set later. */
static bool is_chosen_at(const Config *config, const SweepAxes *axes, size_t offset) {
    return is_given_at(config, offset) || axes_have(axes, key_at(offset));
}

/* Stores d_model in a divisor sqrt_dmodel, so that divisor_value needs no config. */
static void resolve_divisor(const Config *config, ScaleDivisor *divisor) {
    if (divisor->mode == SCALE_SQRT_DMODEL) divisor->number = (double)config->model.d_model;
}

/* Fills in the defaults that depend on other keys. */
static bool derive_defaults(Config *config, const char *where, Error *err) {
    char a[96], b[96];
    if (!is_given_at(config, KEY(model.d_k))) {
        config->model.d_k = config->model.d_model / config->model.heads;
        if (config->model.d_model % config->model.heads != 0)
            return usage_error(err, "%s: %s does not divide %s; choose others, or set model.d_k", where,
                               key_text(config, KEY(model.heads), a), key_text(config, KEY(model.d_model), b));
    }
    if (!is_given_at(config, KEY(model.d_ff))) config->model.d_ff = 4 * config->model.d_model;
    if (!is_given_at(config, KEY(train.min_lr))) config->train.min_lr = config->train.lr / 10;
    if (!is_given_at(config, KEY(train.momentum)))
        config->train.momentum = config->train.optimizer == OPTIMIZER_MUON ? 0.95 : 0.9;
    if (!is_given_at(config, KEY(attention.scale_divisor)))
        config->attention.scale_divisor =
            (ScaleDivisor){.mode = config->attention.score == SCORE_ADDITIVE ? SCALE_NONE : SCALE_SQRT_DK};
    if (!is_given_at(config, KEY(attention.switch_divisor)))
        config->attention.switch_divisor = config->attention.scale_divisor;
    resolve_divisor(config, &config->attention.scale_divisor);
    resolve_divisor(config, &config->attention.switch_divisor);
    if (!is_given_at(config, KEY(log.out))) snprintf(config->log.out, sizeof config->log.out, "runs/%s", config->name);
    return true;
}

/* Whether a divisor is missing that must be given: with l2, scores are cosines, which sqrt_dk makes nearly equal. */
static bool lacks_divisor(const Config *config, const SweepAxes *axes) {
    return config->attention.qk_norm == QK_NORM_L2 && config->attention.score == SCORE_DOT &&
           config->attention.scale_learned == LEARNED_NO && !is_chosen_at(config, axes, KEY(attention.scale_divisor)) &&
           !axes_have(axes, key_at(KEY(attention.scale_learned)));
}

/* Checks what concerns several keys. */
static bool check_together(const Config *config, const SweepAxes *axes, const char *where, Error *err) {
    char a[96], b[96];
    if (config->train.min_lr > config->train.lr)
        return usage_error(err, "%s: %s is above %s; it takes a number up to lr", where,
                           key_text(config, KEY(train.min_lr), a), key_text(config, KEY(train.lr), b));
    if ((config->train.shards & (config->train.shards - 1)) != 0 || config->train.batch % config->train.shards != 0)
        return usage_error(err, "%s: %s must be a power of two that divides %s", where,
                           key_text(config, KEY(train.shards), a), key_text(config, KEY(train.batch), b));
    if (config->attention.switch_step > 0 && !is_given_at(config, KEY(attention.switch_divisor)))
        return usage_error(err, "%s: %s needs attention.switch_divisor, the divisor from then on", where,
                           key_text(config, KEY(attention.switch_step), a));
    if (is_given_at(config, KEY(attention.switch_divisor)) && !is_chosen_at(config, axes, KEY(attention.switch_step)))
        return usage_error(err, "%s: %s needs attention.switch_step, the step from which on it holds", where,
                           key_text(config, KEY(attention.switch_divisor), a));
    if (!refused_pairs_check(config, where, err)) return false;
    if (lacks_divisor(config, axes))
        return usage_error(
            err,
            "%s: %s needs attention.scale_divisor or attention.scale_learned: cosines over sqrt_dk are nearly "
            "equal, and 1/sqrt(d_k) is the divisor that makes them vary as q.k / sqrt(d_k) does",
            where, key_text(config, KEY(attention.qk_norm), a));
    if (config->data.task == TASK_RECALL && config->model.context < 2 * config->data.recall_pairs + 1)
        return usage_error(err, "%s: %s takes a context of at least %lld, and %s", where,
                           key_text(config, KEY(data.recall_pairs), a), (long long)(2 * config->data.recall_pairs + 1),
                           key_text(config, KEY(model.context), b));
    return true;
}

static bool config_finish(Config *config, const SweepAxes *axes, const char *where, Error *err) {
    return derive_defaults(config, where, err) && check_together(config, axes, where, err);
}

/* Names the config, and by default the run, after its file: the path without directory and ".ini". */
static void name_from_path(Config *config, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".ini") == 0) length -= 4;
    snprintf(config->name, sizeof config->name, "%.*s", (int)length, base);
    text_make_plain(config->name);
}

static bool config_defaults(Config *config, Error *err) {
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (KEYS[i].initial && !value_parse(&KEYS[i], KEYS[i].initial, (char *)config + KEYS[i].offset, err))
            return runtime_error(err, "the default of %s: %s", KEYS[i].full, err->message);
    return true;
}

bool config_load(Config *config, SweepAxes *axes, const char *path, const char *const *overrides, size_t override_count,
                 Error *err) {
    static SweepAxes refused; /* large */
    char where[512];
    SweepAxes *read = axes ? axes : &refused;
    read->count = 0;
    text_clip(path, 400, where, sizeof where);
    if (!config_defaults(config, err) || !read_config(config, read, path, where, err)) return false;
    name_from_path(config, path);
    for (size_t i = 0; i < override_count; i++)
        if (!apply_override(config, read, overrides[i], err)) return false;
    if (!config_finish(config, read, where, err)) return false;
    return axes || read->count == 0 ||
           usage_error(err, "%s has a [sweep] section: run it with %s sweep %s", path, program_name, path);
}

bool config_set_all(Config *config, const char *where, size_t count, const char *const *keys, const char *const *values,
                    Error *err) {
    for (size_t i = 0; i < count; i++) {
        char shown[64];
        text_clip(values[i], 40, shown, sizeof shown);
        if (!assign(config, NULL, "", keys[i], values[i], ORIGIN_SWEEP, err))
            return error_set(err, err->status, "%.400s: %.120s=%s: %s", where, keys[i], shown, err->message);
    }
    return config_finish(config, NULL, where, err);
}

ScaleDivisor config_divisor(const Config *config, size_t step) {
    const int64_t from = config->attention.switch_step;
    return from > 0 && step >= (size_t)from ? config->attention.switch_divisor : config->attention.scale_divisor;
}

const char *config_target(const Config *config) { return config->data.task == TASK_RECALL ? "answer" : "character"; }

bool combinations_config(const Config *config, const SweepAxes *axes, size_t i, Config *out,
                         const char *values[SWEEP_AXES_MAX], Error *err) {
    const char *keys[SWEEP_AXES_MAX];
    for (size_t a = axes->count; a-- > 0; i /= axes->axis[a].count) {
        keys[a] = config_key_name(axes->axis[a].key);
        values[a] = axes->axis[a].values[i % axes->axis[a].count];
    }
    *out = *config;
    return config_set_all(out, "[sweep]", axes->count, keys, values, err);
}
