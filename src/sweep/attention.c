/* attention_compare.png: settings as columns, the heads of layer 0 as rows, at the first step and, below, at the last.
   Weights are those of the runs' snapshots, the numbers above the panels those of attention.csv. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "show/heatmap.h"
#include "sweep/parts.h"
#include "train/snapshot.h"

enum { COLUMNS_MAX = 8, HEADS_MAX = 4, ROWS_MAX = 2 * HEADS_MAX, PANELS_MAX = ROWS_MAX * COLUMNS_MAX, TEXT = 128 };
/* One setting, by the run of its first seed. */
typedef struct {
    const SweepRun *run;
    Snapshot first, last; /* empty (T 0): the run has none */
    size_t heads;
    bool other_text;
    char label[SETTING_LABEL + 32];
} Column;

typedef struct {
    const Sweep *sweep;
    Column columns[COLUMNS_MAX];
    size_t count, heads, most_heads, length;
    const uint32_t *text; /* (length) of all that are shown */
    char rows[ROWS_MAX][64], panels[PANELS_MAX][TEXT];
    const float *weights[PANELS_MAX]; /* of a snapshot, whose T is the stride; NULL: left empty */
} Comparison;

/* A label of several keys goes over as many lines as it has parts. */
static void label_column(Column *column, const char *label) {
    enum { SHORT = 24 };
    const char *state = column->run->state == RUN_FINISHED ? "" : SWEEP_RUN_STATES[column->run->state];
    snprintf(column->label, sizeof column->label, "%s%s%s", label, *state ? ", " : "", state);
    if (strlen(column->label) <= SHORT) return;
    for (char *c = column->label; (c = strchr(c, ' ')) != NULL; c++)
        if (c[-1] == ',') *c = '\n';
}

/* The step of a column's last snapshot, once its run has finished. */
static double last_step(const Column *column) {
    return column->run->state == RUN_FINISHED ? curve_last_step(&column->run->results.curves[CURVE_ENTROPY]) : NAN;
}

static bool add_column(Comparison *c, const SweepSetting *setting, Error *err) {
    const SweepRun *run = &c->sweep->runs[setting->run[0]];
    Column *column = &c->columns[c->count++];
    const Curve *measured = &run->results.curves[CURVE_ENTROPY];
    column->run = run;
    column->heads = (size_t)run->config.model.heads;
    label_column(column, setting->label);
    if (measured->count == 0) return true;
    if (!snapshot_load(&column->first, run->directory, &run->config, (size_t)measured->step[0], err)) return false;
    if (isnan(last_step(column))) return true;
    if (!snapshot_load(&column->last, run->directory, &run->config, (size_t)last_step(column), err)) return false;
    return (column->first.T == column->last.T &&
            memcmp(column->first.text, column->last.text, sizeof column->last.text) == 0) ||
           error_set(err, STATUS_USAGE, "the snapshots in %s/attention are of two texts", run->directory);
}

static bool collect_columns(Comparison *c, Error *err) {
    for (size_t g = 0; g < c->sweep->setting_count && c->count < COLUMNS_MAX; g++)
        if (!add_column(c, &c->sweep->settings[g], err)) return false;
    return true;
}

/* A shorter context sees the beginning of the text; what it does there does not depend on what follows, in any run. So
   the shortest length is shown of all. A text that begins otherwise has no place in the grid. */
static void agree_on_text(Comparison *c) {
    static const uint32_t blank[1] = {' '}; /* where no run got as far as a snapshot */
    c->text = NULL;
    c->length = SNAPSHOT_TEXT_MAX;
    for (size_t i = 0; i < c->count; i++) {
        const Snapshot *s = &c->columns[i].first;
        if (c->columns[i].heads > c->most_heads) c->most_heads = c->columns[i].heads;
        if (s->T && s->T < c->length) c->length = s->T;
        if (s->T && !c->text) c->text = s->text;
    }
    if (!c->text) c->text = blank, c->length = 1;
    for (size_t i = 0; i < c->count; i++) {
        const Snapshot *s = &c->columns[i].first;
        c->columns[i].other_text = s->T && memcmp(s->text, c->text, c->length * sizeof *c->text) != 0;
    }
    c->heads = c->most_heads < HEADS_MAX ? c->most_heads : HEADS_MAX;
}

static size_t panel_of(const Comparison *c, size_t row, size_t column) { return row * c->count + column; }

/* The one last step of all that finished, or NaN. */
static double common_last_step(const Comparison *c) {
    double common = NAN;
    for (size_t i = 0; i < c->count; i++) {
        double step = last_step(&c->columns[i]);
        if (isnan(step)) continue;
        if (!isnan(common) && step != common) return NAN;
        common = step;
    }
    return common;
}

/* One half of a column, from one of its snapshots. */
static void fill_half(Comparison *c, size_t at, const Snapshot *s, bool last) {
    const Column *column = &c->columns[at];
    const RunResults *r = &column->run->results;
    const bool named = last && isnan(common_last_step(c));
    for (size_t head = 0; head < c->heads && head < column->heads; head++) {
        const size_t panel = panel_of(c, head + (last ? c->heads : 0), at);
        c->weights[panel] = snapshot_weights(s, 0, head);
        if (head >= r->heads) continue;
        size_t row = (last ? r->curves[CURVE_ENTROPY].count - 1 : 0) * r->heads + head;
        if (named) snprintf(c->panels[panel], TEXT, "step %.0f: ", last_step(column));
        text_append(c->panels[panel], TEXT, "entropy %.2f, score std %.2f", r->entropy[row], r->score_std[row]);
    }
}

static void fill_column(Comparison *c, size_t at) {
    const Column *column = &c->columns[at];
    if (column->other_text) return;
    if (column->first.T) fill_half(c, at, &column->first, false);
    if (column->last.T) fill_half(c, at, &column->last, true);
}

static void label_rows(Comparison *c) {
    double last = common_last_step(c);
    for (size_t head = 0; head < c->heads; head++) {
        snprintf(c->rows[head], sizeof c->rows[head], "step 0, head %zu", head);
        if (isnan(last))
            snprintf(c->rows[c->heads + head], sizeof c->rows[0], "last step, head %zu", head);
        else
            snprintf(c->rows[c->heads + head], sizeof c->rows[0], "step %.0f, head %zu", last, head);
    }
}

/* What is shown, and what is not. */
static void describe(const Comparison *c, char *out, size_t capacity) {
    const SweepSetting *setting = &c->sweep->settings[0];
    size_t others = 0, longest = 0;
    for (size_t i = 0; i < c->count; i++) {
        others += c->columns[i].other_text;
        if (c->columns[i].first.T > longest) longest = c->columns[i].first.T;
    }
    snprintf(out, capacity, "the same text before and after training; entropy: 1 is uniform, 0 one-hot");
    if (c->count && setting->count > 1)
        text_append(out, capacity, "; seed %lld, the first of %zu", (long long)c->columns[0].run->config.train.seed,
                    setting->count);
    if (c->count < c->sweep->setting_count)
        text_append(out, capacity, "; the first %zu of %zu settings", c->count, c->sweep->setting_count);
    if (c->heads < c->most_heads) text_append(out, capacity, "; the first %zu of %zu heads", c->heads, c->most_heads);
    if (c->length < longest)
        text_append(out, capacity, "; the %zu characters that the shortest context holds", c->length);
    if (others) text_append(out, capacity, "; empty where the text of the pictures is another");
}

static bool save(const Comparison *c, Error *err) {
    size_t strides[COLUMNS_MAX];
    const char *panel_labels[PANELS_MAX], *row_labels[ROWS_MAX], *column_labels[COLUMNS_MAX];
    char path[4096], title[512], subtitle[512];
    for (size_t i = 0; i < 2 * c->heads * c->count; i++) panel_labels[i] = *c->panels[i] ? c->panels[i] : NULL;
    for (size_t i = 0; i < 2 * c->heads; i++) row_labels[i] = c->rows[i];
    for (size_t i = 0; i < c->count; i++) {
        column_labels[i] = c->columns[i].label;
        strides[i] = c->columns[i].first.T;
    }
    snprintf(title, sizeof title, "%s: attention in layer 0", c->sweep->config.name);
    describe(c, subtitle, sizeof subtitle);
    const AttentionFigure figure = {.title = title,
                                    .subtitle = subtitle,
                                    .text = c->text,
                                    .length = c->length,
                                    .rows = 2 * c->heads,
                                    .columns = c->count,
                                    .panels = c->weights,
                                    .strides = strides,
                                    .row_labels = row_labels,
                                    .column_labels = column_labels,
                                    .panel_labels = panel_labels};
    return path_join(path, sizeof path, c->sweep->directory, "attention_compare.png", err) &&
           attention_figure_save(&figure, path, err);
}

bool sweep_draw_attention(const Sweep *sweep, Error *err) {
    Comparison *c = calloc(1, sizeof *c);
    if (!c) return error_set(err, STATUS_FAILED, "no memory to compare attention");
    c->sweep = sweep;
    bool ok = collect_columns(c, err);
    if (ok) agree_on_text(c);
    for (size_t i = 0; ok && i < c->count; i++) fill_column(c, i);
    if (ok) label_rows(c);
    ok = ok && save(c, err);
    for (size_t i = 0; i < c->count; i++) {
        snapshot_free(&c->columns[i].first);
        snapshot_free(&c->columns[i].last);
    }
    free(c);
    return ok;
}
