/* The [sweep] section: keys with the values they take, and the combinations of these. Values are checked at once, so
   that a mistake is found before the first run. They are kept as they were written, so that a run is named as its value
   was typed. */
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* Writes a value as config_write does, so that 1 and 1.0 become the same text. */
static bool canonical(size_t key, const char *text, char out[64], Error *why) {
    Config config;
    if (!value_parse(&KEYS[key], text, (char *)&config + KEYS[key].offset, why)) return false;
    config_value_text(&config, key, out, 64);
    return true;
}

/* Adds one value to an axis. */
static bool axis_add(SweepAxis *axis, const char *text, Error *why) {
    const Key *key = &KEYS[axis->key];
    char shown[64], value[64], other[64];
    text_clip(text, 40, shown, sizeof shown);
    if (!*text) return usage_error(why, "a value is missing; write values with commas between them");
    if (strlen(text) >= sizeof axis->values[0])
        return usage_error(why, "the value %s has more than the %zu bytes accepted", shown, sizeof axis->values[0] - 1);
    if (!canonical(axis->key, text, value, why)) return usage_error(why, "the value \"%s\": %s", shown, why->message);
    for (size_t i = 0; i < axis->count; i++)
        if (canonical(axis->key, axis->values[i], other, why) && strcmp(value, other) == 0)
            return usage_error(why, "the value %s is given twice", shown);
    if (axis->count == SWEEP_VALUES_MAX)
        return usage_error(why, "%s has more than the %d values accepted", key->full, SWEEP_VALUES_MAX);
    memcpy(axis->values[axis->count++], text, strlen(text) + 1);
    return true;
}

bool axes_have(const SweepAxes *axes, size_t key) {
    for (size_t a = 0; axes && a < axes->count; a++)
        if (axes->axis[a].key == key) return true;
    return false;
}

bool axes_find(SweepAxes *axes, size_t key, SweepAxis **axis, Error *why) {
    size_t a = 0;
    if (KEYS[key].kind == KIND_TEXT)
        return usage_error(why, "%s is a text; texts and directories cannot be swept", KEYS[key].full);
    while (a < axes->count && axes->axis[a].key != key) a++;
    if (a == SWEEP_AXES_MAX) return usage_error(why, "more than the %d keys that [sweep] accepts", SWEEP_AXES_MAX);
    *axis = &axes->axis[a];
    if (a < axes->count) return true;
    **axis = (SweepAxis){.key = key};
    axes->count++;
    return true;
}

bool axis_assign(SweepAxis *axis, const char *written, Error *why) {
    char list[2 * sizeof axis->values];
    axis->count = 0;
    if (!value_unquote(written, list, sizeof list, why)) return false;
    for (char *rest = list, *one; (one = strsep(&rest, ","));)
        if (!axis_add(axis, text_trim(one), why)) return false;
    return true;
}

bool combinations_count(const SweepAxes *axes, size_t most, size_t *count, Error *err) {
    *count = 1;
    for (size_t a = 0; a < axes->count; a++) {
        *count *= axes->axis[a].count;
        if (*count > most) return usage_error(err, "[sweep] has more than %zu combinations", most);
    }
    return true;
}

void combinations_print(const SweepAxes *axes, const char *indent, FILE *out) {
    for (const SweepAxis *axis = axes->axis; axis < axes->axis + axes->count; axis++) {
        fprintf(out, "%s%s =", indent, config_key_name(axis->key));
        for (size_t i = 0; i < axis->count; i++) {
            fputs(i ? ", " : " ", out);
            text_write(axis->values[i], strlen(axis->values[i]), out);
        }
        fputc('\n', out);
    }
}
