/* A sweep's curves over training: one for each setting, the mean over its seeds, with a band where there are several.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "show/chart.h"
#include "sweep/parts.h"

typedef struct {
    CurveKind kind;
    const char *file, *name, *y_label, *value; /* value: a printf format */
    bool logarithmic;                          /* where values span a decade */
} Picture;

/* A setting's line: the runs it is made of, and the mean and the ends of the band at each step that all of them have.
 */
typedef struct {
    size_t setting;
    const RunResults *runs[SWEEP_VALUES_MAX];
    size_t run_count, count;
    double *mean, *low, *high;       /* (count), in one allocation */
    char label[SETTING_LABEL + 128]; /* the setting, how many of its runs finished, the last mean */
} Line;

static double last_mean(const Line *line) { return line->count ? line->mean[line->count - 1] : NAN; }
static const double *steps_of(const Line *line, CurveKind kind) {
    return line->run_count ? line->runs[0]->curves[kind].step : NULL;
}

/* The runs that finished; where none did, those that got anywhere. */
static void choose_runs(const Sweep *s, const Picture *picture, Line *line) {
    const SweepSetting *setting = &s->settings[line->setting];
    line->count = SIZE_MAX;
    for (size_t i = 0; i < setting->count; i++) {
        const SweepRun *run = &s->runs[setting->run[i]];
        const size_t count = run->results.curves[picture->kind].count;
        if (count == 0 || (setting->finished && run->state != RUN_FINISHED)) continue;
        line->runs[line->run_count++] = &run->results;
        if (count < line->count) line->count = count;
    }
    if (line->run_count == 0) line->count = 0;
    for (size_t i = 1; i < line->run_count; i++)
        while (line->count && memcmp(steps_of(line, picture->kind), line->runs[i]->curves[picture->kind].step,
                                     line->count * sizeof(double)) != 0)
            line->count--;
    text_append(line->label, sizeof line->label, "%s", setting->label);
    if (setting->finished < setting->count)
        text_append(line->label, sizeof line->label, ", %zu of %zu finished", setting->finished, setting->count);
}

/* The mean and the band of the runs that were chosen. */
static bool fill_line(const Picture *picture, bool range, Line *line, Error *err) {
    line->mean = calloc(3 * (line->count + 1), sizeof(double));
    if (!line->mean) return error_set(err, STATUS_FAILED, "no memory for a curve of %zu points", line->count);
    line->low = line->mean + line->count;
    line->high = line->low + line->count;
    for (size_t i = 0; i < line->count; i++) {
        double values[SWEEP_VALUES_MAX];
        for (size_t run = 0; run < line->run_count; run++)
            values[run] = line->runs[run]->curves[picture->kind].value[i];
        const Band band = sweep_band(values, line->run_count, range);
        line->mean[i] = band.mean;
        line->low[i] = band.low;
        line->high[i] = band.high;
    }
    if (isfinite(last_mean(line))) {
        text_append(line->label, sizeof line->label, "  ");
        text_append(line->label, sizeof line->label, picture->value, last_mean(line));
    }
    return true;
}

/* What was swept, and what came out. */
static void write_title(const Sweep *s, const Picture *picture, const Line *lines, size_t count, char *out,
                        size_t capacity) {
    Outcome last[SWEEP_LINES_MAX];
    double most = 0, fewest = INFINITY; /* steps of a line */
    for (size_t i = 0; i < count; i++) {
        last[i] = (Outcome){lines[i].setting, last_mean(&lines[i])};
        if (lines[i].count == 0) continue;
        most = fmax(most, steps_of(&lines[i], picture->kind)[lines[i].count - 1]);
        fewest = fmin(fewest, steps_of(&lines[i], picture->kind)[lines[i].count - 1]);
    }
    snprintf(out, capacity, "%s", picture->name);
    sweep_append_keys(s, out, capacity);
    if (most == fewest) text_append(out, capacity, " after %.0f step%s", most, most == 1 ? "" : "s");
    sweep_append_ends(s, last, count, picture->value, out, capacity);
}

/* Values that span more than a decade, all of them above zero. */
static bool wants_log(const Line *lines, size_t count) {
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < lines[i].count; k++) {
            low = fmin(low, lines[i].mean[k]);
            high = fmax(high, lines[i].mean[k]);
        }
    return low > 0 && high > 10 * low && isfinite(high);
}

/* Validation losses that are few are points, in front of the training loss of the first seed, which is noisy but has no
   gaps; other curves of few points have a thin line to guide the eye. Returns whether there are such points. */
static bool make_series(const Sweep *s, CurveKind kind, const Line *lines, size_t count, Series *series) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const Line *line = &lines[i];
        const bool few = line->count <= CHART_FEW_POINTS, points = few && kind == CURVE_VAL_LOSS;
        Series *own = &series[count + i];
        *own = (Series){.label = line->label,
                        .x = steps_of(line, kind),
                        .y = line->mean,
                        .count = line->count,
                        .thickness = points ? 0
                                     : few  ? 1.5
                                            : 2.5,
                        .markers = true,
                        .low = line->run_count > 1 ? line->low : NULL,
                        .high = line->run_count > 1 ? line->high : NULL};
        own->style = sweep_style(s, line->setting, SIZE_MAX, i, &own->dash);
        if (!points || s->settings[line->setting].finished == 0) continue; /* a diverging loss would flatten the rest */
        const Curve *train = &line->runs[0]->curves[CURVE_TRAIN_LOSS];
        own->shift = ((double)i - (double)(count - 1) / 2) * fmin(8, 32.0 / (double)count);
        series[i] = (Series){.x = train->step, .y = train->value, .count = train->count, .dash = own->dash};
        series[i].style.color = chart_pale(own->style.color);
        series[i].thickness = 1;
        any = true;
    }
    return any;
}

static bool draw_lines(const Sweep *s, const Picture *picture, Seeds seeds, const Line *lines, size_t count,
                       Error *err) {
    Series series[2 * SWEEP_LINES_MAX] = {0}; /* (2, count): the training losses, or nothing; the curves */
    char path[4096], title[1024], subtitle[256], y_label[128];
    const bool log_scale = picture->logarithmic && wants_log(lines, count),
               points = make_series(s, picture->kind, lines, count, series);
    write_title(s, picture, lines, count, title, sizeof title);
    snprintf(y_label, sizeof y_label, "%s%s", picture->y_label, log_scale ? ", logarithmic" : "");
    sweep_describe_band(points ? "point" : "line", seeds, subtitle, sizeof subtitle);
    if (points)
        text_append(subtitle, sizeof subtitle, "; pale: training loss, one batch; points side by side are of one step");
    sweep_append_left_out(s, count, subtitle, sizeof subtitle);
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = "step",
                         .y_label = y_label,
                         .series = series,
                         .count = 2 * count,
                         .y_base = log_scale ? 10 : 0};
    return path_join(path, sizeof path, s->directory, picture->file, err) && chart_save(&chart, path, err);
}

static bool draw(const Sweep *s, const Picture *picture, Error *err) {
    Line *lines = calloc(SWEEP_LINES_MAX, sizeof *lines);
    size_t order[RUNS_MAX], count = 0;
    Seeds seeds = {0};
    sweep_sort(s, order);
    bool ok = lines || error_set(err, STATUS_FAILED, "no memory for the curves of %s", picture->file);
    for (; ok && count < s->setting_count && count < SWEEP_LINES_MAX; count++) {
        lines[count].setting = order[count];
        choose_runs(s, picture, &lines[count]);
        seeds_add(&seeds, lines[count].run_count);
    }
    for (size_t i = 0; ok && i < count; i++) ok = fill_line(picture, seeds.range, &lines[i], err);
    ok = ok && draw_lines(s, picture, seeds, lines, count, err);
    for (size_t i = 0; i < count; i++) free(lines[i].mean);
    free(lines);
    return ok;
}

bool sweep_draw_curves(const Sweep *s, Error *err) {
    char loss[64];
    snprintf(loss, sizeof loss, "loss (nats per %s)", config_target(&s->config));
    const Picture pictures[] = {
        {CURVE_VAL_LOSS, "loss.png", "Validation loss", loss, "%.3f", false},
        {CURVE_ENTROPY, "entropy.png", "Entropy of attention", "entropy, mean over all heads (1: uniform, 0: one-hot)",
         "%.2f", false},
        {CURVE_SCORE_STD, "score_std.png", "Standard deviation of the scores",
         "standard deviation of the scores, mean over all heads", "%.3g", true},
        {CURVE_QK_NORM, "qk_norm.png", "Size of the query and key weights",
         "‖W_Q‖ ‖W_K‖ (Frobenius), mean over all heads", "%.3g", true},
    };
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        if (!draw(s, &pictures[i], err)) return false;
    return true;
}
