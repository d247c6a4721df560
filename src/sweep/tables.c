/* What a sweep found, as tables: summary.csv, an arm a row; summary.md and the terminal, a group a row. Times are in
   summary.csv alone, so that summary.md is the same for everyone who repeats the sweep. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "sweep/parts.h"

/* Empty where there is no number, as in metrics.csv. */
static void write_number(FILE *out, const char *format, double number) {
    fputc(',', out);
    if (isfinite(number)) fprintf(out, format, number);
}

static void write_arm(const Sweep *s, size_t i, FILE *out) {
    const Arm *arm = &s->arms.arms[i];
    const ArmRun *run = sweep_run_of(s, i);
    const ArmResults *r = &run->results;
    const Curve *c = r->curves;
    text_write_field(arm->name, false, out);
    for (size_t a = 0; a < s->arms.config->sweep_count; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&arm->config, s->arms.config->sweep[a].key, value, sizeof value);
        fputc(',', out);
        text_write_field(value, false, out);
    }
    fprintf(out, ",%s,", ARM_STATE_NAMES[run->state]);
    if (arm->same_as != i) text_write_field(s->arms.arms[arm->same_as].name, false, out);
    const Curve *train = &c[CURVE_TRAIN_LOSS];
    write_number(out, "%.0f", r->steps);
    write_number(out, "%.7g", curve_last(train));
    write_number(out, "%.7g", curve_last(&c[CURVE_VAL_LOSS]));
    write_number(out, "%.7g", r->best_val_loss);
    write_number(out, "%.0f", isfinite(r->best_val_loss) ? (double)r->best_step : NAN);
    for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++) {
        write_number(out, "%.6g", curve_first(&c[kind]));
        write_number(out, "%.6g", curve_last(&c[kind]));
    }
    write_number(out, "%.6g", r->grad_norm_median);
    write_number(out, "%.0f", r->threads);
    fputc(',', out);
    text_write_field(run->message, false, out);
    write_number(out, "%.3f", r->seconds);
    fputc('\n', out);
}

bool sweep_write_csv(const Sweep *s, Error *err) {
    char path[4096];
    FileWriter csv;
    if (!path_join(path, sizeof path, s->directory, "summary.csv", err) || !file_writer_open(&csv, path, err))
        return false;
    fputs("arm", csv.stream);
    for (size_t a = 0; a < s->arms.config->sweep_count; a++) fprintf(csv.stream, ",%s", arms_key(s->arms.config, a));
    fprintf(csv.stream, "%.*s\n", (int)strlen(SUMMARY_COLUMNS) - 1, SUMMARY_COLUMNS);
    for (size_t i = 0; i < s->arms.count; i++) write_arm(s, i, csv.stream);
    return file_writer_commit(&csv, err);
}

static int width_of(const char *text) { return (int)utf8_columns(text, strlen(text)); }

static void print_left(FILE *out, int width, const char *text) {
    fprintf(out, "%s%*s", text, width > width_of(text) ? width - width_of(text) : 0, "");
}
static void print_right(FILE *out, int width, const char *text) {
    fprintf(out, " %*s%s", width > width_of(text) ? width - width_of(text) : 0, "", text);
}

/* What is left to say about a group: "2 diverged", "the same as ÷ √d_k = 2". */
static void remark(const Sweep *s, size_t g, const GroupSummary *summary, char *out, size_t capacity) {
    const Group *group = &s->arms.groups[g];
    size_t left = group->count - summary->finished - summary->diverged;
    *out = 0;
    if (group->same_as != g) text_append(out, capacity, "the same as %s", s->arms.groups[group->same_as].label);
    if (summary->diverged) text_append(out, capacity, "%s%zu diverged", *out ? "; " : "", summary->diverged);
    if (left) text_append(out, capacity, "%s%zu not finished", *out ? "; " : "", left);
}

void sweep_print_table(const Sweep *s, FILE *out) {
    enum { LOSS = 15, DIFFERENCE = 16 };
    char text[64], note[GROUP_LABEL + 64];
    bool compared = sweep_is_compared(s);
    int widest = 24;
    for (size_t g = 0; g < s->arms.group_count; g++) {
        int width = width_of(s->arms.groups[g].label);
        if (width > widest) widest = width;
    }
    fputc('\n', out);
    print_left(out, widest, "");
    print_right(out, 2, "n");
    print_right(out, LOSS, "validation");
    if (compared) print_right(out, DIFFERENCE, "against √d_k");
    fputs("  entropy over time\n", out);
    for (size_t g = 0; g < s->arms.group_count; g++) {
        const GroupSummary summary = sweep_group(s, g);
        print_left(out, widest, s->arms.groups[g].label);
        snprintf(text, sizeof text, "%zu", summary.finished);
        print_right(out, 2, text);
        print_right(out, LOSS, sweep_interval_text(summary.val_loss, "%.4f", text));
        if (compared) print_right(out, DIFFERENCE, sweep_interval_text(summary.difference, "%+.4f", text));
        if (summary.entropy_last.count)
            fprintf(out, "  %.3f -> %.3f", summary.entropy_first.mean, summary.entropy_last.mean);
        remark(s, g, &summary, note, sizeof note);
        fprintf(out, "%s%s\n", *note ? "\n    " : "", note);
    }
}

static void write_groups(const Sweep *s, FILE *out) {
    char text[64], note[GROUP_LABEL + 64];
    fputs("| setting | runs | validation loss | against ÷ √d_k | lowest | entropy, first | last | score std, first | "
          "last | gradient norm | |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
          out);
    for (size_t g = 0; g < s->arms.group_count; g++) {
        const GroupSummary summary = sweep_group(s, g);
        fprintf(out, "| %s | %zu ", s->arms.groups[g].label, summary.finished);
        fprintf(out, "| %s ", sweep_interval_text(summary.val_loss, "%.4f", text));
        fprintf(out, "| %s ", sweep_interval_text(summary.difference, "%+.4f", text));
        const Interval columns[] = {summary.best_val_loss,   summary.entropy_first,  summary.entropy_last,
                                    summary.score_std_first, summary.score_std_last, summary.grad_norm};
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            fprintf(out, "| %s ", sweep_interval_text(columns[i], i == 0 ? "%.4f" : "%.3f", text));
        remark(s, g, &summary, note, sizeof note);
        fprintf(out, "| %s |\n", note);
    }
}

static void write_runs(const Sweep *s, FILE *out) {
    fputs("\n| run | result | train loss | validation loss | lowest, at step |\n|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < s->arms.count; i++) {
        const Arm *arm = &s->arms.arms[i];
        const ArmRun *run = sweep_run_of(s, i);
        const ArmResults *r = &run->results;
        fprintf(out, "| %s | ", arm->name);
        if (run->state == ARM_FAILED) fputs("failed: ", out);
        text_write_cell(*run->message ? run->message : ARM_STATE_NAMES[run->state], out);
        if (arm->same_as != i) fprintf(out, ", the same as %s", s->arms.arms[arm->same_as].name);
        if (isfinite(r->best_val_loss))
            fprintf(out, " | %.4f | %.4f | %.4f, %zu |\n", curve_last(&r->curves[CURVE_TRAIN_LOSS]),
                    curve_last(&r->curves[CURVE_VAL_LOSS]), r->best_val_loss, r->best_step);
        else
            fputs(" | | | |\n", out);
    }
}

bool sweep_write_markdown(const Sweep *s, Error *err) {
    char path[4096];
    FileWriter file;
    if (!path_join(path, sizeof path, s->directory, "summary.md", err) || !file_writer_open(&file, path, err))
        return false;
    FILE *out = file.stream;
    fprintf(out, "# %s\n\nEvery combination of\n\n", s->arms.config->name);
    combinations_print(s->arms.config, "    ", out);
    fputs(
        "\nwith everything else as in config.ini. Losses are in nats per character, over the validation split. A setting's "
        "runs differ\nin the seed alone; runs with the same seed share their initial weights and their batches to the "
        "bit.\n\n",
        out);
    write_groups(s, out);
    sweep_write_matrices(s, out);
    fputs(
        "\n± is the half-width of a 95 % interval (Student's t) over seeds; without one there was a single run. Only "
        "runs that\nfinished count. Against ÷ √d_k: the difference in validation loss, taken seed by seed between runs "
        "that share\neverything but the divisor. Entropy (1: uniform, 0: one-hot) and the standard deviation of the "
        "scores are means over all\nheads, at the first and the last look; the gradient norm is the median over a "
        "run.\n",
        out);
    write_runs(s, out);
    if (sweep_has_final(s)) fputs("\n![final validation loss](final.png)\n", out);
    fputs("\n![validation loss](loss.png)\n\n![attention](attention_compare.png)\n\n![entropy](entropy.png)\n\n"
          "![standard deviation of the scores](score_std.png)\n\n![size of the weights](qk_norm.png)\n",
          out);
    return file_writer_commit(&file, err);
}
