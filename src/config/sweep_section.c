/* The [sweep] section: keys with the values they take, and the combinations of these. */
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* One value of an axis, from a text without blanks around it. */
static bool axis_add(SweepAxis *axis, const char *text, Error *why) {
    const Setting *setting = &SETTINGS[axis->setting];
    char shown[64];
    Error reason;
    Value value, other;
    text_clip(text, 40, shown, sizeof shown);
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

bool sweep_assign(Config *config, size_t setting, const char *written, Error *why) {
    char list[2 * sizeof config->sweep[0].values];
    size_t i = 0;
    if (SETTINGS[setting].kind == KIND_TEXT)
        return error_set(why, STATUS_USAGE, "%s is a text; texts and directories cannot be swept",
                         SETTINGS[setting].name);
    while (i < config->sweep_count && config->sweep[i].setting != setting) i++;
    if (i == SWEEP_AXES_MAX)
        return error_set(why, STATUS_USAGE, "more than the %d keys that [sweep] accepts", SWEEP_AXES_MAX);
    if (i == config->sweep_count) config->sweep_count++;
    SweepAxis *axis = &config->sweep[i];
    memset(axis, 0, sizeof *axis);
    axis->setting = setting;
    if (!value_unquote(written, list, sizeof list, why)) return false;
    for (char *rest = list, *text; (text = strsep(&rest, ","));)
        if (!axis_add(axis, text_trim(text), why)) return false;
    return true;
}

void sweep_combination(const Config *config, size_t i, const char **keys, const char **values) {
    for (size_t a = config->sweep_count; a-- > 0; i /= config->sweep[a].count) {
        keys[a] = config_key_name(config->sweep[a].setting);
        values[a] = config->sweep[a].values[i % config->sweep[a].count];
    }
}

bool combinations_count(const Config *config, size_t most, size_t *count, Error *err) {
    *count = 1;
    for (size_t a = 0; a < config->sweep_count; a++) {
        *count *= config->sweep[a].count;
        if (*count > most) return error_set(err, STATUS_USAGE, "[sweep] has more than %zu combinations", most);
    }
    return true;
}

void combinations_print(const Config *config, const char *indent, FILE *out) {
    for (size_t a = 0; a < config->sweep_count; a++) {
        fprintf(out, "%s%s =", indent, config_key_name(config->sweep[a].setting));
        for (size_t i = 0; i < config->sweep[a].count; i++)
            fprintf(out, "%s %s", i ? "," : "", config->sweep[a].values[i]);
        fputc('\n', out);
    }
}
