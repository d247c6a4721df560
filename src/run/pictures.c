/* A run's pictures. They are drawn from its files alone, during the run as well as after it, so that a picture shows
   what was logged and `resume` of a finished run can draw all of them again. */
#include "run/pictures.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "show/chart.h"

enum { HEADS_SHOWN = 48, FEW_POINTS = 20 }; /* HEADS_SHOWN: a picture shows at most so many heads of a layer */

void picture_model(const Config *const *configs, size_t count, char *out, size_t capacity) {
    static const char shown[] = "model.layers model.heads model.d_k model.context model.init train.lr train.seed";
    char value[CONFIG_VALUE_MAX], other[CONFIG_VALUE_MAX];
    *out = 0;
    for (size_t key = 0; key < config_key_count(); key++) {
        const char *name = config_key_name(key);
        bool same = strstr(shown, name) != NULL;
        config_value_text(configs[0], key, value, sizeof value);
        for (size_t i = 1; i < count && same; i++) {
            config_value_text(configs[i], key, other, sizeof other);
            same = strcmp(value, other) == 0;
        }
        if (same) text_append(out, capacity, "%s%s %s", *out ? ", " : "", strchr(name, '.') + 1, value);
    }
}

Series picture_losses(const char *directory) {
    const LogTable metrics = logs_read_any(directory, LOG_METRICS);
    double *x = memory_make(metrics.rows, 2 * sizeof *x, "the losses of a run"), *y = x + metrics.rows;
    Series losses = {.x = x, .y = y};
    for (size_t row = 0; row < metrics.rows; row++) {
        if (!isfinite(metrics.column[METRICS_VAL_LOSS][row])) continue;
        x[losses.points] = metrics.column[METRICS_STEP][row];
        y[losses.points] = metrics.column[METRICS_VAL_LOSS][row];
        losses.points++;
    }
    memory_free(metrics.numbers);
    return losses;
}

/* Makes the line of a loss to compare with. */
static Series level_make(const char *words, double loss, double last) {
    double *x = memory_make(4, sizeof *x, "a line of a chart"), *y = x + 2;
    char *label = memory_make(1, 64, "a label of a chart");
    snprintf(label, 64, "%s: %.2f", words, loss);
    x[1] = last;
    y[0] = y[1] = loss;
    return (Series){.label = label, .x = x, .y = y, .points = 2, .color = {150, 150, 150}, .thickness = 1};
}

size_t picture_levels(const Config *config, const double ngrams[NGRAM_ORDERS], double last,
                      Series levels[NGRAM_ORDERS]) {
    static const char *const tables[] = {"a table of characters", "a table of character pairs", "a table of triples",
                                         "a table of 4-grams"};
    const double pairs = (double)config->data.recall_pairs;
    char guess[32];
    if (config->data.task == TASK_RECALL) {
        snprintf(guess, sizeof guess, "guess, ln %.0f", pairs);
        levels[0] = level_make(guess, log(pairs), last);
        levels[1] = level_make("all right", 0, last);
        return 2;
    }
    for (size_t i = 0; i < NGRAM_ORDERS; i++) levels[i] = level_make(tables[i], ngrams[i], last);
    return NGRAM_ORDERS;
}

/* Draws the losses. Up to FEW_POINTS validation losses are points without a line: between points so far apart, a line
   would run beside the training loss. */
void picture_loss(const Run *run) {
    const size_t mark = memory_mark();
    const Config *c = &run->config;
    const LogTable metrics = logs_read(run->directory, LOG_METRICS);
    const double *steps = metrics.column[METRICS_STEP];
    char title[512], subtitle[256], label[64] = "validation", name[64], y_label[64];
    double ngrams[NGRAM_ORDERS];
    Series series[NGRAM_ORDERS + 2], losses = picture_losses(run->directory);
    scale_text(c->attention.scale_divisor, name, sizeof name);
    config_scores_title(c, 0, title, sizeof title);
    if (losses.points) {
        const double last = losses.y[losses.points - 1];
        text_append(title, sizeof title, ": validation loss %.3f after %.0f steps", last, losses.x[losses.points - 1]);
        text_append(label, sizeof label, " %.3f", last);
    }
    losses.label = label;
    losses.color = palette_divisor(name, 0);
    losses.thickness = losses.points <= FEW_POINTS ? 0 : 2.5;
    losses.markers = true;
    run_ngram_losses(run->directory, ngrams);
    size_t count = metrics.rows ? picture_levels(c, ngrams, steps[metrics.rows - 1], series) : 0;
    series[count++] =
        (Series){"training (one batch)",   steps,           metrics.column[METRICS_TRAIN_LOSS], metrics.rows,
                 .color = {140, 140, 140}, .thickness = 1.5};
    series[count++] = losses;
    picture_model(&c, 1, subtitle, sizeof subtitle);
    snprintf(y_label, sizeof y_label, "loss (nats per %s)", config_target(c));
    const Chart chart = {title, subtitle, y_label, series, count, .whole = true};
    chart_save(&chart, run->locked, "loss.png");
    memory_release(mark);
}

AttentionFigure heads_figure(const Snapshot *s, Range layers, Range heads) {
    const size_t H = range_size(heads), count = range_size(layers) * H;
    const AttentionFigure f = {.text = s->text,
                               .length = s->T,
                               .layers = range_size(layers),
                               .heads = H,
                               .panels = memory_make(count, sizeof *f.panels, "the panels of a figure")};
    for (size_t i = 0; i < count; i++)
        f.panels[i].weights = snapshot_weights(s, layers.begin + i / H, heads.begin + i % H);
    return f;
}

/* Draws the heatmaps of one layer. The rows of the snapshot's step begin at `first` and come by layer and head. */
static void draw_layer(const Run *run, const LogTable *attention, size_t first, const Snapshot *s, size_t layer) {
    const Config *c = &run->config;
    char name[64], title[512], model[256];
    const size_t shown = s->H < HEADS_SHOWN ? s->H : HEADS_SHOWN;
    double *const *column = attention->column, entropy = 0;
    AttentionFigure f = heads_figure(s, (Range){layer, layer + 1}, (Range){0, shown});
    for (size_t head = 0; head < shown; head++) {
        const size_t row = first + layer * s->H + head;
        if (row >= attention->rows || column[ATTENTION_STEP][row] != (double)s->step ||
            column[ATTENTION_LAYER][row] != (double)layer || column[ATTENTION_HEAD][row] != (double)head)
            usage_error("%s/%s has no row of step %zu, layer %zu, head %zu", run->directory, LOG_NAMES[LOG_ATTENTION],
                        s->step, layer, head);
        snprintf(f.panels[head].label, sizeof f.panels->label, "head %zu: entropy %.2f, score std %.2f", head,
                 column[ATTENTION_ENTROPY][row], column[ATTENTION_SCORE_STD][row]);
        entropy += column[ATTENTION_ENTROPY][row] / (double)shown;
    }
    config_scores_title(c, s->step, title, sizeof title);
    text_append(title, sizeof title, ": entropy %.2f in layer %zu at step %zu", entropy, layer, s->step);
    picture_model(&c, 1, model, sizeof model);
    f.title = title;
    f.corner = model;
    f.subtitle =
        "entropy: 1 is uniform, 0 one-hot; measured, like the scores' standard deviation (std), over a validation batch";
    snprintf(name, sizeof name, "attention/step%06zu_layer%zu.png", s->step, layer);
    attention_figure_save(&f, run->locked, name);
}

/* Draws the heatmaps of one step, whose rows of attention.csv begin at `first`. */
static void draw_step(const Run *run, const LogTable *attention, size_t first) {
    const size_t mark = memory_mark();
    const size_t step = (size_t)attention->column[ATTENTION_STEP][first];
    const Snapshot s = snapshot_load(run->directory, &run->config, step);
    for (size_t layer = 0; layer < s.L; layer++) draw_layer(run, attention, first, &s, layer);
    memory_release(mark);
}

void picture_attention(const Run *run, size_t from) {
    if (!run->locked) return;
    const LogTable attention = logs_read(run->directory, LOG_ATTENTION);
    const double *step = attention.column[ATTENTION_STEP];
    for (size_t row = 0; row < attention.rows; row++) {
        const bool begins = row == 0 || step[row] != step[row - 1];
        if (begins && step[row] >= (double)from) draw_step(run, &attention, row);
    }
    memory_free(attention.numbers);
}
