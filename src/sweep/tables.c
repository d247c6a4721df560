/* What a sweep found, as tables: summary.csv, a row for each run; summary.md and the terminal, a row for each setting.
   What concerns a single run, and times, are in summary.csv alone, so that summary.md is the same for everyone who
   repeats the sweep. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "sweep/parts.h"

/* --- summary.csv */

const char SUMMARY_COLUMNS[] =
    ",result,steps,train_loss,train_loss_mean,val_loss,best_val_loss,best_step,val_accuracy,entropy_first,entropy_last,"
    "score_std_first,score_std_last,saturated_first,saturated_last,grad_q_first,grad_q_last,"
    "grad_scores_first,grad_scores_last,qk_norm_first,qk_norm_last,grad_norm_median,grad_norm_max,threads,error,seconds,";

/* Empty where there is no number, as in metrics.csv. */
static void write_number(FILE *out, const char *format, double number) {
    fputc(',', out);
    if (isfinite(number)) fprintf(out, format, number);
}

static void write_run(const Sweep *s, const SweepRun *run, FILE *out) {
    const RunResults *r = &run->results;
    text_write_field(run->name, false, out);
    for (size_t a = 0; a < s->config.sweep_count; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&run->config, s->config.sweep[a].key, value, sizeof value);
        fputc(',', out);
        text_write_field(value, false, out);
    }
    fprintf(out, ",%s", SWEEP_RUN_STATES[run->state]);
    write_number(out, "%.0f", r->steps);
    write_number(out, "%.7g", curve_last(&r->curves[CURVE_TRAIN_LOSS]));
    write_number(out, "%.7g", r->train_loss_mean);
    write_number(out, "%.7g", curve_last(&r->curves[CURVE_VAL_LOSS]));
    write_number(out, "%.7g", r->best_val_loss);
    write_number(out, "%.0f", r->best_step);
    write_number(out, "%.6g", r->val_accuracy);
    for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++) {
        write_number(out, "%.6g", curve_first(&r->curves[kind]));
        write_number(out, "%.6g", curve_last(&r->curves[kind]));
    }
    write_number(out, "%.6g", r->grad_norm_median);
    write_number(out, "%.6g", r->grad_norm_max);
    write_number(out, "%.0f", r->threads);
    fputc(',', out);
    text_write_field(run->message, false, out);
    write_number(out, "%.3f", r->seconds);
    fputc('\n', out);
}

static bool open_file(const Sweep *s, const char *name, FileWriter *file, Error *err) {
    char path[4096];
    return path_join(path, sizeof path, s->directory, name, err) && file_writer_open(file, path, err);
}

bool sweep_write_csv(const Sweep *s, Error *err) {
    FileWriter csv;
    if (!open_file(s, "summary.csv", &csv, err)) return false;
    fputs("run", csv.stream);
    for (size_t a = 0; a < s->config.sweep_count; a++) fprintf(csv.stream, ",%s", sweep_key(&s->config, a));
    fprintf(csv.stream, "%.*s\n", (int)strlen(SUMMARY_COLUMNS) - 1, SUMMARY_COLUMNS);
    for (size_t i = 0; i < s->run_count; i++) write_run(s, &s->runs[i], csv.stream);
    return file_writer_commit(&csv, err);
}

/* --- the terminal */

/* "1.6930 ± 0.0123", "1.6930" of a single value, "-" of none. */
static const char *interval_text(Interval interval, const char *format, char out[64]) {
    snprintf(out, 64, "-");
    if (interval.count) snprintf(out, 64, format, interval.mean);
    if (interval.count > 1) {
        text_append(out, 64, " ± ");
        text_append(out, 64, format[1] == '+' ? "%.4f" : format, interval.half);
    }
    return out;
}

/* The runs of a setting that are in no mean: "2 diverged; 1 not finished". */
static void remark(const SweepSetting *setting, char *out, size_t capacity) {
    const size_t left = setting->count - setting->finished - setting->diverged;
    *out = 0;
    if (setting->diverged) text_append(out, capacity, "%zu diverged", setting->diverged);
    if (left) text_append(out, capacity, "%s%zu not finished", *out ? "; " : "", left);
}

/* Whether any setting is compared with another one. */
static bool is_compared(const Sweep *s) {
    for (size_t i = 0; i < s->setting_count; i++)
        if (s->settings[i].reference != NO_SETTING && s->settings[i].reference != i) return true;
    return false;
}

/* printf's width, which is in bytes, of a field of so many columns that holds the text. */
static int field(size_t columns, const char *text) {
    return (int)(columns + strlen(text) - utf8_columns(text, strlen(text)));
}

void sweep_print_table(const Sweep *s, FILE *out) {
    enum { LOSS = 15, DIFFERENCE = 16 };
    char text[64];
    bool compared = is_compared(s);
    size_t widest = 24;
    for (size_t i = 0; i < s->setting_count; i++) {
        const char *label = s->settings[i].label;
        if (utf8_columns(label, strlen(label)) > widest) widest = utf8_columns(label, strlen(label));
    }
    fprintf(out, "\n%*s  n %*s", (int)widest, "", LOSS, "validation");
    if (compared) fprintf(out, " %*s", field(DIFFERENCE, "against √d_k"), "against √d_k");
    fputs("  entropy over time\n", out);
    for (size_t i = 0; i < s->setting_count; i++) {
        const SweepSetting *setting = &s->settings[i];
        fprintf(out, "%-*s %2zu", field(widest, setting->label), setting->label, setting->finished);
        interval_text(setting->mean[MEASURE_VAL_LOSS], "%.4f", text);
        fprintf(out, " %*s", field(LOSS, text), text);
        interval_text(setting->difference, "%+.4f", text);
        if (compared) fprintf(out, " %*s", field(DIFFERENCE, text), text);
        if (setting->mean[MEASURE_ENTROPY_LAST].count)
            fprintf(out, "  %.3f -> %.3f", setting->mean[MEASURE_ENTROPY_FIRST].mean,
                    setting->mean[MEASURE_ENTROPY_LAST].mean);
        remark(setting, text, sizeof text);
        fprintf(out, "%s%s\n", *text ? "\n    " : "", text);
    }
}

/* --- summary.md */

static void write_settings(const Sweep *s, FILE *out) {
    char text[64];
    fputs("| setting | runs | validation loss | against ÷ √d_k | lowest | entropy, first | last | score std, first | "
          "last | gradient norm | |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < s->setting_count; i++) {
        const SweepSetting *setting = &s->settings[i];
        fprintf(out, "| %s | %zu ", setting->label, setting->finished);
        fprintf(out, "| %s ", interval_text(setting->mean[MEASURE_VAL_LOSS], "%.4f", text));
        fprintf(out, "| %s ", interval_text(setting->difference, "%+.4f", text));
        for (Measure m = MEASURE_BEST_VAL_LOSS; m < MEASURE_COUNT; m++)
            fprintf(out, "| %s ", interval_text(setting->mean[m], m == MEASURE_BEST_VAL_LOSS ? "%.4f" : "%.3f", text));
        remark(setting, text, sizeof text);
        fprintf(out, "| %s |\n", text);
    }
}

/* Settings by divisor and by everything else. Settings count with the last key fastest, so those that differ in the
   divisor alone are `stride` apart. The longer side goes down the page. */
typedef struct {
    const Sweep *sweep;
    size_t others[RUNS_MAX], other_count; /* the settings with the first divisor: one for each "everything else" */
    size_t divisors, stride;
    bool divisors_down;
} Matrix;

static void write_heading(const Matrix *m, bool divisor, size_t i, FILE *out) {
    char label[SETTING_LABEL];
    if (divisor)
        sweep_divisor_label(m->sweep, m->others[0] + i * m->stride, label);
    else
        sweep_label(m->sweep, m->others[i], m->sweep->divisor_axis, label);
    fprintf(out, " %s |", label);
}

static void write_matrix(const Matrix *m, bool differences, const char *title, FILE *out) {
    const size_t rows = m->divisors_down ? m->divisors : m->other_count;
    const size_t columns = m->divisors_down ? m->other_count : m->divisors;
    fprintf(out, "\n| %s |", title);
    for (size_t c = 0; c < columns; c++) write_heading(m, !m->divisors_down, c, out);
    fputs("\n|---|", out);
    for (size_t c = 0; c < columns; c++) fputs("---|", out);
    for (size_t r = 0; r < rows; r++) {
        fputs("\n|", out);
        write_heading(m, m->divisors_down, r, out);
        for (size_t c = 0; c < columns; c++) {
            const size_t other = m->divisors_down ? c : r, divisor = m->divisors_down ? r : c;
            const SweepSetting *setting = &m->sweep->settings[m->others[other] + divisor * m->stride];
            char text[64];
            fprintf(out, " %s",
                    differences ? interval_text(setting->difference, "%+.4f", text)
                                : interval_text(setting->mean[MEASURE_VAL_LOSS], "%.4f", text));
            if (setting->diverged) fprintf(out, " (%zu diverged)", setting->diverged);
            fputs(" |", out);
        }
    }
    fputc('\n', out);
}

void sweep_write_matrices(const Sweep *s, FILE *out) {
    Matrix m = {.sweep = s, .stride = 1};
    if (s->divisor_axis == s->config.sweep_count) return;
    m.divisors = s->config.sweep[s->divisor_axis].count;
    while (m.stride < s->setting_count && s->settings[m.stride].digit[s->divisor_axis] == 0) m.stride++;
    for (size_t i = 0; i < s->setting_count; i++)
        if (s->settings[i].digit[s->divisor_axis] == 0) m.others[m.other_count++] = i;
    if (m.other_count < 2) return;
    m.divisors_down = m.divisors > m.other_count;
    write_matrix(&m, false, "validation loss", out);
    if (is_compared(s)) write_matrix(&m, true, "against ÷ √d_k", out);
}

bool sweep_write_markdown(const Sweep *s, Error *err) {
    FileWriter file;
    if (!open_file(s, "summary.md", &file, err)) return false;
    FILE *out = file.stream;
    fprintf(out, "# %s\n\nEvery combination of\n\n", s->config.name);
    combinations_print(&s->config, "    ", out);
    fputs(
        "\nwith everything else as in config.ini. Losses are in nats per character, or per answer of recall, over the\n"
        "validation split. A setting's runs differ in the seed alone; runs with the same seed share their initial weights and their batches to the "
        "bit.\n\n",
        out);
    write_settings(s, out);
    sweep_write_matrices(s, out);
    fputs(
        "\n± is the half-width of a 95 % interval (Student's t) over seeds; without one there was a single run. Only "
        "runs that\nfinished count. Against ÷ √d_k: the difference in validation loss, taken seed by seed between runs "
        "that share\neverything but the divisor. Entropy (1: uniform, 0: one-hot) and the standard deviation of the "
        "scores are means over all\nheads, at the first and the last step at which attention was measured; the gradient "
        "norm is the median over a run.\n",
        out);
    if (sweep_has_final(s)) fputs("\n![final validation loss](final.png)\n", out);
    fputs("\n![validation loss](loss.png)\n\n![attention](attention_compare.png)\n\n![entropy](entropy.png)\n\n"
          "![standard deviation of the scores](score_std.png)\n\n![size of the weights](qk_norm.png)\n",
          out);
    return file_writer_commit(&file, err);
}
