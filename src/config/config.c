/* Makes a checked Config from a file and overrides, in this order: the table's defaults, the file, the overrides, the
   defaults that depend on other keys, and the checks that concern several keys at once. The grammar of a file:

       [section]          ; comments begin with ; or #, at the start of a line or after a blank
       key = value        # or key : value; blanks around both are cut
       key = "a ; value"  # in double quotes blanks, ; and # stay; \n \t \r \" \\ are escapes

   A line ends with \n, \r\n or \r. Indented lines are lines like others. A byte order mark at the start is accepted. A
   line that is none of these is an error. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/table.h"

enum { FILE_LIMIT = 1 << 20 };

/* The config that is read, and the place from which its values come. */
typedef struct {
    Config *config;
    const SweepReader *sweep; /* NULL: [sweep] is refused */
    bool swept;               /* [sweep] has a key */
    const char *path;
    int origin;        /* as in Config */
    char section[128]; /* of the keys; empty: their names have it (key_find) */
} Reader;

/* Gives a key of [sweep] its list. Returns the origin of an earlier one, or 0. */
static int assign_list(Reader *r, size_t key, const char *written) {
    char list[CONFIG_LIST_MAX];
    if (!r->sweep) usage_error("%s has a [sweep] section: run it with %s", r->path, command_to_copy("sweep", r->path));
    r->swept = true;
    value_unquote(written, list, sizeof list);
    return r->sweep->assign(r->sweep->to, key, list, r->origin);
}

/* Gives the key its value. */
static void assign(Reader *r, const char *name, const char *written) {
    const size_t key = key_find(r->section, name);
    const bool swept = strcmp(r->section, "sweep") == 0;
    const int before = swept ? assign_list(r, key, written) : r->config->origin[key];
    if (r->origin > 0 && before > 0)
        config_error("%s is given twice, in line %d and in line %d", name, before, r->origin);
    if (swept) return;
    r->config->origin[key] = r->origin;
    value_parse(&KEYS[key], written, (char *)r->config + KEYS[key].offset);
}

void config_check_value(size_t key, const char *text, char *out, size_t capacity) {
    const size_t place = strlen(config_place);
    char shown[64];
    Config config;
    void *member = (char *)&config + KEYS[key].offset;
    text_clip(text, 40, shown, sizeof shown);
    text_append(config_place, PLACE_MAX, ": the value \"%s\"", shown);
    value_parse(&KEYS[key], text, member);
    config_place[place] = 0;
    value_text(&KEYS[key], member, out, capacity);
}

/* Returns where the comment of a line begins, or else the end of the line. */
static char *find_comment(char *text) {
    char *at = text;
    while (*at && !((*at == ';' || *at == '#') && (at == text || isspace((unsigned char)at[-1])))) at++;
    return at;
}

static void parse_section(const char *line, char section[128]) {
    const char *close = strchr(line, ']'), *rest = close ? close + 1 + strspn(close + 1, " \t") : line;
    if (!close) config_error("a ] is missing after the section's name");
    if (*rest && *rest != ';' && *rest != '#') config_error("only a comment may follow [section] on its line");
    snprintf(section, 128, "%.*s", (int)(close - line - 1), line + 1);
    section_check(section);
}

/* Parses one line of the file, without blanks around it: a key of the reader's section, or the head of another. */
static void parse_line(Reader *r, char *line) {
    char *comment = find_comment(line), *separator = strpbrk(line, "=:");
    if (comment == line) return; /* or an empty line */
    if (*line == '[') {
        parse_section(line, r->section);
        return;
    }
    if (!separator || separator == line || separator > comment)
        config_error("this is neither a [section] nor key = value nor a comment (; or #)");
    *separator = 0;
    const char *name = text_trim(line);
    char *value = text_trim(separator + 1);
    if (*value != '"') *comment = 0;
    assign(r, name, text_trim(value));
}

/* Parses the text of a file and cuts it into lines. `where` is its path for messages. */
static void parse_text(Reader *reader, char *text, const char *where) {
    static const char BYTE_ORDER_MARK[] = "\xEF\xBB\xBF";
    char shown[108], *line;
    if (strncmp(text, BYTE_ORDER_MARK, 3) == 0) text += 3;
    for (char *c = text; (c = strchr(c, '\r')) != NULL;) *c = c[1] == '\n' ? ' ' : '\n';
    while ((line = strsep(&text, "\n"))) {
        line = text_trim(line);
        reader->origin++;
        text_clip(line, 100, shown, sizeof shown);
        snprintf(config_place, PLACE_MAX, "%s:%d: \"%s\"", where, reader->origin, shown);
        parse_line(reader, line);
    }
}

/* Writes a hint for the path of a file that is missing: the same with .ini, one in configs/, or the verbs. */
static void hint_at_file(const char *path, char *hint, size_t capacity) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char candidates[3][512], found[4096];
    if (strlen(path) > 400 || !*base) return;
    snprintf(candidates[0], sizeof *candidates, "%s.ini", path);
    snprintf(candidates[1], sizeof *candidates, "configs/%s", base);
    snprintf(candidates[2], sizeof *candidates, "configs/%s.ini", base);
    for (size_t i = 0; i < 3; i++) {
        if (access(path_installed(candidates[i], found), F_OK) != 0) continue;
        snprintf(hint, capacity, "; did you mean %s?", candidates[i]);
        return;
    }
    if (!strpbrk(path, "./")) snprintf(hint, capacity, "; %s --help lists the verbs", program_name);
}

static char *read_text(const char *path) {
    char found[4096], hint[2048] = "";
    const char *file = path_installed(path, found);
    size_t size;
    if (access(file, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        const char *reason = strerror(errno);
        hint_at_file(path, hint, sizeof hint);
        usage_error("cannot read config %s: %s%s", path, reason, hint);
    }
    char *text = file_read(file, "config", FILE_LIMIT, &size);
    if (strlen(text) != size) usage_error("%s holds a zero byte; a config is text in UTF-8", path);
    return text;
}

/* Parses "section.key = value". A name that begins with "sweep." has a list of values for [sweep]. */
static void apply_override(Reader *reader, const char *override) {
    static const char SWEEP[] = "sweep.";
    char shown[108], *text = memory_copy_text(override, strlen(override)), *value = text;
    text_clip(override, 100, shown, sizeof shown);
    snprintf(config_place, PLACE_MAX, "--set %s", shown);
    const char *name = text_trim(strsep(&value, "="));
    if (!value || !*name) config_error("write section.key=value");
    const bool swept = strncmp(name, SWEEP, strlen(SWEEP)) == 0;
    snprintf(reader->section, sizeof reader->section, "%s", swept ? "sweep" : "");
    reader->origin = ORIGIN_OVERRIDE;
    assign(reader, name + (swept ? strlen(SWEEP) : 0), text_trim(value));
    memory_free(text);
}

static bool is_given_at(const Config *config, size_t offset) { return config_is_given(config, key_at(offset)); }

/* Stores d_model in a divisor sqrt_dmodel, so that divisor_value needs no config. */
static void resolve_divisor(const Config *config, DivisorChoice *divisor) {
    if (divisor->mode == SCALE_SQRT_DMODEL) divisor->number = (double)config->model.d_model;
}

/* Returns a tenth of a number as one would write it: 0.0003 for 0.003, where the quotient is 0.00030000000000000003. */
static double tenth(double number) {
    char text[32];
    snprintf(text, sizeof text, "%.15g", number / 10);
    return strtod(text, NULL);
}

/* Fills in the defaults that depend on other keys. */
static void derive_defaults(Config *config) {
    if (!is_given_at(config, KEY(model.d_k))) config->model.d_k = config->model.d_model / config->model.heads;
    if (!is_given_at(config, KEY(model.d_ff))) config->model.d_ff = 4 * config->model.d_model;
    if (!is_given_at(config, KEY(train.shards))) config->train.shards = config->train.batch % 2 == 0 ? 2 : 1;
    if (!is_given_at(config, KEY(train.min_lr))) config->train.min_lr = tenth(config->train.lr);
    if (!is_given_at(config, KEY(train.momentum)))
        config->train.momentum = config->train.optimizer == OPTIMIZER_MUON ? 0.95 : 0.9;
    if (!is_given_at(config, KEY(attention.scale_divisor)))
        config->attention.scale_divisor =
            (DivisorChoice){.mode = config->attention.score == SCORE_ADDITIVE ? SCALE_NONE : SCALE_SQRT_DK};
    if (!is_given_at(config, KEY(attention.switch_divisor)))
        config->attention.switch_divisor = config->attention.scale_divisor;
    resolve_divisor(config, &config->attention.scale_divisor);
    resolve_divisor(config, &config->attention.switch_divisor);
    if (!is_given_at(config, KEY(log.out))) snprintf(config->log.out, sizeof config->log.out, "runs/%s", config->name);
}

/* Returns whether a divisor is missing that must be given: with l2, dot products are cosines, which the default sqrt_dk
   makes nearly equal. */
static bool lacks_divisor(const Config *config) {
    return config->attention.qk_norm == QK_NORM_L2 && config->attention.scale_divisor.mode == SCALE_SQRT_DK &&
           config->attention.scale_learned == LEARNED_NO && !is_given_at(config, KEY(attention.scale_divisor));
}

/* Checks what concerns several keys. An error begins with `where`. */
static void check_together(const Config *config, const char *where) {
    char a[96], b[96];
    snprintf(config_place, PLACE_MAX, "%s", where);
    if (!is_given_at(config, KEY(model.d_k)) && config->model.d_model % config->model.heads != 0)
        config_error("%s does not divide %s; choose others, or set model.d_k", key_text(config, KEY(model.heads), a),
                     key_text(config, KEY(model.d_model), b));
    if (config->train.min_lr > config->train.lr)
        config_error("%s is above %s; it takes a number up to lr", key_text(config, KEY(train.min_lr), a),
                     key_text(config, KEY(train.lr), b));
    if ((config->train.shards & (config->train.shards - 1)) != 0 || config->train.batch % config->train.shards != 0)
        config_error("%s must be a power of two that divides %s", key_text(config, KEY(train.shards), a),
                     key_text(config, KEY(train.batch), b));
    if (config->attention.switch_step > 0 && !is_given_at(config, KEY(attention.switch_divisor)))
        config_error("%s needs attention.switch_divisor, the divisor from then on",
                     key_text(config, KEY(attention.switch_step), a));
    if (is_given_at(config, KEY(attention.switch_divisor)) && !is_given_at(config, KEY(attention.switch_step)))
        config_error("%s needs attention.switch_step, the step from which on it holds",
                     key_text(config, KEY(attention.switch_divisor), a));
    refused_pairs_check(config);
    if (lacks_divisor(config))
        config_error("%s needs attention.scale_divisor or attention.scale_learned: cosines over sqrt_dk are nearly "
                     "equal, and 1/sqrt(d_k) is the divisor that makes them vary as q.k / sqrt(d_k) does",
                     key_text(config, KEY(attention.qk_norm), a));
    if (config->data.task == TASK_RECALL && config->model.context < 2 * config->data.recall_pairs + 1)
        config_error("%s takes a context of at least %zu, and %s", key_text(config, KEY(data.recall_pairs), a),
                     2 * config->data.recall_pairs + 1, key_text(config, KEY(model.context), b));
}

/* Names the config, and by default the run, after its file: the path without directory and ".ini". */
static void name_from_path(Config *config, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".ini") == 0) length -= 4;
    snprintf(config->name, sizeof config->name, "%.*s", (int)length, base);
    text_make_plain(config->name);
}

/* Replaces the relative path of a text that the working directory lacks by the path beside the config. */
static void find_corpus(Config *config, const char *path) {
    char beside[sizeof config->data.corpus], *corpus = config->data.corpus;
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0,
              length = snprintf(beside, sizeof beside, "%.*s%s", folder, path, corpus);
    const bool relative = *corpus && *corpus != '/', fits = length > 0 && length < (int)sizeof beside;
    if (relative && fits && !path_exists(corpus) && path_exists(beside)) memcpy(corpus, beside, sizeof beside);
}

/* Makes a config of the text of a file, which it changes. The runs of a sweep are checked when each has its values. */
static void load(Reader reader, char *text, const char *const *overrides, size_t count) {
    Config *config = reader.config;
    char where[512];
    text_clip(reader.path, 400, where, sizeof where);
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (KEYS[i].initial) value_parse(&KEYS[i], KEYS[i].initial, (char *)config + KEYS[i].offset);
    parse_text(&reader, text, where);
    name_from_path(config, reader.path);
    for (size_t i = 0; i < count; i++) apply_override(&reader, overrides[i]);
    find_corpus(config, reader.path);
    derive_defaults(config);
    if (!reader.swept) check_together(config, where);
}

void config_load(Config *config, const SweepReader *sweep, const char *path, const char *const *overrides,
                 size_t override_count) {
    char *text = read_text(path);
    load((Reader){.config = config, .sweep = sweep, .path = path}, text, overrides, override_count);
    memory_free(text);
}

void config_from_text(Config *config, const char *text, const char *name) {
    char *copy = memory_copy_text(text, strlen(text));
    load((Reader){.config = config, .path = name}, copy, NULL, 0);
    memory_free(copy);
}

void config_with(const Config *config, size_t count, const size_t keys[], const char *const values[], Config *out) {
    *out = *config;
    for (size_t i = 0; i < count; i++) {
        value_parse(&KEYS[keys[i]], values[i], (char *)out + KEYS[keys[i]].offset);
        out->origin[keys[i]] = ORIGIN_SWEEP;
    }
    derive_defaults(out);
    check_together(out, "[sweep]");
}

void config_default_text(const Config *config, size_t key, char *out, size_t capacity) {
    Config copy = *config;
    copy.origin[key] = ORIGIN_DEFAULT;
    if (KEYS[key].initial) value_parse(&KEYS[key], KEYS[key].initial, (char *)&copy + KEYS[key].offset);
    derive_defaults(&copy);
    config_value_text(&copy, key, out, capacity);
}

DivisorChoice config_divisor_choice(const Config *config, size_t step) {
    const size_t from = config->attention.switch_step;
    return from > 0 && step >= from ? config->attention.switch_divisor : config->attention.scale_divisor;
}

const char *config_target(const Config *config) { return config->data.task == TASK_RECALL ? "answer" : "character"; }

/* Returns whether two values of a key are the same. The path of a text may be relative in one. */
static bool is_same(const char *key, const char *a, const char *b) {
    if (strcmp(a, b) == 0) return true;
    if (strcmp(key, "data.corpus") != 0) return false;
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    const bool same = x && y && strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

void config_check_same(const Config *given, const char *path, const Config *trained, const char *run) {
    const double min_lr = given->train.min_lr;
    char ours[CONFIG_VALUE_MAX], theirs[CONFIG_VALUE_MAX];
    for (size_t key = 0; key < KEY_COUNT; key++) {
        config_value_text(given, key, ours, sizeof ours);
        config_value_text(trained, key, theirs, sizeof theirs);
        if (key == key_at(KEY(train.min_lr)) && fabs(min_lr - trained->train.min_lr) < 1e-15 * min_lr)
            continue; /* up to version 0.6.0, lr/10 was not rounded to its decimal digits */
        if (!is_same(KEYS[key].full, ours, theirs))
            usage_error("%.400s gives the run %s \"%s = %.100s\", but it was trained with \"%s = %.100s\": set back "
                        "whichever of the two files was edited",
                        path, run, KEYS[key].full, ours, KEYS[key].full, theirs);
    }
}
