/* The order in which the settings of a sweep are shown, and their colours and dashes. */
#include <stdlib.h>

#include "lab/report/report.h"

static const Config *config_of(const Sweep *s, size_t setting) { return &s->runs[s->settings[setting].run[0]].config; }

/* Returns a setting's value of a swept key, by which settings are ordered: the divisor for the d_k of the first
   setting, a number, or the place of a value that is no number in the config. */
static double number_of(const Sweep *s, size_t axis, size_t setting) {
    char text[CONFIG_VALUE_MAX], *end;
    const Config *c = config_of(s, setting);
    if (axis == s->divisor_axis) return divisor_value(c->attention.scale_divisor, config_of(s, 0)->model.d_k);
    config_value_text(c, s->axes.axis[axis].key, text, sizeof text);
    const double number = strtod(text, &end);
    return end == text || *end ? (double)s->settings[setting].value_index[axis] : number;
}

/* Returns whether setting a is shown before b: by divisor first, then by the other keys. */
static bool comes_before(const Sweep *s, size_t a, size_t b) {
    double x = number_of(s, s->divisor_axis, a), y = number_of(s, s->divisor_axis, b);
    for (size_t i = 0; x == y && i < s->axes.count; i++) {
        x = number_of(s, i, a);
        y = number_of(s, i, b);
    }
    return x < y;
}

void report_sort(const Sweep *s, size_t order[RUNS_MAX]) {
    for (size_t g = 0; g < s->setting_count; g++) {
        size_t at = g;
        for (; at > 0 && comes_before(s, g, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = g;
    }
}

/* Returns the divisor that decides a setting's style. A number that equals a named divisor for this d_k is drawn as
   that: 8 as √d_k where d_k is 64. */
static DivisorChoice named_divisor(const Config *config) {
    static const ScaleMode named[] = {SCALE_SQRT_DK, SCALE_NONE, SCALE_DK, SCALE_2SQRT_DK};
    const size_t d_k = config->model.d_k;
    const DivisorChoice own = config->attention.scale_divisor;
    for (size_t i = 0; own.mode == SCALE_NUMBER && i < sizeof named / sizeof *named; i++)
        if (divisor_value((DivisorChoice){named[i], 0}, d_k) == own.number) return (DivisorChoice){named[i], 0};
    return own;
}

Color report_style(const Sweep *s, size_t setting, double *dash) {
    static const double dashes[] = {0, 9, 4, 16, 2, 24};
    const DivisorChoice divisor = named_divisor(config_of(s, setting));
    size_t smaller = 0, before = 0;
    bool divisors_differ = s->setting_count == 1;
    char name[64];
    for (size_t g = 0; g < s->setting_count; g++) {
        const DivisorChoice other = named_divisor(config_of(s, g));
        const bool same = other.mode == divisor.mode && (other.mode != SCALE_NUMBER || other.number == divisor.number);
        divisors_differ = divisors_differ || !same;
        before += g < setting && same;
        smaller += s->settings[g].others == 0 && other.mode == SCALE_NUMBER && other.number < divisor.number;
    }
    *dash = divisors_differ ? dashes[before % (sizeof dashes / sizeof *dashes)] : 0;
    scale_text(divisor, name, sizeof name);
    return divisors_differ ? palette_divisor(name, smaller) : palette_divisor("", setting);
}
