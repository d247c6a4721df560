/* A run's pictures. They are drawn from its files alone, during the run as well as after it, so that a picture shows
   what was logged and `resume` of a finished run can draw all of them again. */
#include "run/pictures.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "show/chart.h"

enum { HEADS_SHOWN = 48, FEW_POINTS = 20 }; /* HEADS_SHOWN: a picture shows at most so many heads of a layer */

/* Lists the losses to compare with, which are drawn as thin lines, and returns their number: for a text the losses of
   n-gram tables, which are in run.json; for recall the losses of guessing and of right answers (data/recall.h). */
static size_t loss_levels(const Run *run, Level levels[CHART_LEVELS_MAX], char labels[CHART_LEVELS_MAX][64]) {
    static const char *const tables[NGRAM_ORDERS] = {"characters", "character pairs", "triples", "4-grams"};
    const double pairs = (double)run->config.data.recall_pairs;
    double losses[NGRAM_ORDERS];
    if (run->config.data.task == TASK_RECALL) {
        snprintf(labels[0], sizeof labels[0], "guess: ln %.0f = %.3f", pairs, log(pairs));
        levels[0] = (Level){labels[0], log(pairs)};
        levels[1] = (Level){"all right: 0", 0};
        return 2;
    }
    run_ngram_losses(run->directory, losses);
    for (size_t i = 0; i < NGRAM_ORDERS; i++) {
        snprintf(labels[i], sizeof labels[i], "a table of %s: %.2f", tables[i], losses[i]);
        levels[i] = (Level){labels[i], losses[i]};
    }
    return NGRAM_ORDERS;
}

/* Draws the losses. Up to FEW_POINTS validation losses are points without a line: between points so far apart, a line
   would run beside the training loss. */
void picture_loss(const Run *run) {
    const size_t mark = memory_mark();
    const Config *c = &run->config;
    const LogTable metrics = logs_read(run->directory, LOG_METRICS);
    const double *steps = metrics.column[METRICS_STEP], *losses = metrics.column[METRICS_VAL_LOSS];
    char title[512], subtitle[256], label[64] = "validation", name[64];
    size_t count = 0, last = 0;
    for (size_t i = 0; i < metrics.rows; i++) {
        if (!isfinite(losses[i])) continue;
        count++;
        last = i;
    }
    scale_text(c->attention.scale_divisor, name, sizeof name);
    config_scores_title(c, 0, title, sizeof title);
    if (count) {
        text_append(title, sizeof title, ": validation loss %.3f after %.0f steps", losses[last], steps[last]);
        text_append(label, sizeof label, " %.3f", losses[last]);
    }
    snprintf(subtitle, sizeof subtitle, "%zu layers, %zu heads, d_k %zu, context %zu, seed %zu", c->model.layers,
             c->model.heads, c->model.d_k, c->model.context, c->train.seed);
    const Color color = palette_divisor(name, 0), gray = {140, 140, 140};
    char y_label[64], texts[CHART_LEVELS_MAX][64];
    snprintf(y_label, sizeof y_label, "loss (nats per %s)", config_target(c));
    Level levels[CHART_LEVELS_MAX];
    const size_t level_count = loss_levels(run, levels, texts);
    const Series series[] = {{"training (one batch)", metrics.column[METRICS_TRAIN_LOSS], gray, .thickness = 1.5},
                             {label, losses, color, .thickness = count <= FEW_POINTS ? 0 : 2.5, .markers = true}};
    const Chart chart = {title, subtitle, y_label, steps, metrics.rows, series, 2, levels, level_count};
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
    char name[64], title[512];
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
    config_scores_title(&run->config, s->step, title, sizeof title);
    text_append(title, sizeof title, ": entropy %.2f in layer %zu at step %zu", entropy, layer, s->step);
    f.title = title;
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
