/* A sweep's final losses against a swept number: the learning rate, d_k, the divisor itself. A line for each
   combination of the other keys. */
#include <math.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/text.h"
#include "show/chart.h"
#include "sweep/parts.h"

/* Values that make a curve; of the divisor more, which is mostly swept as a choice of four. */
enum { NUMBERS = 3, DIVISORS = 5 };

/* The swept number with the most values, the divisor only where there is no other; sweep_count: none. */
static size_t choose_axis(const Sweep *s) {
    const Config *c = &s->config;
    size_t best = c->sweep_count, divisor = c->sweep_count;
    for (size_t a = 0; a < c->sweep_count; a++) {
        bool numbers = !sweep_axis_is(c, a, "train.seed");
        for (size_t g = 0; numbers && g < s->setting_count; g++) numbers = isfinite(sweep_number(s, a, g));
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

/* Logarithmic, unless some x is not above zero or they span less than a factor of four: to base 2 where all x are
   powers of √2 (8 and 5.66), else 10. */
static double choose_base(const FinalLosses *f) {
    double low = INFINITY, high = 0;
    bool twos = true;
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; k < f->lines[i].count; k++) {
            double x = f->lines[i].x[k], power = 2 * log2(x);
            low = fmin(low, x);
            high = fmax(high, x);
            twos = twos && fabs(power - round(power)) < .02;
        }
    return !(low > 0) || high < 4 * low ? 0 : twos ? 2 : 10;
}

bool sweep_final_losses(const Sweep *s, FinalLosses *f) {
    *f = (FinalLosses){.axis = choose_axis(s)};
    if (f->axis == s->config.sweep_count) return false;
    size_t order[RUNS_MAX];
    f->seeds = sweep_seeds(s);
    sweep_sort(s, order);
    for (size_t i = 0; i < s->setting_count; i++) {
        FinalLine *line = line_of(s, f, order[i]);
        if (line)
            add_point(s, order[i], sweep_number(s, f->axis, order[i]), f->seeds.range, line);
        else
            f->more++;
    }
    f->base = choose_base(f);
    return true;
}

static bool draw(const Sweep *s, const FinalLosses *f, Error *err) {
    Series series[SWEEP_LINES_MAX] = {0};
    Outcome outcomes[RUNS_MAX];
    char path[4096], title[1024] = "Final validation loss", subtitle[256], x_label[128], y_label[64],
                     labels[SWEEP_LINES_MAX][SETTING_LABEL + 64];
    for (size_t i = 0; i < f->count; i++) {
        const FinalLine *line = &f->lines[i];
        sweep_label(s, line->setting, f->axis, labels[i]);
        if (line->diverged)
            text_append(labels[i], sizeof labels[i], "%s%zu diverged", *labels[i] ? ": " : "", line->diverged);
        series[i] = (Series){.label = *labels[i] ? labels[i] : NULL,
                             .x = line->x,
                             .y = line->mean,
                             .count = line->count,
                             .thickness = 2,
                             .markers = true,
                             .low = line->band ? line->low : NULL,
                             .high = line->band ? line->high : NULL};
        series[i].style = sweep_style(s, line->setting, f->axis, i, &series[i].dash);
    }
    snprintf(y_label, sizeof y_label, "final validation loss (nats per %s)", config_target(&s->config));
    sweep_describe_band("point", f->seeds, subtitle, sizeof subtitle);
    if (f->more) text_append(subtitle, sizeof subtitle, "; the first %zu lines", f->count);
    for (size_t g = 0; g < s->setting_count; g++) {
        const Interval loss = s->settings[g].mean[MEASURE_VAL_LOSS];
        outcomes[g] = (Outcome){g, loss.count ? loss.mean : NAN};
    }
    sweep_append_keys(s, title, sizeof title);
    sweep_append_ends(s, outcomes, s->setting_count, "%.3f", title, sizeof title);
    snprintf(x_label, sizeof x_label, "%s%s",
             f->axis == s->divisor_axis ? "divisor / √d_k" : sweep_key(&s->config, f->axis),
             f->base > 0 ? " (logarithmic)" : "");
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = x_label,
                         .y_label = y_label,
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
