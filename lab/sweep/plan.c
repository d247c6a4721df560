/* The runs and settings of a sweep before anything is trained: configs, names, labels, which settings are compared with
   each other, and the share of the runs that a process trains, as the user gives it, or as a batch system or mpirun
   gives it to each process that it starts. */
#include <math.h>
#include <stdlib.h>
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
    return (real)(1 / divisor_value(config->attention.scale_divisor, d_k)) == (real)(1 / sqrt((double)d_k));
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

/* --- shares */

/* The variables by which each batch system or mpirun numbers its processes. An array of Slurm may begin at any number
   and have steps; ranks of MPI count from 0. */
typedef struct {
    const char *number, *count, *first, *step;
} Numbering;
static const Numbering NUMBERINGS[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL},
    {"PMI_RANK", "PMI_SIZE", NULL, NULL},
};

/* Reads a whole number of at most nine digits up to the character `end`. Returns NULL if there is none. */
static const char *read_number(const char *text, char end, size_t *number) {
    const size_t digits = strspn(text, "0123456789");
    *number = strtoul(text, NULL, 10);
    return digits > 0 && digits < 10 && text[digits] == end ? text + digits : NULL;
}

/* Reads a variable of the environment. The number is `otherwise` if the variable has no name or is not set. */
static size_t read_variable(const char *name, size_t otherwise) {
    const char *text = name ? getenv(name) : NULL;
    size_t number = otherwise;
    if (text && !read_number(text, 0, &number))
        usage_error("--share auto: %s is \"%.40s\", which is not a whole number: say --share I/N", name, text);
    return number;
}

static void read_environment(size_t *share, size_t *shares) {
    const Numbering *n = NUMBERINGS, *end = n + sizeof NUMBERINGS / sizeof *n;
    while (n < end && !getenv(n->number)) n++;
    if (n == end)
        usage_error(
            "--share auto: neither SLURM_ARRAY_TASK_ID nor OMPI_COMM_WORLD_RANK nor PMI_RANK is set: start this "
            "by an array of Slurm or by mpirun, or say --share I/N");
    if (!getenv(n->count)) usage_error("--share auto: %s is set, but %s is not: say --share I/N", n->number, n->count);
    const size_t number = read_variable(n->number, 0), first = read_variable(n->first, 0),
                 step = read_variable(n->step, 1);
    *shares = read_variable(n->count, 0);
    if (step == 0 || number < first || (number - first) % step != 0 || (number - first) / step >= *shares)
        usage_error(
            "--share auto: %s is %zu, which is none of %zu that begin at %zu in steps of %zu (%s): use an array "
            "without gaps, or say --share I/N",
            n->number, number, *shares, first, step, n->count);
    *share = (number - first) / step;
}

void share_read(const char *text, size_t *share, size_t *shares) {
    if (strcmp(text, "auto") == 0) {
        read_environment(share, shares);
        return;
    }
    const char *slash = read_number(text, '/', share);
    if (!slash || !read_number(slash + 1, 0, shares) || *share == 0 || *share > *shares)
        usage_error("--share takes I/N with I from 1 to N, as 2/8, or auto, not \"%.40s\"", text);
    --*share;
}

size_t share_runs(const Sweep *s, SweepRun *runs[RUNS_MAX]) {
    const Rng rng = rng_make(0, RNG_SHARES, 0);
    size_t order[RUNS_MAX], count = 0, dealt = 0;
    if (s->shares == 0) {
        for (size_t i = 0; i < s->run_count; i++) runs[i] = &s->runs[i];
        return s->run_count;
    }
    for (size_t g = 0; g < s->setting_count; g++) { /* Fisher and Yates, from the inside out (Durstenfeld 1964) */
        const size_t at = rng_below(&rng, g, g + 1);
        order[g] = order[at];
        order[at] = g;
    }
    for (size_t g = 0; g < s->setting_count; g++) {
        const SweepSetting *setting = &s->settings[order[g]];
        for (size_t i = 0; i < setting->count; i++)
            if ((dealt + i) % s->shares == s->share) runs[count++] = &s->runs[setting->run[i]];
        dealt += setting->count;
    }
    return count;
}
