#include "train/pictures.h"

#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "show/chart.h"
#include "show/heatmap.h"

enum { PANELS_ACROSS = 4, HEADS_SHOWN = 64, LABEL = 96 };

bool picture_text(const Config *config, const Corpus *corpus, size_t T, int32_t ids[PICTURE_TEXT_MAX],
                  uint32_t text[PICTURE_TEXT_MAX], size_t *length, bool *cut, Error *err) {
    const char *wanted = config->log.attention_text;
    size_t longest = T < PICTURE_TEXT_MAX ? T : PICTURE_TEXT_MAX;
    *cut = false;
    *length = longest;
    if (*wanted) {
        if (!vocabulary_encode(&corpus->vocabulary, "log.attention_text", wanted, strlen(wanted), ids, PICTURE_TEXT_MAX,
                               length, err))
            return false;
        *cut = *length > T;
        if (*cut) *length = T;
    } else {
        memcpy(ids, corpus->ids + corpus->train, longest * sizeof *ids);
    }
    for (size_t i = 0; i < *length; i++) text[i] = corpus->vocabulary.characters[ids[i]];
    return true;
}

bool picture_loss(const RunRecord *r, const Config *config, Error *err) {
    char path[4096], divisor[64], title[512], subtitle[256];
    scale_title(config->attention.scale_divisor, (size_t)config->model.d_k, divisor, sizeof divisor);
    snprintf(title, sizeof title, "%s: scores divided by %s", config->name, divisor);
    snprintf(subtitle, sizeof subtitle, "%zu layers, %zu heads, d_k %lld, context %lld, seed %lld", r->L, r->H,
             (long long)config->model.d_k, (long long)config->model.context, (long long)config->train.seed);
    const Series series[] = {
        {.label = "training (one batch)",
         .x = r->train_step,
         .y = r->train_loss,
         .count = r->train_count,
         .color = {150, 170, 190},
         .thickness = 1.5},
        {.label = "validation",
         .x = r->val_step,
         .y = r->val_loss,
         .count = r->val_count,
         .color = chart_color(1),
         .thickness = 2.5,
         .markers = true},
    };
    const Chart chart = {.title = title,
                         .subtitle = subtitle,
                         .x_label = "step",
                         .y_label = "loss (nats a character)",
                         .series = series,
                         .count = 2};
    return path_join(path, sizeof path, r->directory, "loss.png", err) && chart_save(&chart, path, err);
}

void picture_head_label(const RunRecord *r, const Look *look, size_t layer, size_t head, char *out, size_t capacity) {
    const HeadStatistics *s = &look->heads[layer * r->H + head];
    snprintf(out, capacity, "head %zu: entropy %.2f, score std %.2f", head, s->entropy, s->score_std);
}

static bool picture_layer(const RunRecord *r, const Config *config, const Look *look, size_t layer, Error *err) {
    char path[4096], name[64], title[512], divisor[64], labels[HEADS_SHOWN][LABEL];
    const float *panels[HEADS_SHOWN + PANELS_ACROSS] = {0};
    const char *texts[HEADS_SHOWN + PANELS_ACROSS] = {0};
    size_t shown = r->H < HEADS_SHOWN ? r->H : HEADS_SHOWN,
           columns = shown && shown < PANELS_ACROSS ? shown : PANELS_ACROSS;
    for (size_t head = 0; head < shown; head++) {
        panels[head] = look_weights(r, look, layer, head);
        picture_head_label(r, look, layer, head, labels[head], sizeof labels[head]);
        texts[head] = labels[head];
    }
    scale_title(config->attention.scale_divisor, (size_t)config->model.d_k, divisor, sizeof divisor);
    snprintf(title, sizeof title, "%s, step %zu, layer %zu: scores divided by %s", config->name, look->step, layer,
             divisor);
    const AttentionFigure figure = {
        .title = title,
        .subtitle = "entropy: 1 is uniform, 0 one-hot; measured, like score std, over a validation batch",
        .text = r->text,
        .length = r->text_length,
        .rows = (shown + columns - 1) / columns,
        .columns = columns,
        .panels = panels,
        .panel_labels = texts};
    snprintf(name, sizeof name, "attention/step%06zu_layer%zu.png", look->step, layer);
    return path_join(path, sizeof path, r->directory, name, err) && attention_figure_save(&figure, path, err);
}

bool picture_attention(const RunRecord *r, const Config *config, const Look *look, Error *err) {
    for (size_t layer = 0; layer < r->L; layer++)
        if (!picture_layer(r, config, look, layer, err)) return false;
    return true;
}
