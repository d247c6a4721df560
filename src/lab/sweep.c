#include "lab/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "lab/combinations.h"
#include "show/chart.h"
#include "show/heatmap.h"
#include "train/pictures.h"
#include "train/run_directory.h"

enum { ARMS_MAX = 256, ARMS_DRAWN = 8, LABEL = 160 };

typedef struct {
    Config config;
    char name[LABEL];  /* of its directory: "scale_divisor=none" */
    char label[LABEL]; /* for people: "1 (none)" */
    RunRecord record;
    bool diverged;
} Arm;

typedef struct {
    const Config *config;
    const TrainOptions *options;
    char directory[2048];
    size_t count;
    Arm *arms;
} Sweep;

/* "scale_divisor" of "attention.scale_divisor". */
static const char *short_name(size_t setting) {
    const char *name = config_key_name(setting), *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

static bool make_arm(const Sweep *sweep, size_t i, Arm *arm, Error *err) {
    const Config *c = sweep->config;
    const char *values[SWEEP_AXES_MAX];
    size_t name = 0, label = 0, title = strlen(c->name);
    if (!combinations_config(c, i, &arm->config, values, err)) return false;
    for (size_t a = 0; a < c->sweep_count && name < LABEL && label < LABEL; a++) {
        char value[64];
        const char *key = short_name(c->sweep[a].setting);
        bool divisor = strcmp(key, "scale_divisor") == 0;
        name += (size_t)snprintf(arm->name + name, LABEL - name, "%s%s=%s", a ? "," : "", key, values[a]);
        if (divisor)
            scale_title(arm->config.attention.scale_divisor, (size_t)arm->config.model.d_k, value, sizeof value);
        else
            snprintf(value, sizeof value, "%s %s", key, values[a]);
        /* Pictures name the divisor anyway. */
        if (!divisor && title < sizeof arm->config.name)
            title += (size_t)snprintf(arm->config.name + title, sizeof arm->config.name - title, ", %s", value);
        label +=
            (size_t)snprintf(arm->label + label, LABEL - label, "%s%s%s", a ? ", " : "", divisor ? "÷ " : "", value);
    }
    if (name >= LABEL) return error_set(err, STATUS_USAGE, "[sweep] has too many keys for one directory name");
    return true;
}

/* Each arm is checked: nothing is written before all are known to be good. */
static bool make_arms(Sweep *sweep, Error *err) {
    if (sweep->config->sweep_count == 0)
        return error_set(
            err, STATUS_USAGE,
            "the config has no [sweep] section: add one such as \"[sweep]\" with \"attention.scale_divisor = sqrt_dk, none\"");
    if (!combinations_count(sweep->config, ARMS_MAX, &sweep->count, err)) return false;
    sweep->arms = calloc(sweep->count, sizeof *sweep->arms);
    if (!sweep->arms) return error_set(err, STATUS_FAILED, "no memory for %zu runs", sweep->count);
    for (size_t i = 0; i < sweep->count; i++)
        if (!make_arm(sweep, i, &sweep->arms[i], err) || !train_check(&sweep->arms[i].config, sweep->options, err))
            return false;
    return true;
}

static bool run_arm(const Sweep *sweep, size_t i, Error *err) {
    Arm *arm = &sweep->arms[i];
    char path[4096];
    TrainOptions options = *sweep->options;
    if (!path_join(path, sizeof path, sweep->directory, arm->name, err)) return false;
    options.out = path;
    options.force = false;
    progress_message(options.progress, "\n[%zu/%zu] %s", i + 1, sweep->count, arm->label);
    if (train_run(&arm->config, &options, &arm->record, err)) return true;
    arm->diverged = err->status == STATUS_DIVERGED;
    if (arm->diverged) progress_message(options.progress, "%s: %s", arm->label, err->message);
    return arm->diverged;
}

static bool draw_losses(const Sweep *sweep, Error *err) {
    char path[4096], title[512];
    Series *series = calloc(2 * sweep->count + 1, sizeof *series);
    if (!series) return error_set(err, STATUS_FAILED, "no memory for a chart");
    for (size_t i = 0; i < sweep->count; i++) {
        const RunRecord *r = &sweep->arms[i].record;
        Color color = chart_color(i);
        Color pale = {(unsigned char)(170 + color.r / 3), (unsigned char)(170 + color.g / 3),
                      (unsigned char)(170 + color.b / 3)};
        series[i] =
            (Series){.x = r->train_step, .y = r->train_loss, .count = r->train_count, .color = pale, .thickness = 1};
        series[sweep->count + i] = (Series){.label = sweep->arms[i].label,
                                            .x = r->val_step,
                                            .y = r->val_loss,
                                            .count = r->val_count,
                                            .color = color,
                                            .thickness = 2.5,
                                            .markers = true};
    }
    snprintf(title, sizeof title, "%s: validation loss", sweep->config->name);
    const Chart chart = {.title = title,
                         .subtitle =
                             "pale: the training batches; same initialisation and batches in every arm of a seed",
                         .x_label = "step",
                         .y_label = "loss (nats a character)",
                         .series = series,
                         .count = 2 * sweep->count};
    bool ok = path_join(path, sizeof path, sweep->directory, "loss.png", err) && chart_save(&chart, path, err);
    free(series);
    return ok;
}

/* Arms as columns; heads of the first layer as rows, at the first look and, below, at the last. */
static bool draw_attention(const Sweep *sweep, Error *err) {
    const RunRecord *first = &sweep->arms[0].record;
    if (first->H == 0 || first->looks == 0) return true;
    size_t columns = sweep->count < ARMS_DRAWN ? sweep->count : ARMS_DRAWN, heads = first->H < 4 ? first->H : 4;
    size_t rows = 2 * heads;
    const float *panels[2 * 4 * ARMS_DRAWN] = {0};
    const char *panel_labels[2 * 4 * ARMS_DRAWN] = {0}, *row_labels[2 * 4], *column_labels[ARMS_DRAWN];
    char texts[2 * 4 * ARMS_DRAWN][LABEL], row_texts[2 * 4][64], path[4096], title[512];
    for (size_t column = 0; column < columns; column++) {
        const Arm *arm = &sweep->arms[column];
        const RunRecord *r = &arm->record;
        column_labels[column] = arm->label;
        /* A swept number of heads or another text has no place in a common grid. */
        bool fits = r->looks > 0 && r->H >= heads && r->text_length == first->text_length;
        for (size_t row = 0; fits && row < rows; row++) {
            const Look *look = row < heads ? &r->first : &r->last;
            size_t at = row * columns + column;
            if (row >= heads && arm->diverged) continue;
            panels[at] = look_weights(r, look, 0, row % heads);
            snprintf(texts[at], LABEL, "entropy %.2f, score std %.2f", look->heads[row % heads].entropy,
                     look->heads[row % heads].score_std);
            panel_labels[at] = texts[at];
        }
    }
    for (size_t row = 0; row < rows; row++) {
        snprintf(row_texts[row], sizeof row_texts[row], "step %zu, head %zu",
                 row < heads ? first->first.step : first->last.step, row % heads);
        row_labels[row] = row_texts[row];
    }
    snprintf(title, sizeof title, "%s: attention in layer 0", sweep->config->name);
    const AttentionFigure figure = {.title = title,
                                    .subtitle =
                                        "the same text before and after training; entropy: 1 is uniform, 0 one-hot",
                                    .text = first->text,
                                    .length = first->text_length,
                                    .rows = rows,
                                    .columns = columns,
                                    .panels = panels,
                                    .row_labels = row_labels,
                                    .column_labels = column_labels,
                                    .panel_labels = panel_labels};
    return path_join(path, sizeof path, sweep->directory, "attention_compare.png", err) &&
           attention_figure_save(&figure, path, err);
}

static double last_of(const double *values, size_t count) { return count ? values[count - 1] : NAN; }

static void write_row(const Sweep *sweep, const Arm *arm, FILE *csv, FILE *out) {
    const RunRecord *r = &arm->record;
    double val = last_of(r->val_loss, r->val_count), train = last_of(r->train_loss, r->train_count);
    double before = r->looks ? record_mean_entropy(r, &r->first) : NAN,
           after = r->looks ? record_mean_entropy(r, &r->last) : NAN;
    fprintf(csv, "%s", arm->name);
    for (size_t a = 0; a < sweep->config->sweep_count; a++) {
        char value[64];
        config_value_text(&arm->config, sweep->config->sweep[a].setting, value, sizeof value);
        fprintf(csv, ",%s", value);
    }
    fprintf(csv, ",%s,%zu,%.7g,%.7g,%.7g,%zu,%.6g,%.6g,%.3f\n", arm->diverged ? "diverged" : "finished", r->steps_done,
            train, val, isfinite(r->best_val_loss) ? r->best_val_loss : NAN, r->best_step, before, after, r->seconds);
    /* printf pads by bytes, and a root sign has three. */
    int wide = 26 + (int)strlen(arm->label);
    for (const char *s = arm->label; *s; s++) wide -= (*s & 0xC0) != 0x80;
    fprintf(out, "%-*s %9.4f %9.4f %9.4f %8.3f -> %.3f%s\n", wide, arm->label, train, val, r->best_val_loss, before,
            after, arm->diverged ? "  diverged" : "");
}

static bool write_summary(const Sweep *sweep, FILE *out, Error *err) {
    char path[4096];
    FileWriter csv;
    if (!path_join(path, sizeof path, sweep->directory, "summary.csv", err) || !file_writer_open(&csv, path, err))
        return false;
    fprintf(csv.stream, "arm");
    for (size_t a = 0; a < sweep->config->sweep_count; a++)
        fprintf(csv.stream, ",%s", short_name(sweep->config->sweep[a].setting));
    fprintf(csv.stream,
            ",result,steps,train_loss,val_loss,best_val_loss,best_step,entropy_first,entropy_last,seconds\n");
    fprintf(out, "\n%-26s %9s %9s %9s %8s\n", "", "train", "val", "best val", "entropy (first -> last step)");
    for (size_t i = 0; i < sweep->count; i++) write_row(sweep, &sweep->arms[i], csv.stream, out);
    return file_writer_commit(&csv, err);
}

bool sweep_run(const Config *config, const TrainOptions *options, FILE *out, int *signal, Error *err) {
    Sweep sweep = {.config = config, .options = options};
    const char *wanted = options->out ? options->out : config->log.out;
    bool ok = make_arms(&sweep, err) && run_directory_make(sweep.directory, sizeof sweep.directory, wanted,
                                                           options->out != NULL, options->force, err);
    *signal = 0;
    if (ok) {
        Json *description = run_description(options->command_line, options->threads);
        js_set(description, "arms", js_integer((int64_t)sweep.count));
        ok = run_description_save(description, sweep.directory, err);
        js_free(description);
    }
    for (size_t i = 0; ok && !*signal && i < sweep.count; i++) {
        ok = run_arm(&sweep, i, err);
        *signal = sweep.arms[i].record.signal;
    }
    if (ok && !*signal) {
        ok = draw_losses(&sweep, err) && draw_attention(&sweep, err) && write_summary(&sweep, out, err);
        if (ok)
            fprintf(out, "\nlook at\n  %s/loss.png\n  %s/attention_compare.png\n  %s/summary.csv\n", sweep.directory,
                    sweep.directory, sweep.directory);
    }
    for (size_t i = 0; sweep.arms && i < sweep.count; i++) record_free(&sweep.arms[i].record);
    free(sweep.arms);
    return ok;
}

bool sweep_dry_run(const Config *config, const TrainOptions *options, FILE *out, Error *err) {
    Sweep sweep = {.config = config, .options = options};
    bool ok = make_arms(&sweep, err) && train_dry_run(config, options, out, err);
    if (ok) {
        fprintf(out, "\n[sweep]\n");
        combinations_print(config, "", out);
    }
    free(sweep.arms);
    return ok;
}
