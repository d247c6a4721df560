/* attention_compare.png: settings as columns, the heads of layer 0 as rows, before training and, below, after it.
   Weights are on no disk: they are computed again, from the initial parameters, which are drawn by the seed, and from
   the last checkpoint. The numbers above the panels are those of attention.csv. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "data/corpus.h"
#include "model/probe.h"
#include "show/heatmap.h"
#include "sweep/parts.h"
#include "train/pictures.h"
#include "train/plan.h"
#include "train/safetensors.h"

enum { COLUMNS_MAX = 8, HEADS_MAX = 4, ROWS_MAX = 2 * HEADS_MAX, PANELS_MAX = ROWS_MAX * COLUMNS_MAX, TEXT = 128 };
enum { WEIGHTS = PICTURE_TEXT_MAX * PICTURE_TEXT_MAX };

/* One setting, by the run of its first seed. */
typedef struct {
    const Arm *arm;
    const ArmRun *run;
    int32_t ids[PICTURE_TEXT_MAX];
    uint32_t text[PICTURE_TEXT_MAX];
    size_t length, vocabulary, heads;
    bool other_text;
    char label[GROUP_LABEL + 32];
} Column;

typedef struct {
    const Sweep *sweep;
    Column columns[COLUMNS_MAX];
    size_t count, settings, heads, most_heads, length;
    char rows[ROWS_MAX][64], panels[PANELS_MAX][TEXT];
    float weights[PANELS_MAX][WEIGHTS];
    bool there[PANELS_MAX];
} Comparison;

/* A label of several keys, or of several settings that are the same, goes over as many lines as it has parts. */
static void label_column(Column *column, const char *legend) {
    enum { SHORT = 24 };
    const char *state = column->run->state == ARM_FINISHED ? "" : ARM_STATE_NAMES[column->run->state];
    snprintf(column->label, sizeof column->label, "%s%s%s", legend, *state ? ", " : "", state);
    if (strlen(column->label) <= SHORT) return;
    for (char *c = column->label; (c = strchr(c, ' ')) != NULL; c++)
        if (c[-1] == ',' || (strncmp(c, " and ", 5) == 0)) *c = '\n';
}

static bool add_column(Comparison *c, const Group *group, Error *err) {
    const Sweep *s = c->sweep;
    Column *column = &c->columns[c->count];
    size_t arm = s->arms.arms[group->arm[0]].same_as;
    bool cut;
    Corpus corpus;
    column->arm = &s->arms.arms[arm];
    column->run = &s->runs[arm];
    const Config *config = &column->arm->config;
    if (!plan_corpus(&corpus, config, NULL, err)) return false;
    bool ok = picture_text(config, &corpus, (size_t)config->model.context, column->ids, column->text, &column->length,
                           &cut, err);
    column->vocabulary = corpus.vocabulary.count;
    column->heads = (size_t)config->model.heads;
    corpus_free(&corpus);
    label_column(column, group->legend);
    c->count += ok;
    return ok;
}

static bool collect_columns(Comparison *c, Error *err) {
    const Arms *arms = &c->sweep->arms;
    for (size_t g = 0; g < arms->group_count; g++) {
        if (arms->groups[g].same_as != g) continue;
        c->settings++;
        if (c->count < COLUMNS_MAX && !add_column(c, &arms->groups[g], err)) return false;
    }
    return true;
}

/* A shorter context sees the beginning of the text; what it does there does not depend on what follows, in any arm. So
   the shortest length is shown of all. A text that begins otherwise has no place in the grid. */
static void agree_on_text(Comparison *c) {
    c->length = PICTURE_TEXT_MAX;
    for (size_t i = 0; i < c->count; i++)
        if (c->columns[i].length < c->length) c->length = c->columns[i].length;
    for (size_t i = 0; i < c->count; i++) {
        Column *column = &c->columns[i];
        column->other_text = memcmp(column->text, c->columns[0].text, c->length * sizeof *column->text) != 0;
        if (column->heads > c->most_heads) c->most_heads = column->heads;
    }
    c->heads = c->most_heads < HEADS_MAX ? c->most_heads : HEADS_MAX;
}

static size_t panel_of(const Comparison *c, size_t row, size_t column) { return row * c->count + column; }

/* The step of a column's last look, once it has finished. */
static double last_step(const Column *column) {
    const Curve *looks = &column->run->results.curves[CURVE_ENTROPY];
    return column->run->state == ARM_FINISHED && looks->count ? looks->step[looks->count - 1] : NAN;
}

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

/* One half of a column, from the parameters that are in the model. */
static void look(Comparison *c, Model *model, size_t at, bool last) {
    const Column *column = &c->columns[at];
    const ArmResults *r = &column->run->results;
    const Curve *looks = &r->curves[CURVE_ENTROPY];
    const bool named = last && isnan(common_last_step(c));
    model_forward(model, &(Batch){column->ids, NULL, 1, c->length});
    for (size_t head = 0; head < c->heads && head < column->heads; head++) {
        size_t panel = panel_of(c, head + (last ? c->heads : 0), at);
        probe_weights(model, 0, head, c->length, c->weights[panel]);
        c->there[panel] = true;
        if (looks->count == 0 || head >= r->heads) continue;
        size_t row = (last ? looks->count - 1 : 0) * r->heads + head;
        int used = named ? snprintf(c->panels[panel], TEXT, "step %.0f: ", last_step(column)) : 0;
        snprintf(c->panels[panel] + used, TEXT - (size_t)used, "entropy %.2f, score std %.2f", r->entropy[row],
                 r->score_std[row]);
    }
}

static bool load(const Comparison *c, const Column *column, Model *model, Error *err) {
    char directory[4096], path[4096];
    size_t step;
    const TensorSet set = tensor_set(&model->tensors, model->parameters);
    if (!sweep_arm_path(c->sweep, (size_t)(column->arm - c->sweep->arms.arms), directory, err) ||
        !path_join(path, sizeof path, directory, "checkpoint/model.safetensors", err) ||
        !safetensors_load(path, &set, &step, err))
        return false;
    if ((double)step == last_step(column)) return true;
    return error_set(err, STATUS_USAGE, "%s is of step %zu, and attention.csv beside it ends with step %.0f", path,
                     step, last_step(column));
}

static bool fill_column(Comparison *c, size_t at, Error *err) {
    const Column *column = &c->columns[at];
    const Config *config = &column->arm->config;
    const ModelShape shape = model_shape(config, column->vocabulary);
    Model model;
    if (column->other_text) return true;
    bool ok = model_make(&model, &shape, 1, 1, false, err);
    if (ok) {
        tensors_initialise(&model.tensors, &shape, (Init)config->model.init, (uint64_t)config->train.seed, 1,
                           model.parameters);
        look(c, &model, at, false);
    }
    if (ok && !isnan(last_step(column))) {
        ok = load(c, column, &model, err);
        if (ok) look(c, &model, at, true);
    }
    model_free(&model);
    return ok;
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
    const Group *group = &c->sweep->arms.groups[0];
    size_t others = 0, longest = 0, used;
    for (size_t i = 0; i < c->count; i++) {
        others += c->columns[i].other_text;
        if (c->columns[i].length > longest) longest = c->columns[i].length;
    }
    used = (size_t)snprintf(out, capacity, "the same text before and after training; entropy: 1 is uniform, 0 one-hot");
    if (c->count && group->count > 1 && used < capacity)
        used += (size_t)snprintf(out + used, capacity - used, "; seed %lld, the first of %zu",
                                 (long long)c->columns[0].arm->config.train.seed, group->count);
    if (c->count < c->settings && used < capacity)
        used += (size_t)snprintf(out + used, capacity - used, "; the first %zu of %zu settings", c->count, c->settings);
    if (c->heads < c->most_heads && used < capacity)
        used += (size_t)snprintf(out + used, capacity - used, "; the first %zu of %zu heads", c->heads, c->most_heads);
    if (c->length < longest && used < capacity)
        used += (size_t)snprintf(out + used, capacity - used, "; the %zu characters that the shortest context holds",
                                 c->length);
    if (others && used < capacity)
        snprintf(out + used, capacity - used, "; empty where the text of the pictures is another");
}

static bool save(const Comparison *c, Error *err) {
    const float *panels[PANELS_MAX];
    const char *panel_labels[PANELS_MAX], *row_labels[ROWS_MAX], *column_labels[COLUMNS_MAX];
    char path[4096], title[512], subtitle[512];
    for (size_t i = 0; i < 2 * c->heads * c->count; i++) {
        panels[i] = c->there[i] ? c->weights[i] : NULL;
        panel_labels[i] = *c->panels[i] ? c->panels[i] : NULL;
    }
    for (size_t i = 0; i < 2 * c->heads; i++) row_labels[i] = c->rows[i];
    for (size_t i = 0; i < c->count; i++) column_labels[i] = c->columns[i].label;
    snprintf(title, sizeof title, "%s: attention in layer 0", c->sweep->arms.config->name);
    describe(c, subtitle, sizeof subtitle);
    const AttentionFigure figure = {.title = title,
                                    .subtitle = subtitle,
                                    .text = c->columns[0].text,
                                    .length = c->length,
                                    .rows = 2 * c->heads,
                                    .columns = c->count,
                                    .panels = panels,
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
    for (size_t i = 0; ok && i < c->count; i++) ok = fill_column(c, i, err);
    if (ok) label_rows(c);
    ok = ok && save(c, err);
    free(c);
    return ok;
}
