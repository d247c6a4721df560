/* The [sweep] section: keys with the values they take, and the combinations of these. Values are checked at once, so
   that a mistake is found before the first run. They are kept as they were written, so that a run is named as its value
   was typed. */
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* Writes a value as config_write does, so that 1 and 1.0 become the same text. */
static void make_canonical(const Key *key, const char *written, char out[64]) {
    Config config;
    char *member = (char *)&config + key->offset;
    value_parse(key, written, member);
    value_text(key, member, out, 64);
}

/* Adds one value to an axis. */
static void axis_add(SweepAxis *axis, const char *text) {
    const Key *key = &KEYS[axis->key];
    const size_t place = strlen(config_place);
    char shown[64], canonical[64], other[64];
    text_clip(text, 40, shown, sizeof shown);
    if (!*text) config_error("a value is missing; write values with commas between them");
    if (strlen(text) >= sizeof axis->values[0])
        config_error("the value %s has more than the %zu bytes accepted", shown, sizeof axis->values[0] - 1);
    text_append(config_place, PLACE_MAX, ": the value \"%s\"", shown);
    make_canonical(key, text, canonical);
    config_place[place] = 0;
    for (size_t i = 0; i < axis->count; i++) {
        make_canonical(key, axis->values[i], other);
        if (strcmp(canonical, other) == 0) config_error("the value %s is given twice", shown);
    }
    if (axis->count == SWEEP_VALUES_MAX)
        config_error("%s has more than the %d values accepted", key->full, SWEEP_VALUES_MAX);
    memcpy(axis->values[axis->count++], text, strlen(text) + 1);
}

bool axes_have(const SweepAxes *axes, size_t key) {
    for (size_t a = 0; axes && a < axes->count; a++)
        if (axes->axis[a].key == key) return true;
    return false;
}

SweepAxis *axes_find(SweepAxes *axes, size_t key) {
    size_t a = 0;
    if (KEYS[key].kind == KIND_TEXT)
        config_error("%s is a text; texts and directories cannot be swept", KEYS[key].full);
    while (a < axes->count && axes->axis[a].key != key) a++;
    if (a == SWEEP_AXES_MAX) config_error("more than the %d keys that [sweep] accepts", SWEEP_AXES_MAX);
    if (a == axes->count) axes->axis[axes->count++] = (SweepAxis){.key = key};
    return &axes->axis[a];
}

void axis_assign(SweepAxis *axis, const char *written) {
    char list[2 * sizeof axis->values];
    axis->count = 0;
    value_unquote(written, list, sizeof list);
    for (char *rest = list, *one; (one = strsep(&rest, ","));) axis_add(axis, text_trim(one));
}

size_t combinations_count(const SweepAxes *axes, size_t most) {
    size_t count = 1;
    for (size_t a = 0; a < axes->count; a++) {
        count *= axes->axis[a].count;
        if (count > most) usage_error("[sweep] has more than %zu combinations", most);
    }
    return count;
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
