/* The [sweep] section. */
#include "lab/sweep/section.h"

#include <string.h>

#include "base/text.h"

/* Adds one value to an axis, in the form of config_write, in which 1 and 1.0 are the same text. */
static void axis_add(SweepAxis *axis, const char *text) {
    char shown[64], value[sizeof *axis->values];
    if (!*text) config_error("a value is missing; write values with commas between them");
    text_clip(text, 40, shown, sizeof shown);
    config_check_value(axis->key, text, value, sizeof value);
    for (size_t i = 0; i < axis->count; i++)
        if (strcmp(value, axis->values[i]) == 0) config_error("the value %s is given twice", shown);
    if (axis->count == SWEEP_VALUES_MAX)
        config_error("%s has more than the %d values accepted", config_key_name(axis->key), SWEEP_VALUES_MAX);
    memcpy(axis->values[axis->count], value, sizeof value);
    axis->count++;
}

/* Returns the key's axis, a new one if it has none. */
static SweepAxis *find_axis(SweepAxes *axes, size_t key) {
    size_t a = 0;
    if (config_key_is_text(key))
        config_error("%s is a text; texts and directories cannot be swept", config_key_name(key));
    while (a < axes->count && axes->axis[a].key != key) a++;
    if (a == SWEEP_AXES_MAX) config_error("more than the %d keys that [sweep] accepts", SWEEP_AXES_MAX);
    if (a == axes->count) {
        axes->axis[a] = (SweepAxis){.key = key};
        axes->count++;
    }
    return &axes->axis[a];
}

/* Gives a key its list of values, in place of an earlier list. */
static int assign(void *to, size_t key, char *list, int origin) {
    SweepAxis *axis = find_axis(to, key);
    const int before = axis->origin;
    axis->origin = origin;
    axis->count = 0;
    for (char *rest = list, *one; (one = strsep(&rest, ","));) axis_add(axis, text_trim(one));
    return before;
}

SweepReader axes_reader(SweepAxes *axes) {
    axes->count = 0;
    return (SweepReader){assign, axes};
}

void axes_load(Config *config, SweepAxes *axes, const char *path, const char *const *overrides, size_t count) {
    const SweepReader reader = axes_reader(axes);
    config_load(config, &reader, path, overrides, count);
}

size_t combinations_count(const SweepAxes *axes, size_t most) {
    size_t count = 1;
    for (size_t a = 0; a < axes->count; a++) {
        count *= axes->axis[a].count;
        if (count > most) usage_error("[sweep] has more than %zu combinations", most);
    }
    return count;
}

void combinations_config(const Config *config, const SweepAxes *axes, size_t i, Config *out) {
    size_t keys[SWEEP_AXES_MAX];
    const char *values[SWEEP_AXES_MAX];
    for (size_t a = axes->count; a-- > 0; i /= axes->axis[a].count) {
        keys[a] = axes->axis[a].key;
        values[a] = axes->axis[a].values[i % axes->axis[a].count];
    }
    config_with(config, axes->count, keys, values, out);
}

void combinations_print(const SweepAxes *axes, const char *indent, FILE *out) {
    for (const SweepAxis *axis = axes->axis; axis < axes->axis + axes->count; axis++) {
        fprintf(out, "%s%s =", indent, config_key_name(axis->key));
        for (size_t i = 0; i < axis->count; i++) fprintf(out, "%s%s", i ? ", " : " ", axis->values[i]);
        fputc('\n', out);
    }
}
