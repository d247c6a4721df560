/* A sweep's final losses against a swept number: the learning rate, d_k, the divisor itself. A line for each
   combination of the other keys. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "show/chart.h"
#include "sweep/parts.h"

/* Values that make a curve; of the divisor more, which is mostly swept as a choice of four. */
enum { NUMBERS = 3, DIVISORS = 5 };

/* Where a setting stands on an axis; NaN where that is no number. The divisor counts in √d_k. */
static double place(const Sweep *s, size_t axis, size_t setting) {
    const Config *c = &s->runs[s->settings[setting].run[0]].config;
    char text[CONFIG_VALUE_MAX], *end;
    if (axis == s->divisor_axis)
        return divisor_value(c->attention.scale_divisor, (size_t)c->model.d_k) / sqrt((double)c->model.d_k);
    config_value_text(c, s->config.sweep[axis].key, text, sizeof text);
    double number = strtod(text, &end);
    return end == text || *end ? NAN : number;
}

/* The swept number with the most values, the divisor only where there is no other; sweep_count: none. */
static size_t choose_axis(const Sweep *s) {
    const Config *c = &s->config;
    size_t best = c->sweep_count, divisor = c->sweep_count;
    for (size_t a = 0; a < c->sweep_count; a++) {
        bool numbers = !sweep_axis_is(c, a, "train.seed");
        for (size_t g = 0; numbers && g < s->setting_count; g++) numbers = isfinite(place(s, a, g));
        if (!numbers) continue;
        if (a == s->divisor_axis)
            divisor = c->sweep[a].count >= DIVISORS ? a : divisor;
        else if (c->sweep[a].count >= NUMBERS && (best == c->sweep_count || c->sweep[a].count > c->sweep[best].count))
            best = a;
    }
    return best < c->sweep_count ? best : divisor;
}

/* The line of a setting, a new one if there is none; NULL when there are too many. */
static FinalLine *line_of(const Sweep *s, FinalLosses *f, size_t setting) {
    for (size_t i = 0; i < f->count; i++)
        if (sweep_agree_but(s, f->axis, f->lines[i].setting, setting)) return &f->lines[i];
    if (f->count == SWEEP_LINES_MAX) return NULL;
    f->lines[f->count].setting = setting;
    return &f->lines[f->count++];
}

static void count_seeds(const Sweep *s, FinalLosses *f) {
    f->fewest = SIZE_MAX;
    for (size_t g = 0; g < s->setting_count; g++) {
        size_t finished = s->settings[g].finished;
        if (finished == 0) continue;
        if (finished < f->fewest) f->fewest = finished;
        if (finished > f->most) f->most = finished;
        f->range = f->range || (finished > 1 && finished <= SWEEP_FEW_SEEDS);
    }
}

/* In its place by x. */
static void add_point(const Sweep *s, size_t setting, double x, bool range, FinalLine *line) {
    double losses[SWEEP_VALUES_MAX];
    size_t count = sweep_setting_losses(s, setting, losses), at = line->count++;
    const Band band = sweep_band(losses, count, range);
    for (; at > 0 && line->x[at - 1] > x; at--) {
        line->x[at] = line->x[at - 1];
        line->mean[at] = line->mean[at - 1];
        line->low[at] = line->low[at - 1];
        line->high[at] = line->high[at - 1];
    }
    line->x[at] = x;
    line->mean[at] = count ? band.mean : NAN;
    line->low[at] = count < 2 ? NAN : band.low;
    line->high[at] = count < 2 ? NAN : band.high;
    line->band = line->band || count > 1;
    line->diverged += s->settings[setting].diverged;
}

/* Logarithms, unless some x is not above zero or they differ little: to base 2 where all x are powers of √2 (8 and
   5.66), else 10. */
static void take_logarithms(FinalLosses *f) {
    double low = INFINITY, high = 0;
    bool twos = true;
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; k < f->lines[i].count; k++) {
            double x = f->lines[i].x[k], power = 2 * log2(x);
            low = fmin(low, x);
            high = fmax(high, x);
            twos = twos && fabs(power - round(power)) < .02;
        }
    if (!(low > 0) || high < 4 * low) return;
    f->base = twos ? 2 : 10;
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; k < f->lines[i].count; k++) f->lines[i].x[k] = log(f->lines[i].x[k]) / log(f->base);
}

bool sweep_final_losses(const Sweep *s, FinalLosses *f) {
    *f = (FinalLosses){.axis = choose_axis(s)};
    if (f->axis == s->config.sweep_count) return false;
    count_seeds(s, f);
    for (size_t g = 0; g < s->setting_count; g++) {
        FinalLine *line = line_of(s, f, g);
        if (line)
            add_point(s, g, place(s, f->axis, g), f->range, line);
        else
            f->more++;
    }
    take_logarithms(f);
    return true;
}

static bool draw(const Sweep *s, const FinalLosses *f, Error *err) {
    Series series[SWEEP_LINES_MAX] = {0};
    char path[4096], title[512], subtitle[256], x_label[64], labels[SWEEP_LINES_MAX][SETTING_LABEL + 64];
    for (size_t i = 0; i < f->count; i++) {
        const FinalLine *line = &f->lines[i];
        sweep_label(s, line->setting, f->axis, labels[i]);
        if (line->diverged)
            text_append(labels[i], sizeof labels[i], "%s%zu diverged", *labels[i] ? ": " : "", line->diverged);
        series[i] = (Series){.label = *labels[i] ? labels[i] : NULL,
                             .x = line->x,
                             .y = line->mean,
                             .count = line->count,
                             .color = chart_color(i),
                             .thickness = 2.5,
                             .dashed = i >= SWEEP_COLORS,
                             .markers = true,
                             .low = line->band ? line->low : NULL,
                             .high = line->band ? line->high : NULL};
    }
    sweep_describe_band("point", f->fewest, f->most, f->range, subtitle, sizeof subtitle);
    if (f->more) text_append(subtitle, sizeof subtitle, "; the first %zu lines", f->count);
    snprintf(title, sizeof title, "%s: final validation loss", s->config.name);
    snprintf(x_label, sizeof x_label, "%s",
             f->axis == s->divisor_axis ? "divisor / √d_k" : sweep_key(&s->config, f->axis));
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = x_label,
                         .y_label = "loss (nats per character)",
                         .series = series,
                         .count = f->count,
                         .x_base = f->base};
    return path_join(path, sizeof path, s->directory, "final.png", err) && chart_save(&chart, path, err);
}

bool sweep_has_final(const Sweep *s) { return choose_axis(s) < s->config.sweep_count; }

bool sweep_draw_final(const Sweep *s, Error *err) {
    FinalLosses *losses = malloc(sizeof *losses);
    if (!losses) return error_set(err, STATUS_FAILED, "no memory for the lines of final.png");
    bool ok = !sweep_final_losses(s, losses) || draw(s, losses, err);
    free(losses);
    return ok;
}
