/* The pictures of a sweep, to take away: losses.png has the validation losses of all settings on one axis, and
   triangles.png the attention of one head, a column for each setting, the first step above the last. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "lab/report/report.h"
#include "run/pictures.h"

enum { COLUMNS = 16, ROWS = 2 }; /* at most so many columns, since a side of a picture is limited */

/* Adds a curve for each run of a setting. The first has the label: the mean final loss where runs have finished. */
static size_t add_setting(const Sweep *s, size_t index, Series *out) {
    const SweepSetting *setting = &s->settings[index];
    const Interval loss = setting->mean[MEASURE_VAL_LOSS];
    char *label = memory_make(1, SETTING_LABEL + 16, "a label of a chart");
    size_t count = 0;
    snprintf(label, SETTING_LABEL + 16, "%s", setting->label);
    if (loss.count) text_append(label, SETTING_LABEL + 16, ": %.3f", loss.mean);
    for (size_t i = 0; i < setting->count; i++) {
        const SweepRun *run = &s->runs[setting->run[i]];
        if (!sweep_has_logs(run)) continue;
        Series curve = picture_losses(run->directory);
        curve.color = report_style(s, index, &curve.dash);
        curve.thickness = setting->count > 1 ? 1.5 : 2.5;
        curve.label = count == 0 ? label : NULL;
        out[count] = curve;
        count += curve.points > 0;
    }
    return count;
}

/* Adds the losses of n-gram tables that the page shows, and returns their number. */
static size_t add_levels(const Sweep *s, const Json *losses, Series *out) {
    double ngrams[NGRAM_ORDERS], last = 0;
    if (js_array_size(losses) != NGRAM_ORDERS) return 0;
    for (size_t i = 0; i < NGRAM_ORDERS; i++) js_as_number(js_at(losses, i), &ngrams[i]);
    for (size_t i = 0; i < s->run_count; i++) last = fmax(last, s->runs[i].measured[MEASURE_STEPS]);
    return picture_levels(&s->config, ngrams, last, out);
}

static void draw_losses(const Sweep *s, const size_t *order, const Json *data, const Directory *into) {
    char title[512], subtitle[512], y_label[64];
    Series *curves = memory_make(s->run_count + NGRAM_ORDERS, sizeof *curves, "the curves of a sweep");
    const Config *configs[RUNS_MAX];
    for (size_t i = 0; i < s->run_count; i++) configs[i] = &s->runs[i].config;
    size_t count = add_levels(s, js_get(data, "ngram_losses"), curves);
    for (size_t i = 0; i < s->setting_count; i++) count += add_setting(s, order[i], curves + count);
    snprintf(title, sizeof title, "%s: validation loss by step", s->config.name);
    picture_model(configs, s->run_count, subtitle, sizeof subtitle);
    if (s->run_count > s->setting_count)
        text_append(subtitle, sizeof subtitle, "; a curve for each seed, at its end the mean");
    snprintf(y_label, sizeof y_label, "validation loss (nats per %s)", config_target(&s->runs[0].config));
    const Chart chart = {title, subtitle, y_label, curves, count, .print = true};
    chart_save(&chart, into, "losses.png");
}

/* --- triangles.png */

typedef struct {
    size_t setting;
    const SweepRun *run;
    Snapshot at[ROWS]; /* of its first and of its last step */
} Column;

/* Reads the snapshots of a column's run. */
static void read_snapshots(void *of_column) {
    Column *out = of_column;
    const LogTable table = logs_read_any(out->run->directory, LOG_ATTENTION);
    const double *step = table.column[ATTENTION_STEP];
    for (size_t row = 0; row < ROWS && table.rows; row++)
        out->at[row] = snapshot_load(out->run->directory, &out->run->config, (size_t)step[row ? table.rows - 1 : 0]);
    memory_free(table.numbers);
}

/* Fills the column of a setting. Returns false if it has no snapshots, or damaged ones, which the page notes. */
static bool read_column(const Sweep *s, size_t setting, Column *out) {
    Error why;
    *out = (Column){.setting = setting, .run = &s->runs[report_shown_run(s, &s->settings[setting])]};
    if (!sweep_has_logs(out->run)) return false;
    if (protect(read_snapshots, out, &why)) return out->at[0].T > 0;
    if (why.status != STATUS_USAGE) error_raise_again(&why);
    return false;
}

/* Returns the sum of the weights that a head's queries give to the character before them. */
static double weight_of_previous(const Snapshot *s, size_t layer, size_t head) {
    const float *weights = snapshot_weights(s, layer, head);
    double sum = 0;
    for (size_t query = 1; query < s->T; query++) sum += (double)weights[query * s->T + query - 1];
    return sum;
}

/* Chooses the head in which the story shows: the one that at the end looks most at the previous character, in the model
   that divides by √d_k, or else in the first. */
static void choose_head(const Column *columns, size_t count, size_t *layer, size_t *head) {
    const Snapshot *s = &columns[0].at[ROWS - 1];
    for (size_t i = count; i-- > 0;)
        if (columns[i].run->config.attention.scale_divisor.mode == SCALE_SQRT_DK) s = &columns[i].at[ROWS - 1];
    for (size_t i = 0; i < s->L * s->H; i++)
        if (weight_of_previous(s, i / s->H, i % s->H) > weight_of_previous(s, *layer, *head)) {
            *layer = i / s->H;
            *head = i % s->H;
        }
}

/* Fills a panel. A smaller model shows its last layer and head. */
static void fill_panel(const Sweep *s, const Column *column, size_t row, size_t layer, size_t head, Panel *panel) {
    const Snapshot *now = &column->at[row];
    const double loss = column->run->measured[MEASURE_VAL_LOSS];
    double dash;
    panel->weights = snapshot_weights(now, layer < now->L ? layer : now->L - 1, head < now->H ? head : now->H - 1);
    panel->color = report_style(s, column->setting, &dash);
    if (row == 0) snprintf(panel->label, sizeof panel->label, "%.90s", s->settings[column->setting].label);
    else if (isfinite(loss)) snprintf(panel->label, sizeof panel->label, "validation loss %.3f", loss);
}

static void draw_triangles(const Sweep *s, const size_t *order, const Directory *into) {
    Column *columns = memory_make(COLUMNS, sizeof *columns, "the columns of a picture");
    char title[512], subtitle[512], model[512], steps[ROWS][32];
    const char *const names[ROWS] = {steps[0], steps[1]};
    const Config *configs[COLUMNS];
    size_t count = 0, layer = 0, head = 0;
    for (size_t i = 0; i < s->setting_count && count < COLUMNS; i++) {
        const Snapshot *first = &columns[0].at[0], *now = &columns[count].at[0];
        if (!read_column(s, order[i], &columns[count])) continue;
        configs[count] = &columns[count].run->config;
        count += now->T == first->T && memcmp(now->text, first->text, now->T * sizeof *now->text) == 0;
    }
    if (count == 0) return;
    choose_head(columns, count, &layer, &head);
    const AttentionFigure figure = {title,
                                    subtitle,
                                    model,
                                    columns[0].at[0].text,
                                    columns[0].at[0].T,
                                    ROWS,
                                    count,
                                    memory_make(ROWS * count, sizeof *figure.panels, "the panels of a figure"),
                                    names};
    for (size_t row = 0; row < ROWS; row++) {
        snprintf(steps[row], sizeof *steps, "step %zu", columns[0].at[row].step);
        for (size_t i = 0; i < count; i++) {
            fill_panel(s, &columns[i], row, layer, head, &figure.panels[row * count + i]);
            if (columns[i].at[row].step != columns[0].at[row].step) snprintf(steps[row], sizeof *steps, "last step");
        }
    }
    snprintf(title, sizeof title, "%s: attention before and after training", s->config.name);
    snprintf(subtitle, sizeof subtitle, "layer %zu, head %zu on the text “", layer, head);
    for (size_t i = 0; i < figure.length; i++) {
        char character[5];
        utf8_encode(heatmap_character(figure.text[i]), character);
        text_append(subtitle, sizeof subtitle, "%s", character);
    }
    text_append(subtitle, sizeof subtitle, "”");
    picture_model(configs, count, model, sizeof model);
    if (count < s->setting_count) text_append(model, sizeof model, "; %zu of %zu settings", count, s->setting_count);
    attention_figure_save(&figure, into, "triangles.png");
}

void report_pictures(const Sweep *s, const Json *data, const Directory *into) {
    size_t order[RUNS_MAX];
    report_sort(s, order);
    draw_losses(s, order, data, into);
    draw_triangles(s, order, into);
}
