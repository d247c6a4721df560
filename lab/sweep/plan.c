/* The runs and settings of a sweep before anything is trained: configs, names, labels, which settings are compared with
   each other, and the order in which others train the runs. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "lab/sweep/sweep.h"

static const char *short_name(const SweepAxes *axes, size_t axis) {
    const char *name = config_key_name(axes->axis[axis].key), *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

const char *sweep_key(const SweepAxes *axes, size_t axis) {
    const char *name = short_name(axes, axis);
    bool ambiguous = strcmp(name, "divisor") == 0 || strcmp(name, "result") == 0 || strcmp(name, "error") == 0;
    for (Measure m = 0; m < MEASURE_COUNT; m++) ambiguous = ambiguous || strcmp(MEASURES[m].name, name) == 0;
    for (size_t other = 0; other < axes->count; other++)
        ambiguous = ambiguous || (other != axis && strcmp(short_name(axes, other), name) == 0);
    return ambiguous ? config_key_name(axes->axis[axis].key) : name;
}

/* Returns whether a swept key is this one, "section.key". */
static bool axis_is(const SweepAxes *axes, size_t axis, const char *name) {
    return strcmp(config_key_name(axes->axis[axis].key), name) == 0;
}

/* "scale_divisor=none+seed=1", from values in the form in which the program writes them. */
static void name_run(const SweepAxes *axes, SweepRun *run) {
    size_t used = 0;
    for (size_t a = 0; a < axes->count && used < sizeof run->name; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&run->config, axes->axis[a].key, value, sizeof value);
        used += (size_t)snprintf(run->name + used, sizeof run->name - used, "%s%s=%s", a ? "+" : "", sweep_key(axes, a),
                                 value);
    }
    if (used >= sizeof run->name) usage_error("[sweep] has too many keys for the name of a directory");
    snprintf(run->config.name, sizeof run->config.name, "%s", run->name);
}

static void label_divisor(const Sweep *s, const Config *config, char label[SETTING_LABEL]) {
    char title[64];
    size_t d_k = config->model.d_k;
    for (size_t i = 0; i < s->run_count; i++)
        if (s->runs[i].config.model.d_k != config->model.d_k) d_k = 0; /* 0: a title that holds for any d_k */
    scale_title(config->attention.scale_divisor, d_k, title, sizeof title);
    text_append(label, SETTING_LABEL, "÷ %s", title);
}

static void label_setting(const Sweep *s, SweepSetting *setting) {
    const Config *config = &s->runs[setting->run[0]].config;
    char *label = setting->label;
    for (size_t a = 0; a < s->axes.count; a++) {
        char value[CONFIG_VALUE_MAX];
        if (axis_is(&s->axes, a, "train.seed")) continue;
        config_value_text(config, s->axes.axis[a].key, value, sizeof value);
        if (*label) text_append(label, SETTING_LABEL, ", ");
        if (a == s->divisor_axis) label_divisor(s, config, label);
        else text_append(label, SETTING_LABEL, "%s %s", sweep_key(&s->axes, a), value);
    }
    if (!*label) label_divisor(s, config, label);
    text_make_plain(label);
}

/* Makes the run of combination i; the last key varies fastest. Its setting's number is i, counted without the seed's
   values; `others` is counted without the divisor's as well. */
static void make_run(Sweep *s, size_t i) {
    SweepRun *run = &s->runs[i];
    size_t value_index[SWEEP_AXES_MAX] = {0}, others = 0, settings = 1, other_settings = 1, rest = i;
    combinations_config(&s->config, &s->axes, i, &run->config);
    name_run(&s->axes, run);
    for (size_t a = s->axes.count; a-- > 0;) {
        const size_t count = s->axes.axis[a].count, value = rest % count;
        rest /= count;
        if (axis_is(&s->axes, a, "train.seed")) {
            run->seed = value;
            continue;
        }
        value_index[a] = value;
        run->setting += value * settings;
        settings *= count;
        if (a == s->divisor_axis) continue;
        others += value * other_settings;
        other_settings *= count;
    }
    SweepSetting *setting = &s->settings[run->setting];
    setting->run[run->seed] = i;
    setting->count++;
    setting->others = others;
    memcpy(setting->value_index, value_index, sizeof value_index);
    s->setting_count = settings;
}

/* Returns whether a config divides by √d_k. Multipliers are compared as the model has them, rounded to `real`. */
static bool divides_by_sqrt_dk(const Config *config) {
    const size_t d_k = config->model.d_k;
    return divisor_multiplier(divisor_value(config->attention.scale_divisor, d_k)) ==
           divisor_multiplier(sqrt((double)d_k));
}

static size_t find_reference(const Sweep *s, size_t setting) {
    for (size_t other = 0; other < s->setting_count; other++)
        if (s->settings[other].others == s->settings[setting].others &&
            divides_by_sqrt_dk(&s->runs[s->settings[other].run[0]].config))
            return other;
    return NO_SETTING;
}

void sweep_plan(Sweep *s) {
    if (s->axes.count == 0)
        usage_error("the config has no [sweep] section: add one such as \"[sweep]\" with \"attention.scale_divisor = "
                    "sqrt_dk, none\"");
    s->run_count = combinations_count(&s->axes, RUNS_MAX);
    s->runs = memory_make(s->run_count, sizeof *s->runs, "the runs of a sweep");
    s->settings = memory_make(s->run_count, sizeof *s->settings, "the settings of a sweep");
    while (s->divisor_axis < s->axes.count && !axis_is(&s->axes, s->divisor_axis, "attention.scale_divisor"))
        s->divisor_axis++;
    for (size_t i = 0; i < s->run_count; i++) make_run(s, i);
    for (size_t i = 0; i < s->setting_count; i++) {
        label_setting(s, &s->settings[i]);
        s->settings[i].reference = find_reference(s, i);
    }
}

void sweep_shuffle(const Sweep *s, SweepRun *runs[RUNS_MAX]) {
    const Rng rng = rng_make(0, RNG_SHUFFLE, 0);
    size_t order[RUNS_MAX], count = 0;
    for (size_t g = 0; g < s->setting_count; g++) { /* Fisher and Yates, from the inside out (Durstenfeld 1964) */
        const size_t at = rng_below(&rng, g, g + 1);
        order[g] = order[at];
        order[at] = g;
    }
    for (size_t g = 0; g < s->setting_count; g++) {
        const SweepSetting *setting = &s->settings[order[g]];
        for (size_t i = 0; i < setting->count; i++) runs[count++] = &s->runs[setting->run[i]];
    }
}
