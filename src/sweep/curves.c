/* A sweep's curves over training: a line for each setting, the mean over its seeds, and a band where there are several.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "show/chart.h"
#include "sweep/parts.h"

enum { PALE_MAX = 6 }; /* as many lines have their batches behind them, which would hide more */

typedef struct {
    CurveKind kind;
    const char *file, *title, *y_label;
    bool logarithmic; /* where values span a decade */
} Picture;

/* A setting's line: the runs it is made of, and the mean and the ends of the band at each step that all of them have.
 */
typedef struct {
    const RunResults *runs[SWEEP_VALUES_MAX];
    size_t run_count, count;
    double *x, *mean, *low, *high; /* (count), in one allocation */
    char label[SETTING_LABEL + 64];
} Line;

/* The runs that finished; where none did, those that got anywhere. */
static void choose_runs(const Sweep *s, const SweepSetting *setting, CurveKind kind, Line *line) {
    size_t diverged = 0, left = 0;
    for (int any = 0; any < 2 && line->run_count == 0; any++)
        for (size_t i = 0; i < setting->count; i++) {
            const SweepRun *run = &s->runs[setting->run[i]];
            if ((any || run->state == RUN_FINISHED) && run->results.curves[kind].count)
                line->runs[line->run_count++] = &run->results;
        }
    for (size_t i = 0; i < setting->count; i++) {
        SweepRunState state = s->runs[setting->run[i]].state;
        diverged += state == RUN_DIVERGED;
        left += state != RUN_DIVERGED && state != RUN_FINISHED;
    }
    snprintf(line->label, sizeof line->label, "%s", setting->label);
    if (diverged + left == 0) return;
    if (setting->count == 1)
        text_append(line->label, sizeof line->label, diverged ? ": diverged" : ": not finished");
    else
        text_append(line->label, sizeof line->label, ": %zu of %zu %s", diverged + left, setting->count,
                    left == 0       ? "diverged"
                    : diverged == 0 ? "not finished"
                                    : "diverged or not finished");
}

/* Steps in common, from the first on. */
static size_t common_steps(const Line *line, CurveKind kind) {
    const Curve *first = &line->runs[0]->curves[kind];
    size_t count = first->count;
    for (size_t i = 1; i < line->run_count; i++) {
        const Curve *curve = &line->runs[i]->curves[kind];
        size_t same = 0;
        while (same < count && same < curve->count && curve->step[same] == first->step[same]) same++;
        count = same;
    }
    return count;
}

static bool make_line(const Sweep *s, const SweepSetting *setting, CurveKind kind, Line *line, Error *err) {
    *line = (Line){0};
    choose_runs(s, setting, kind, line);
    line->count = line->run_count ? common_steps(line, kind) : 0;
    line->x = calloc(4 * (line->count + 1), sizeof(double));
    if (!line->x) return error_set(err, STATUS_FAILED, "no memory for a curve of %zu points", line->count);
    line->mean = line->x + line->count;
    line->low = line->mean + line->count;
    line->high = line->low + line->count;
    return true;
}

/* `range`: the band goes from the lowest run to the highest; else it is the interval of the mean. */
static void fill_line(Line *line, CurveKind kind, bool range) {
    for (size_t i = 0; i < line->count; i++) {
        double values[SWEEP_VALUES_MAX];
        for (size_t run = 0; run < line->run_count; run++) values[run] = line->runs[run]->curves[kind].value[i];
        const Band band = sweep_band(values, line->run_count, range);
        line->x[i] = line->runs[0]->curves[kind].step[i];
        line->mean[i] = band.mean;
        line->low[i] = band.low;
        line->high[i] = band.high;
    }
}

static Color pale(Color color) {
    return (Color){(unsigned char)(170 + color.r / 3), (unsigned char)(170 + color.g / 3),
                   (unsigned char)(170 + color.b / 3)};
}

/* For a logarithmic axis; a band whose low end is not above zero is left out there. */
static void take_logarithms(Line *line) {
    for (size_t i = 0; i < line->count; i++) {
        line->mean[i] = log10(line->mean[i]);
        line->low[i] = line->low[i] > 0 ? log10(line->low[i]) : NAN;
        line->high[i] = log10(line->high[i]);
    }
}

/* What the lines and bands are, and what is not there. */
static void describe(const Line *lines, size_t count, size_t settings, bool range, bool batches, char *out,
                     size_t capacity) {
    size_t fewest = SIZE_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        if (lines[i].run_count == 0) continue;
        if (lines[i].run_count < fewest) fewest = lines[i].run_count;
        if (lines[i].run_count > most) most = lines[i].run_count;
    }
    sweep_describe_band("line", fewest, most, range, out, capacity);
    if (batches) text_append(out, capacity, "; pale: the training batches");
    if (count < settings) text_append(out, capacity, "; the first %zu of %zu settings", count, settings);
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

static bool draw_lines(const Sweep *s, const Picture *picture, Line *lines, size_t count, Error *err) {
    Series series[2 * SWEEP_LINES_MAX] = {0};
    char path[4096], title[512], subtitle[256], y_label[128];
    size_t used = 0, fewest = SIZE_MAX;
    bool one_each = true;
    for (size_t i = 0; i < count; i++) {
        if (lines[i].run_count > 1 && lines[i].run_count < fewest) fewest = lines[i].run_count;
        one_each = one_each && lines[i].run_count < 2;
    }
    bool range = fewest <= SWEEP_FEW_SEEDS, batches = picture->kind == CURVE_VAL_LOSS && one_each && count <= PALE_MAX;
    for (size_t i = 0; i < count; i++) fill_line(&lines[i], picture->kind, range);
    bool log_scale = picture->logarithmic && wants_log(lines, count);
    for (size_t i = 0; i < count && log_scale; i++) take_logarithms(&lines[i]);
    for (size_t i = 0; batches && i < count; i++) {
        if (lines[i].run_count == 0) continue;
        const Curve *train = &lines[i].runs[0]->curves[CURVE_TRAIN_LOSS];
        series[used++] = (Series){
            .x = train->step, .y = train->value, .count = train->count, .color = pale(chart_color(i)), .thickness = 1};
    }
    for (size_t i = 0; i < count; i++) {
        const Line *line = &lines[i];
        bool band = line->run_count > 1;
        series[used++] = (Series){.label = line->label,
                                  .x = line->x,
                                  .y = line->mean,
                                  .count = line->count,
                                  .color = chart_color(i),
                                  .thickness = 2.5,
                                  .dashed = i >= SWEEP_COLORS,
                                  .markers = i < SWEEP_COLORS && line->count <= 60,
                                  .low = band ? line->low : NULL,
                                  .high = band ? line->high : NULL};
    }
    snprintf(title, sizeof title, "%s: %s", s->config.name, picture->title);
    snprintf(y_label, sizeof y_label, "%s%s", picture->y_label, log_scale ? ", logarithmic" : "");
    describe(lines, count, s->setting_count, range, batches, subtitle, sizeof subtitle);
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = "step",
                         .y_label = y_label,
                         .series = series,
                         .count = used,
                         .y_base = log_scale ? 10 : 0};
    return path_join(path, sizeof path, s->directory, picture->file, err) && chart_save(&chart, path, err);
}

static bool draw(const Sweep *s, const Picture *picture, Error *err) {
    Line *lines = calloc(SWEEP_LINES_MAX, sizeof *lines);
    size_t count = 0;
    bool ok = lines || error_set(err, STATUS_FAILED, "no memory for the curves of %s", picture->file);
    for (size_t g = 0; ok && g < s->setting_count && count < SWEEP_LINES_MAX; g++) {
        ok = make_line(s, &s->settings[g], picture->kind, &lines[count], err);
        count += ok;
    }
    ok = ok && draw_lines(s, picture, lines, count, err);
    for (size_t i = 0; i < count; i++) free(lines[i].x);
    free(lines);
    return ok;
}

bool sweep_draw_curves(const Sweep *s, Error *err) {
    static const Picture pictures[] = {
        {CURVE_VAL_LOSS, "loss.png", "validation loss", "loss (nats per character)", false},
        {CURVE_ENTROPY, "entropy.png", "entropy of attention", "entropy, mean over all heads (1: uniform, 0: one-hot)",
         false},
        {CURVE_SCORE_STD, "score_std.png", "standard deviation of the attention scores",
         "standard deviation of the scores, mean over all heads", true},
        {CURVE_QK_NORM, "qk_norm.png", "size of the weights of queries and keys",
         "‖W_Q‖ ‖W_K‖ (Frobenius), mean over all heads", true},
    };
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        if (!draw(s, &pictures[i], err)) return false;
    return true;
}
