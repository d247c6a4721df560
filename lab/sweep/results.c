/* The results of a sweep. They are read back from the files of its runs only, so that a resumed sweep gives the same
   tables as one that was never stopped. Then come the statistics of a setting over its seeds: means with their
   intervals, and the difference to the setting that divides by √d_k. Then the tables: summary.csv, a row for each run;
   on the terminal, a row for each setting. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "lab/sweep/sweep.h"
#include "lab/text.h"

const char *const SWEEP_RUN_STATES[] = {"not finished", "finished", "diverged", "failed", "damaged"};

#define COLUMN_OF(constant, ...) [constant] = {__VA_ARGS__},
const MeasureColumn MEASURES[MEASURE_COUNT] = {MEASURES_TABLE(COLUMN_OF)};

/* Returns run.json, or NULL for a run that was not started. A directory that has other files has lost its run.json, and
   is refused, unless a process holds it, which has yet to write that file or is removing the others. */
static const Json *load_description(const SweepRun *run) {
    char path[PATH_CAPACITY];
    path_join(path, run->directory, "run.json");
    const bool has_files = path_exists(run->directory) && !results_unused(run->directory);
    const bool was_started = path_exists(path) || (has_files && !directory_held(run->directory));
    return was_started ? run_description_load(run->directory) : NULL;
}

void sweep_note(SweepRun *run, SweepRunState state, const char *why) {
    run->state = state;
    text_clip(why, sizeof run->message - 4, run->message, sizeof run->message);
}

/* Reads how the run ended. While it has not, its state stays: it may have failed since, before it trained. */
static void read_state(SweepRun *run, const Json *json) {
    const char *result = js_as_text(js_get(json, "result")), *error = js_as_text(js_get(json, "error"));
    if (!result || strcmp(result, "running") == 0 || strcmp(result, "interrupted") == 0) return;
    sweep_note(run, RUN_NOT_FINISHED, error ? error : "");
    for (SweepRunState state = RUN_FINISHED; state <= RUN_FAILED; state++)
        if (strcmp(result, SWEEP_RUN_STATES[state]) == 0) run->state = state;
}

bool sweep_find_holder(SweepRun *run) {
    run->held = path_exists(run->directory) && directory_held(run->directory);
    if (run->held) sweep_note(run, run->state, "another process trains it");
    return run->held;
}

bool sweep_has_logs(const SweepRun *run) { return run->state != RUN_DAMAGED && !run->unbegun; }

static void forget_measures(SweepRun *run) {
    for (Measure m = 0; m < MEASURE_COUNT; m++) run->measured[m] = NAN;
    for (size_t i = 0; i < NGRAM_ORDERS; i++) run->baselines[i] = NAN;
}

static void measure_metrics(SweepRun *run, const LogTable *table) {
    double *r = run->measured;
    const double *steps = table->column[METRICS_STEP], *train = table->column[METRICS_TRAIN_LOSS],
                 last = log_last(table, METRICS_STEP);
    double sum = 0, count = 0;
    for (size_t row = 0; row < table->rows; row++) {
        const bool is_late = steps[row] >= 0.9 * last;
        sum += is_late ? train[row] : 0;
        count += is_late;
        if (steps[row] >= (double)run->config.train.warmup)
            r[MEASURE_GRAD_NORM_MAX] = fmax(r[MEASURE_GRAD_NORM_MAX], table->column[METRICS_GRAD_NORM][row]);
    }
    r[MEASURE_TRAIN_LOSS] = log_last(table, METRICS_TRAIN_LOSS);
    r[MEASURE_BEST_VAL_LOSS] = log_best(table, &r[MEASURE_BEST_STEP]);
    r[MEASURE_TRAIN_LOSS_MEAN] = sum / count;
    r[MEASURE_VAL_LOSS] = log_last(table, METRICS_VAL_LOSS);
    r[MEASURE_VAL_ACCURACY] = log_last(table, METRICS_VAL_ACCURACY);
    r[MEASURE_STEPS] = last;
    r[MEASURE_SECONDS] = log_last(table, METRICS_SECONDS);
    r[MEASURE_GRAD_NORM_MEDIAN] = estimate_median(table->column[METRICS_GRAD_NORM], table->rows).value;
}

/* Computes the means over all heads, at the first step that has a value and at the last step. */
static void measure_attention(SweepRun *run, const LogTable *table) {
    const size_t heads = (size_t)(run->config.model.layers * run->config.model.heads),
                 steps = log_whole_steps(table, run->directory, heads);
    double *r = run->measured, *norms = table->column[ATTENTION_W_Q_NORM];
    for (size_t row = 0; row < table->rows; row++) norms[row] *= table->column[ATTENTION_W_K_NORM][row];
    for (Measure first = MEASURE_ENTROPY_FIRST; first < MEASURE_QK_NORM_LAST; first += 2) {
        const int column = MEASURES[first].attention;
        for (size_t step = 0; step < steps && isnan(r[first]); step++) r[first] = log_mean(table, column, step, heads);
        if (steps) r[first + 1] = log_mean(table, column, steps - 1, heads);
    }
}

void sweep_measure(SweepRun *run, const LogTable *metrics, const LogTable *attention) {
    forget_measures(run);
    measure_metrics(run, metrics);
    measure_attention(run, attention);
}

static void read_run(void *of_sweep) {
    SweepRun *run = of_sweep;
    const size_t mark = memory_mark();
    if (run->state == RUN_DAMAGED) sweep_note(run, RUN_NOT_FINISHED, ""); /* unless it still is */
    forget_measures(run);
    const Json *json = load_description(run);
    read_state(run, json);
    run->unbegun = !json;
    if (json) {
        if (has_ended(run)) run_check_logs(run->directory);
        const LogTable metrics = logs_read_any(run->directory, LOG_METRICS),
                       attention = logs_read_any(run->directory, LOG_ATTENTION);
        sweep_measure(run, &metrics, &attention);
        js_as_number(js_get(json, "steps"), &run->measured[MEASURE_STEPS]);
        js_as_number(js_get(json, "seconds"), &run->measured[MEASURE_SECONDS]);
        js_as_number(js_get(json, "threads"), &run->measured[MEASURE_THREADS]);
        run_ngram_losses(run->directory, run->baselines);
    }
    memory_release(mark);
}

void sweep_read_run(SweepRun *run) {
    Error why;
    if (protect(read_run, run, &why)) return;
    if (why.status != STATUS_USAGE) error_raise_again(&why);
    forget_measures(run);
    sweep_note(run, RUN_DAMAGED, why.message);
}

/* --- over seeds */

/* Lists one measure of each run of a setting, by seed; NaN for a run that did not finish, since its last step is no
   result. */
static void measure_all(const Sweep *s, const SweepSetting *setting, Measure which, double values[SWEEP_VALUES_MAX]) {
    for (size_t i = 0; i < setting->count; i++) {
        const SweepRun *run = &s->runs[setting->run[i]];
        values[i] = run->state == RUN_FINISHED ? run->measured[which] : (double)NAN;
    }
}

void sweep_summarize(Sweep *s) {
    double values[SWEEP_VALUES_MAX], reference[SWEEP_VALUES_MAX];
    for (SweepSetting *setting = s->settings; setting < s->settings + s->setting_count; setting++) {
        setting->finished = setting->diverged = setting->damaged = 0;
        for (size_t i = 0; i < setting->count; i++) {
            setting->finished += s->runs[setting->run[i]].state == RUN_FINISHED;
            setting->diverged += s->runs[setting->run[i]].state == RUN_DIVERGED;
            setting->damaged += s->runs[setting->run[i]].state == RUN_DAMAGED;
        }
        for (Measure which = 0; which < MEASURE_COUNT; which++) {
            measure_all(s, setting, which, values);
            setting->mean[which] = interval_of_mean(values, setting->count);
        }
        if (setting->reference == NO_SETTING || &s->settings[setting->reference] == setting) continue;
        measure_all(s, setting, MEASURE_VAL_LOSS, values);
        measure_all(s, &s->settings[setting->reference], MEASURE_VAL_LOSS, reference);
        setting->difference = interval_of_difference(values, reference, setting->count);
    }
}

void sweep_read_back(Sweep *s) {
    for (size_t i = 0; i < s->run_count; i++)
        if (s->runs[i].state != RUN_DAMAGED) sweep_read_run(&s->runs[i]);
    sweep_summarize(s);
}

/* --- summary.csv */

/* Writes a field: empty where there is no number, as in metrics.csv. */
static void write_number(FILE *out, const char *format, double number) {
    fputc(',', out);
    if (isfinite(number)) fprintf(out, format, number);
}

static void write_run(const Sweep *s, const SweepRun *run, FILE *out) {
    text_write_field(run->name, out);
    for (size_t a = 0; a < s->axes.count; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&run->config, s->axes.axis[a].key, value, sizeof value);
        fputc(',', out);
        text_write_field(value, out);
    }
    write_number(out, "%.9g", divisor_value(run->config.attention.scale_divisor, run->config.model.d_k));
    fprintf(out, ",%s", SWEEP_RUN_STATES[run->state]);
    for (Measure m = 0; m < MEASURE_COUNT; m++) {
        if (m == MEASURE_SECONDS) {
            fputc(',', out);
            text_write_field(run->message, out);
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
        const size_t unfinished = setting->count - setting->finished - setting->diverged - setting->damaged;
        const struct {
            size_t runs;
            const char *state;
        } others[] = {{setting->diverged, "diverged"}, {setting->damaged, "damaged"}, {unfinished, "not finished"}};
        const char *before = "\n    ";
        for (size_t k = 0; k < 3; k++) {
            if (others[k].runs == 0) continue;
            fprintf(out, "%s%zu %s", before, others[k].runs, others[k].state);
            before = "; ";
        }
        fputc('\n', out);
    }
}
