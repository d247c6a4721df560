#include "train/pictures.h"

#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "show/chart.h"
#include "show/heatmap.h"
#include "train/logs.h"

enum { PANELS_ACROSS = 4, HEADS_SHOWN = 64, LABEL = 96 };

bool picture_text(const Config *config, const Corpus *corpus, size_t T, int32_t ids[SNAPSHOT_TEXT_MAX],
                  uint32_t text[SNAPSHOT_TEXT_MAX], size_t *length, bool *cut, Error *err) {
    const char *wanted = config->log.attention_text;
    size_t longest = T < SNAPSHOT_TEXT_MAX ? T : SNAPSHOT_TEXT_MAX;
    *cut = false;
    *length = longest;
    if (*wanted) {
        if (!vocabulary_encode(&corpus->vocabulary, "log.attention_text", wanted, strlen(wanted), ids,
                               SNAPSHOT_TEXT_MAX, length, err))
            return false;
        *cut = *length > T;
        if (*cut) *length = T;
    } else {
        memcpy(ids, corpus->ids + corpus->train, longest * sizeof *ids);
    }
    for (size_t i = 0; i < *length; i++) text[i] = corpus->vocabulary.characters[ids[i]];
    return true;
}

static bool draw_losses(const Run *run, const LogTable *metrics, Error *err) {
    const Config *c = &run->config;
    char path[4096], divisor[64], title[512], subtitle[256];
    scale_title(c->attention.scale_divisor, (size_t)c->model.d_k, divisor, sizeof divisor);
    snprintf(title, sizeof title, "%s: scores divided by %s", c->name, divisor);
    snprintf(subtitle, sizeof subtitle, "%lld layers, %lld heads, d_k %lld, context %lld, seed %lld",
             (long long)c->model.layers, (long long)c->model.heads, (long long)c->model.d_k,
             (long long)c->model.context, (long long)c->train.seed);
    const Series series[] = {
        {.label = "training (one batch)",
         .x = metrics->column[METRICS_STEP],
         .y = metrics->column[METRICS_TRAIN_LOSS],
         .count = metrics->rows,
         .color = {150, 170, 190},
         .thickness = 1.5},
        {.label = "validation",
         .x = metrics->column[METRICS_STEP],
         .y = metrics->column[METRICS_VAL_LOSS],
         .count = metrics->rows,
         .color = chart_color(1),
         .thickness = 2.5,
         .markers = true},
    };
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = "step",
                         .y_label = "loss (nats per character)",
                         .series = series,
                         .count = 2};
    return run_path(run, path, "loss.png", err) && chart_save(&chart, path, err);
}

bool picture_loss(const Run *run, Error *err) {
    LogTable metrics;
    bool ok = logs_read(run->directory, LOG_METRICS, &metrics, err) && draw_losses(run, &metrics, err);
    log_table_free(&metrics);
    return ok;
}

/* The row of attention.csv about a head at a step; SIZE_MAX when there is none. */
static size_t row_of(const LogTable *attention, size_t step, size_t layer, size_t head) {
    double *const *column = attention->column;
    for (size_t row = 0; row < attention->rows; row++)
        if (column[ATTENTION_STEP][row] == (double)step && column[ATTENTION_LAYER][row] == (double)layer &&
            column[ATTENTION_HEAD][row] == (double)head)
            return row;
    return SIZE_MAX;
}

static bool draw_layer(const Run *run, const LogTable *attention, const Snapshot *s, size_t layer, Error *err) {
    const Config *c = &run->config;
    char path[4096], name[64], title[512], divisor[64], labels[HEADS_SHOWN][LABEL];
    const float *panels[HEADS_SHOWN + PANELS_ACROSS] = {0};
    const char *texts[HEADS_SHOWN + PANELS_ACROSS] = {0};
    const size_t shown = s->H < HEADS_SHOWN ? s->H : HEADS_SHOWN,
                 columns = shown && shown < PANELS_ACROSS ? shown : PANELS_ACROSS;
    for (size_t head = 0; head < shown; head++) {
        const size_t row = row_of(attention, s->step, layer, head);
        if (row == SIZE_MAX)
            return error_set(err, STATUS_USAGE, "%s/%s has no row of step %zu, layer %zu, head %zu", run->directory,
                             LOG_NAMES[LOG_ATTENTION], s->step, layer, head);
        snprintf(labels[head], LABEL, "head %zu: entropy %.2f, score std %.2f", head,
                 attention->column[ATTENTION_ENTROPY][row], attention->column[ATTENTION_SCORE_STD][row]);
        panels[head] = snapshot_weights(s, layer, head);
        texts[head] = labels[head];
    }
    scale_title(c->attention.scale_divisor, (size_t)c->model.d_k, divisor, sizeof divisor);
    snprintf(title, sizeof title, "%s, step %zu, layer %zu: scores divided by %s", c->name, s->step, layer, divisor);
    const AttentionFigure figure = {
        .title = title,
        .subtitle = "entropy: 1 is uniform, 0 one-hot; measured, like score std, over a validation batch",
        .text = s->text,
        .length = s->T,
        .rows = (shown + columns - 1) / columns,
        .columns = columns,
        .panels = panels,
        .panel_labels = texts};
    snprintf(name, sizeof name, "attention/step%06zu_layer%zu.png", s->step, layer);
    return run_path(run, path, name, err) && attention_figure_save(&figure, path, err);
}

static bool draw_step(const Run *run, const LogTable *attention, size_t step, Error *err) {
    Snapshot s;
    bool ok = snapshot_load(&s, run->directory, &run->config, step, err);
    for (size_t layer = 0; ok && layer < s.L; layer++) ok = draw_layer(run, attention, &s, layer, err);
    snapshot_free(&s);
    return ok;
}

bool picture_attention(const Run *run, size_t step, Error *err) {
    LogTable attention;
    bool ok = logs_read(run->directory, LOG_ATTENTION, &attention, err) && draw_step(run, &attention, step, err);
    log_table_free(&attention);
    return ok;
}

/* The table without its first rows; its columns are in the whole one. */
static LogTable table_behind(LogTable table, size_t rows) {
    for (int c = 0; c < ATTENTION_COLUMNS; c++) table.column[c] += rows;
    table.rows -= rows;
    return table;
}

bool picture_all(const Run *run, Error *err) {
    LogTable attention = {0};
    bool ok = picture_loss(run, err) && logs_read(run->directory, LOG_ATTENTION, &attention, err);
    const double *step = attention.column[ATTENTION_STEP];
    for (size_t row = 0; ok && row < attention.rows; row++) {
        if (row > 0 && step[row] == step[row - 1]) continue;
        const LogTable rest = table_behind(attention, row); /* the step's rows are its first */
        ok = draw_step(run, &rest, (size_t)step[row], err);
    }
    log_table_free(&attention);
    return ok;
}
