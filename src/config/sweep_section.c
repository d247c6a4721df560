/* The [sweep] section: keys with their values, and the combinations of these. Values are checked when they are read,
   so that a mistake is found before the first run. */
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* Adds one value to an axis, in the form of config_write, in which 1 and 1.0 are the same text. */
static void axis_add(SweepAxis *axis, const char *text) {
    const Key *key = &KEYS[axis->key];
    const size_t place = strlen(config_place);
    Config config;
    char shown[64], *member = (char *)&config + key->offset, value[sizeof *axis->values];
    if (!*text) config_error("a value is missing; write values with commas between them");
    text_clip(text, 40, shown, sizeof shown);
    text_append(config_place, PLACE_MAX, ": the value \"%s\"", shown);
    value_parse(key, text, member);
    config_place[place] = 0;
    value_text(key, member, value, sizeof value);
    for (size_t i = 0; i < axis->count; i++)
        if (strcmp(value, axis->values[i]) == 0) config_error("the value %s is given twice", shown);
    if (axis->count == SWEEP_VALUES_MAX)
        config_error("%s has more than the %d values accepted", key->full, SWEEP_VALUES_MAX);
    memcpy(axis->values[axis->count], value, sizeof value);
    axis->count++;
}

SweepAxis *axes_find(SweepAxes *axes, size_t key) {
    size_t a = 0;
    if (KEYS[key].kind == KIND_TEXT)
        config_error("%s is a text; texts and directories cannot be swept", KEYS[key].full);
    while (a < axes->count && axes->axis[a].key != key) a++;
    if (a == SWEEP_AXES_MAX) config_error("more than the %d keys that [sweep] accepts", SWEEP_AXES_MAX);
    if (a == axes->count) {
        axes->axis[a] = (SweepAxis){.key = key};
        axes->count++;
    }
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
        for (size_t i = 0; i < axis->count; i++) fprintf(out, "%s%s", i ? ", " : " ", axis->values[i]);
        fputc('\n', out);
    }
}
