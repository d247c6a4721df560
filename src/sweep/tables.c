/* The results of a sweep, as tables: summary.csv, a row for each run; on the terminal, a row for each setting. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "sweep/parts.h"

/* --- summary.csv */

/* Writes a field: empty where there is no number, as in metrics.csv. */
static void write_number(FILE *out, const char *format, double number) {
    fputc(',', out);
    if (isfinite(number)) fprintf(out, format, number);
}

static void write_run(const Sweep *s, const SweepRun *run, FILE *out) {
    text_write_field(run->name, false, out);
    for (size_t a = 0; a < s->axes.count; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&run->config, s->axes.axis[a].key, value, sizeof value);
        fputc(',', out);
        text_write_field(value, false, out);
    }
    write_number(out, "%.9g", divisor_value(run->config.attention.scale_divisor, run->config.model.d_k));
    fprintf(out, ",%s", SWEEP_RUN_STATES[run->state]);
    for (Measure m = 0; m < MEASURE_COUNT; m++) {
        if (m == MEASURE_SECONDS) {
            fputc(',', out);
            text_write_field(run->message, false, out);
        }
        write_number(out, MEASURES[m].format, run->measured[m]);
    }
    fputc('\n', out);
}

void sweep_write_csv(const Sweep *s) {
    FileWriter *csv = file_writer_open(s->directory, "summary.csv");
    FILE *out = csv->stream;
    fputs("run", out);
    for (size_t a = 0; a < s->axes.count; a++) fprintf(out, ",%s", sweep_key(&s->axes, a));
    fputs(",divisor,result", out);
    for (Measure m = 0; m < MEASURE_COUNT; m++)
        fprintf(out, "%s,%s", m == MEASURE_SECONDS ? ",error" : "", MEASURES[m].name);
    fputc('\n', out);
    for (size_t i = 0; i < s->run_count; i++) write_run(s, &s->runs[i], out);
    file_writer_commit(csv);
}

/* --- the terminal */

/* Writes "1.6930 ± 0.0123", or "1.6930" for a single value, or "-" for none. A difference has a sign, "+0.0123", unless
   it is zero as printed. */
static void interval_text(Interval interval, bool difference, char out[64]) {
    const bool zero = fabs(interval.mean) < .00005;
    snprintf(out, 64, "-");
    if (interval.count) snprintf(out, 64, difference && !zero ? "%+.4f" : "%.4f", zero ? 0 : interval.mean);
    if (interval.count > 1) text_append(out, 64, " ± %.4f", interval.half);
}

/* Returns the width for printf, which counts bytes, of a field of so many columns that holds the text. */
static int field(size_t columns, const char *text) {
    return (int)(columns + strlen(text) - utf8_columns(text, strlen(text)));
}

void sweep_print_table(const Sweep *s, FILE *out) {
    enum { LOSS = 15, DIFFERENCE = 16 };
    char text[64];
    bool compared = false; /* some setting is compared with another */
    size_t widest = 24;
    for (size_t i = 0; i < s->setting_count; i++) {
        const char *label = s->settings[i].label;
        compared = compared || (s->settings[i].reference != NO_SETTING && s->settings[i].reference != i);
        if (utf8_columns(label, strlen(label)) > widest) widest = utf8_columns(label, strlen(label));
    }
    fprintf(out, "\n%*s  n %*s", (int)widest, "", LOSS, "validation");
    if (compared) fprintf(out, " %*s", field(DIFFERENCE, "against √d_k"), "against √d_k");
    fputs("  entropy over time\n", out);
    for (size_t i = 0; i < s->setting_count; i++) {
        const SweepSetting *setting = &s->settings[i];
        fprintf(out, "%-*s %2zu", field(widest, setting->label), setting->label, setting->finished);
        interval_text(setting->mean[MEASURE_VAL_LOSS], false, text);
        fprintf(out, " %*s", field(LOSS, text), text);
        interval_text(setting->difference, true, text);
        if (compared) fprintf(out, " %*s", field(DIFFERENCE, text), text);
        if (setting->mean[MEASURE_ENTROPY_LAST].count)
            fprintf(out, "  %.3f -> %.3f", setting->mean[MEASURE_ENTROPY_FIRST].mean,
                    setting->mean[MEASURE_ENTROPY_LAST].mean);
        /* The next line counts the setting's runs that are in no mean. */
        const size_t unfinished = setting->count - setting->finished - setting->diverged;
        if (setting->diverged) fprintf(out, "\n    %zu diverged", setting->diverged);
        if (unfinished) fprintf(out, "%s%zu not finished", setting->diverged ? "; " : "\n    ", unfinished);
        fputc('\n', out);
    }
}
