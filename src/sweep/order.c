/* The order in which pictures show the groups of a sweep, and how each is drawn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sweep/parts.h"

static const Config *config_of(const Sweep *s, size_t group) {
    return &s->arms.arms[s->arms.groups[group].arm[0]].config;
}

/* Which swept key is the divisor; sweep_count: none. */
static size_t divisor_axis(const Sweep *s) {
    size_t axis = 0;
    while (axis < s->arms.config->sweep_count && !arms_axis_is(s->arms.config, axis, SCALE_KEY)) axis++;
    return axis;
}

double sweep_number(const Sweep *s, size_t axis, size_t group) {
    const Config *c = config_of(s, group);
    char text[CONFIG_VALUE_MAX], *end;
    if (axis == divisor_axis(s))
        return divisor_value(c->attention.scale_divisor, (size_t)c->model.d_k) / sqrt((double)c->model.d_k);
    config_value_text(c, s->arms.config->sweep[axis].setting, text, sizeof text);
    double number = strtod(text, &end);
    return end == text || *end ? NAN : number;
}

/* By divisor first, all for the d_k of the first group; then by the other keys: by number, and where a value is no
   number, in the order of the config. */
static bool comes_before(const Sweep *s, size_t a, size_t b) {
    const size_t axis = divisor_axis(s), d_k = (size_t)config_of(s, 0)->model.d_k;
    double x = divisor_value(config_of(s, a)->attention.scale_divisor, d_k),
           y = divisor_value(config_of(s, b)->attention.scale_divisor, d_k);
    for (size_t i = 0; x == y && i < s->arms.config->sweep_count; i++) {
        if (i == axis) continue;
        x = sweep_number(s, i, a);
        y = sweep_number(s, i, b);
        if (!(x < y || x > y)) {
            x = (double)arms_digit(s->arms.config, a, i);
            y = (double)arms_digit(s->arms.config, b, i);
        }
    }
    return x < y;
}

void sweep_sort(const Sweep *s, size_t groups[ARMS_MAX]) {
    for (size_t g = 0; g < s->arms.group_count; g++) {
        size_t at = g;
        for (; at > 0 && comes_before(s, g, groups[at - 1]); at--) groups[at] = groups[at - 1];
        groups[at] = g;
    }
}

size_t sweep_shown(const Sweep *s, size_t groups[ARMS_MAX]) {
    size_t count = 0;
    sweep_sort(s, groups);
    for (size_t i = 0; i < s->arms.group_count; i++)
        if (s->arms.groups[groups[i]].same_as == groups[i]) groups[count++] = groups[i];
    return count;
}

/* Of the groups that are the same as this one, one whose divisor has a name, or else this one. */
static ScaleDivisor named_divisor(const Sweep *s, size_t group) {
    for (size_t g = 0; g < s->arms.group_count; g++)
        if (s->arms.groups[g].same_as == s->arms.groups[group].same_as &&
            config_of(s, g)->attention.scale_divisor.mode != SCALE_NUMBER)
            return config_of(s, g)->attention.scale_divisor;
    return config_of(s, group)->attention.scale_divisor;
}

Style sweep_style(const Sweep *s, size_t group, size_t without, size_t index, double *dash) {
    static const double dashes[] = {0, 9, 4, 16, 2, 24};
    const size_t axis = divisor_axis(s);
    size_t others = 0, keys = 0, smaller = 0;
    char name[64];
    for (size_t i = 0; i < s->arms.config->sweep_count; i++) {
        if (i == axis || i == without || arms_axis_is(s->arms.config, i, "train.seed")) continue;
        others += arms_digit(s->arms.config, group, i);
        keys++;
    }
    *dash = 0;
    if (axis == without && keys == 0) return (Style){.color = {80, 80, 80}}; /* one curve of all divisors */
    if (axis == without || (axis == s->arms.config->sweep_count && keys > 0)) return style_at(index);
    *dash = dashes[others % (sizeof dashes / sizeof *dashes)];
    /* Along an x axis a number may coincide with a name at one point; the curve is still that of the number. */
    const ScaleDivisor divisor =
        without == SIZE_MAX ? named_divisor(s, group) : config_of(s, group)->attention.scale_divisor;
    for (size_t g = 0; g < s->arms.group_count; g++) {
        const ScaleDivisor other = config_of(s, g)->attention.scale_divisor;
        smaller +=
            arms_agree_but(s->arms.config, axis, g, 0) && other.mode == SCALE_NUMBER && other.number < divisor.number;
    }
    scale_text(divisor, name, sizeof name);
    return style_of_divisor(name, smaller);
}

void sweep_append_keys(const Sweep *s, char *out, size_t capacity) {
    const char *between = " by ";
    for (size_t i = 0; i < s->arms.config->sweep_count; i++) {
        if (arms_axis_is(s->arms.config, i, "train.seed")) continue;
        text_append(out, capacity, "%s%s", between, i == divisor_axis(s) ? "divisor" : arms_key(s->arms.config, i));
        between = " and ";
    }
}

void sweep_append_ends(const Sweep *s, const Outcome *settings, size_t count, const char *format, char *out,
                       size_t capacity) {
    const Outcome *least = NULL, *most = NULL;
    for (const Outcome *now = settings; now < settings + count; now++) {
        if (!isfinite(now->value)) continue;
        if (!least || now->value < least->value) least = now;
        if (!most || now->value > most->value) most = now;
    }
    if (!least) return;
    text_append(out, capacity, ": ");
    text_append(out, capacity, format, least->value);
    text_append(out, capacity, " for %s", s->arms.groups[least->group].label);
    if (least == most) return;
    text_append(out, capacity, " to ");
    text_append(out, capacity, format, most->value);
    text_append(out, capacity, " for %s", s->arms.groups[most->group].label);
}

Seeds sweep_seeds(const Sweep *s) {
    Seeds seeds = {.fewest = SIZE_MAX};
    for (size_t g = 0; g < s->arms.group_count; g++) {
        const size_t finished = sweep_group(s, g).finished;
        if (finished == 0) continue;
        if (finished < seeds.fewest) seeds.fewest = finished;
        if (finished > seeds.most) seeds.most = finished;
        seeds.range = seeds.range || (finished > 1 && finished <= SWEEP_FEW_SEEDS);
    }
    return seeds;
}
