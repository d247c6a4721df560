/* The order in which settings are shown, and their styles. */
#include <math.h>
#include <stdlib.h>

#include "sweep/parts.h"

static const Config *config_of(const Sweep *s, size_t setting) { return &s->runs[s->settings[setting].run[0]].config; }

/* A setting's value of a swept key; NaN where it is no number. */
static double number_of(const Sweep *s, size_t axis, size_t setting) {
    char text[CONFIG_VALUE_MAX], *end;
    config_value_text(config_of(s, setting), s->config.sweep[axis].key, text, sizeof text);
    double number = strtod(text, &end);
    return end == text || *end ? NAN : number;
}

/* By divisor first, all for the d_k of the first setting; then by the other keys: by number, and where a value is no
   number, in the order of the config. */
static bool comes_before(const Sweep *s, size_t a, size_t b) {
    const size_t axis = s->divisor_axis, d_k = (size_t)config_of(s, 0)->model.d_k;
    double x = divisor_value(config_of(s, a)->attention.scale_divisor, d_k),
           y = divisor_value(config_of(s, b)->attention.scale_divisor, d_k);
    for (size_t i = 0; x == y && i < s->config.sweep_count; i++) {
        if (i == axis) continue;
        x = number_of(s, i, a);
        y = number_of(s, i, b);
        if (!(x < y || x > y)) {
            x = (double)s->settings[a].digit[i];
            y = (double)s->settings[b].digit[i];
        }
    }
    return x < y;
}

void sweep_sort(const Sweep *s, size_t order[RUNS_MAX]) {
    for (size_t g = 0; g < s->setting_count; g++) {
        size_t at = g;
        for (; at > 0 && comes_before(s, g, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = g;
    }
}

/* A number that equals a named divisor for this d_k is drawn as that: 8 as √d_k where d_k is 64. */
static ScaleDivisor named_divisor(const Config *config) {
    static const ScaleMode named[] = {SCALE_SQRT_DK, SCALE_NONE, SCALE_DK, SCALE_2SQRT_DK};
    const size_t d_k = (size_t)config->model.d_k;
    const ScaleDivisor own = config->attention.scale_divisor;
    for (size_t i = 0; own.mode == SCALE_NUMBER && i < sizeof named / sizeof *named; i++)
        if (divisor_value((ScaleDivisor){named[i], 0}, d_k) == own.number) return (ScaleDivisor){named[i], 0};
    return own;
}

Style sweep_style(const Sweep *s, size_t setting, double *dash) {
    static const double dashes[] = {0, 9, 4, 16, 2, 24};
    const size_t axis = s->divisor_axis;
    size_t others = 0, keys = 0, smaller = 0;
    char name[64];
    for (size_t i = 0; i < s->config.sweep_count; i++) {
        if (i == axis || sweep_axis_is(&s->config, i, "train.seed")) continue;
        others = others * s->config.sweep[i].count + s->settings[setting].digit[i];
        keys++;
    }
    *dash = 0;
    if (axis == s->config.sweep_count && keys > 0) return style_of_divisor("", setting); /* none of the named ones */
    *dash = dashes[others % (sizeof dashes / sizeof *dashes)];
    const ScaleDivisor divisor = named_divisor(config_of(s, setting));
    for (size_t g = 0; g < s->setting_count; g++) {
        const ScaleDivisor other = config_of(s, g)->attention.scale_divisor;
        smaller += sweep_agree_but(s, axis, g, 0) && other.mode == SCALE_NUMBER && other.number < divisor.number;
    }
    scale_text(divisor, name, sizeof name);
    Style style = style_of_divisor(name, smaller);
    style.marker.open ^= others % 2 == 1;
    return style;
}
