/* attention_compare.png: settings as columns, the heads of layer 0 as rows, at the first step and, below, at the last.
   Settings that do not fit beside each other go into further blocks of rows; each block then shows fewer heads. Weights
   are those of the runs' snapshots, the numbers above the panels those of attention.csv. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "show/heatmap.h"
#include "sweep/parts.h"
#include "train/snapshot.h"

enum {
    ACROSS = 6, /* settings beside each other, so that the characters of the text can be read */
    ROWS_MAX = 8,
    PANELS_MAX = ROWS_MAX * ACROSS,
    SETTINGS_MAX = PANELS_MAX / 2, /* then with one head each */
    TEXT = 128
};

/* One setting, by the run of its first seed. */
typedef struct {
    const SweepRun *run;
    Snapshot first, last; /* empty (T 0): the run has none, or has not finished */
    char label[SETTING_LABEL + 32];
} Column;

typedef struct {
    Column columns[SETTINGS_MAX];
    size_t count, most_heads, length;
    size_t across, blocks, heads; /* settings beside each other, blocks below each other, heads shown of each */
    const uint32_t *text;         /* (length) of all that are shown */
    char rows[ROWS_MAX][64], panels[PANELS_MAX][TEXT];
    const char *row_labels[ROWS_MAX], *panel_labels[PANELS_MAX]; /* pointers to those */
    Heading headings[PANELS_MAX];
    const float *weights[PANELS_MAX]; /* of a snapshot; NULL: left empty */
    size_t strides[PANELS_MAX];       /* the snapshot's T */
} Comparison;

static const Curve *measured(const Column *column) { return &column->run->results.curves[CURVE_ENTROPY]; }

static bool load_column(const Sweep *s, size_t setting, Column *column, Error *err) {
    const SweepRun *run = &s->runs[s->settings[setting].run[0]];
    const bool finished = run->state == RUN_FINISHED;
    column->run = run;
    snprintf(column->label, sizeof column->label, "%s%s%s", s->settings[setting].label, finished ? "" : ", ",
             finished ? "" : SWEEP_RUN_STATES[run->state]);
    if (measured(column)->count == 0) return true;
    if (!snapshot_load(&column->first, run->directory, &run->config, (size_t)measured(column)->step[0], err))
        return false;
    if (!finished) return true;
    if (!snapshot_load(&column->last, run->directory, &run->config, (size_t)curve_last_step(measured(column)), err))
        return false;
    return (column->first.T == column->last.T &&
            memcmp(column->first.text, column->last.text, sizeof column->last.text) == 0) ||
           error_set(err, STATUS_USAGE, "the snapshots in %s/attention are of two texts", run->directory);
}

/* A shorter context sees the beginning of the text; what it does there does not depend on what follows. So the shortest
   length is shown of all. A text that begins otherwise has no place in the grid. */
static void agree_on_text(Comparison *c) {
    static const uint32_t blank[1] = {' '}; /* where no run got as far as a snapshot */
    c->text = NULL;
    c->length = SNAPSHOT_TEXT_MAX;
    for (size_t i = 0; i < c->count; i++) {
        const Snapshot *s = &c->columns[i].first;
        const size_t heads = (size_t)c->columns[i].run->config.model.heads;
        if (heads > c->most_heads) c->most_heads = heads;
        if (s->T && s->T < c->length) c->length = s->T;
        if (s->T && !c->text) c->text = s->text;
    }
    if (!c->text) c->text = blank, c->length = 1;
    c->blocks = 1 + (c->count - 1) / ACROSS; /* every sweep has a setting */
    c->across = (c->count + c->blocks - 1) / c->blocks;
    c->heads = ROWS_MAX / 2 / c->blocks;
    if (c->heads > c->most_heads) c->heads = c->most_heads;
}

/* The panels of a column, from one of its snapshots. */
static void fill_panels(Comparison *c, size_t at, bool last) {
    const Column *column = &c->columns[at];
    const Snapshot *s = last ? &column->last : &column->first;
    const RunResults *r = &column->run->results;
    if (s->T == 0 || memcmp(s->text, c->text, c->length * sizeof *c->text) != 0) return;
    for (size_t head = 0; head < c->heads && head < s->H; head++) {
        const size_t row = (2 * (at / c->across) + last) * c->heads + head, panel = row * c->across + at % c->across,
                     measurement = (last ? measured(column)->count - 1 : 0) * r->heads + head;
        c->weights[panel] = snapshot_weights(s, 0, head);
        c->strides[panel] = s->T;
        c->panel_labels[panel] = c->panels[panel];
        snprintf(c->panels[panel], TEXT, "step %zu: entropy %.2f, score std %.2f", s->step, r->entropy[measurement],
                 r->score_std[measurement]);
    }
}

static void label_rows(Comparison *c) {
    for (size_t row = 0; row < 2 * c->heads * c->blocks; row++) {
        snprintf(c->rows[row], sizeof *c->rows, "%s step, head %zu", row / c->heads % 2 ? "last" : "first",
                 row % c->heads);
        c->row_labels[row] = c->rows[row];
    }
}

/* The mean over the heads of layer 0 at the end of a run that finished; else NaN. */
static double last_entropy(const Column *column) {
    const RunResults *r = &column->run->results;
    double sum = 0;
    if (column->last.T == 0) return NAN;
    for (size_t head = 0; head < r->heads; head++) sum += r->entropy[(measured(column)->count - 1) * r->heads + head];
    return sum / (double)r->heads;
}

/* What is shown, and what is not. */
static void describe(const Sweep *s, const Comparison *c, char *out, size_t capacity) {
    const size_t seeds = s->settings[0].count;
    snprintf(out, capacity, "the same text before and after training; entropy: 1 is uniform, 0 one-hot");
    if (seeds > 1)
        text_append(out, capacity, "; seed %lld, the first of %zu", (long long)s->runs[0].config.train.seed, seeds);
    sweep_append_left_out(s, c->count, out, capacity);
    if (c->heads < c->most_heads) text_append(out, capacity, "; the first %zu of %zu heads", c->heads, c->most_heads);
}

static bool save(const Sweep *s, const Comparison *c, const size_t *settings, Error *err) {
    char path[4096], title[1024] = "Attention in layer 0", subtitle[512];
    Outcome last[SETTINGS_MAX];
    bool trained = false;
    for (size_t i = 0; i < c->count; i++) {
        last[i] = (Outcome){settings[i], last_entropy(&c->columns[i])};
        trained = trained || isfinite(last[i].value);
    }
    sweep_append_keys(s, title, sizeof title);
    if (trained) text_append(title, sizeof title, ", entropy after training");
    sweep_append_ends(s, last, c->count, "%.2f", title, sizeof title);
    describe(s, c, subtitle, sizeof subtitle);
    const AttentionFigure figure = {.title = title,
                                    .subtitle = subtitle,
                                    .text = c->text,
                                    .length = c->length,
                                    .rows = 2 * c->heads * c->blocks,
                                    .columns = c->across,
                                    .panels = c->weights,
                                    .strides = c->strides,
                                    .row_labels = c->row_labels,
                                    .block = 2 * c->heads,
                                    .headings = c->headings,
                                    .panel_labels = c->panel_labels};
    return path_join(path, sizeof path, s->directory, "attention_compare.png", err) &&
           attention_figure_save(&figure, path, err);
}

bool sweep_draw_attention(const Sweep *s, Error *err) {
    Comparison *c = calloc(1, sizeof *c);
    size_t order[RUNS_MAX];
    sweep_sort(s, order);
    bool ok = c || error_set(err, STATUS_FAILED, "no memory to compare attention");
    while (ok && c->count < s->setting_count && c->count < SETTINGS_MAX) {
        ok = load_column(s, order[c->count], &c->columns[c->count], err);
        c->count++;
    }
    if (ok) {
        double dash;
        agree_on_text(c);
        for (size_t i = 0; i < c->count; i++) {
            c->headings[i] = (Heading){c->columns[i].label, sweep_style(s, order[i], SIZE_MAX, i, &dash)};
            fill_panels(c, i, false);
            fill_panels(c, i, true);
        }
        label_rows(c);
        ok = save(s, c, order, err);
    }
    for (size_t i = 0; c && i < c->count; i++) {
        snapshot_free(&c->columns[i].first);
        snapshot_free(&c->columns[i].last);
    }
    free(c);
    return ok;
}
