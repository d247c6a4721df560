/* The data of the page, as JSON: the files of each run as they are, the statistics of each setting, and the raw scores
   of the snapshots. Several runs that are no sweep are a sweep in which each run is a setting. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "lab/report/report.h"
#include "lab/sweep/sweep.h"
#include "lab/text.h"
#include "lab/why/why.h"
#include "run/snapshot.h"
#include "show/heatmap.h"

enum { SAMPLES_LIMIT = 1 << 20, SCORES_LIMIT = 9000000, ROWS_LIMIT = 30000, COLORS = 64 };
enum { RUN_LIMIT = 9900000, SWEEP_LIMIT = 5900000 }; /* bytes of data with models; the page's program takes the rest */

static Why why; /* large */

/* --- snapshots */

/* The steps with a snapshot of a run, and the numbers of its layers and heads. */
typedef struct {
    const SweepRun *run;
    double *steps; /* (step_count): those with a snapshot */
    size_t step_count, layers, heads;
} Snapshots;

static Snapshots list_steps(const SweepRun *run) {
    Snapshots s = {.run = run, .layers = run->config.model.layers, .heads = run->config.model.heads};
    const LogTable table = sweep_has_logs(run) ? logs_read_any(run->directory, LOG_ATTENTION) : (LogTable){0};
    const double *step = table.column[ATTENTION_STEP];
    s.steps = memory_make(table.rows, sizeof *s.steps, "the steps of a run");
    for (size_t i = 0; i < table.rows; i++)
        if (i == 0 || step[i] != step[i - 1]) s.steps[s.step_count++] = step[i];
    memory_free(table.numbers);
    return s;
}

/* Returns the i-th of `count` numbers below `all` at even distances; the first is 0, the last all - 1. */
static size_t choose(size_t i, size_t count, size_t all) { return count < 2 ? all - 1 : i * (all - 1) / (count - 1); }

/* Returns the snapshots of `steps` steps and `layers` layers. The scores are little-endian floats: step by step, and
   head by head, the lower triangle of (T,T), row by row. */
static Json *snapshots_json(const Snapshots *from, size_t steps, size_t layers) {
    Json *out = js_object(), *all = js_list(out, "steps"), *shown = js_list(out, "layers"),
         *multipliers = js_list(out, "multiplier"), *sinks = js_list(out, "sink");
    const size_t heads = layers * from->heads;
    char text[4 * SNAPSHOT_TEXT_MAX + 1], *end = text;
    Snapshot first = {0};
    float *scores = NULL; /* (count) */
    size_t count = 0;
    for (size_t n = 0; n < steps; n++) {
        const double step = from->steps[choose(n, steps, from->step_count)];
        const Snapshot s = snapshot_load(from->run->directory, &from->run->config, (size_t)step);
        if (n == 0) {
            first = s;
            scores = memory_make(steps * heads * s.T * (s.T + 1) / 2, sizeof *scores, "the page's scores");
        }
        if (s.T != first.T || memcmp(s.text, first.text, s.T * sizeof *s.text) != 0)
            usage_error("the snapshots in %s/attention are of two texts", from->run->directory);
        for (size_t i = 0; i < heads; i++) {
            const size_t head = choose(i / from->heads, layers, from->layers) * from->heads + i % from->heads;
            js_append(multipliers, js_number((double)s.attention.multiplier[head]));
            js_append(sinks, js_number((double)s.attention.sink[head]));
            for (size_t q = 0; q < s.T; q++) {
                memcpy(scores + count, s.attention.scores + (head * s.T + q) * s.T, (q + 1) * sizeof *scores);
                count += q + 1;
            }
        }
        js_append(all, js_number(step));
        memory_free(s.attention.scores); /* the snapshot's one block */
    }
    for (size_t l = 0; l < layers; l++) js_append(shown, js_size(choose(l, layers, from->layers)));
    for (size_t i = 0; i < first.T; i++) end += utf8_encode(first.text[i], end);
    js_set(out, "heads", js_size(from->heads));
    js_set(out, "text", js_text(text));
    js_set(out, "scores", report_numbers(scores, count * sizeof *scores));
    memory_free(scores);
    return out;
}

/* --- the page */

static Json *interval_json(Interval i) {
    Json *json = js_object();
    js_set(json, "n", js_size(i.count));
    js_set(json, "mean", js_number(i.mean));
    js_set(json, "half", js_number(i.half));
    return json;
}

static Json *color_json(Color c) {
    char text[8];
    snprintf(text, sizeof text, "#%02x%02x%02x", c.r, c.g, c.b);
    return js_text(text);
}

static Json *setting_json(const Sweep *s, size_t index) {
    static const Measure shown[] = {MEASURE_VAL_LOSS,     MEASURE_BEST_VAL_LOSS,   MEASURE_ENTROPY_FIRST,
                                    MEASURE_ENTROPY_LAST, MEASURE_SCORE_STD_FIRST, MEASURE_SCORE_STD_LAST};
    const SweepSetting *setting = &s->settings[index];
    const Config *config = &s->runs[setting->run[0]].config;
    char title[64], divisor[80] = "";
    double dash = 0;
    const Color color = report_style(s, index, &dash);
    Json *json = js_object(), *runs = js_list(json, "runs");
    for (size_t i = 0; i < setting->count; i++) js_append(runs, js_size(setting->run[i]));
    scale_title(config->attention.scale_divisor, config->model.d_k, title, sizeof title);
    text_append(divisor, sizeof divisor, "÷ %s", title);
    js_set(json, "label", js_text(setting->label));
    js_set(json, "divisor", js_text(divisor));
    js_set(json, "color", color_json(color));
    js_set(json, "dash", js_number(dash));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        js_set(json, MEASURES[shown[i]].name, interval_json(setting->mean[shown[i]]));
    if (setting->difference.count) js_set(json, "difference", interval_json(setting->difference));
    return json;
}

size_t report_shown_run(const Sweep *s, const SweepSetting *setting) {
    for (size_t i = 0; i < setting->count; i++)
        if (s->runs[setting->run[i]].state == RUN_FINISHED) return setting->run[i];
    return setting->run[0];
}

/* Sets how many steps and layers of all runs fit on the page: steps are left out first. A note says so. */
static void fit(const Snapshots *all, size_t count, size_t *steps, size_t *layers, Json *notes) {
    double bytes = 0; /* what one step of one layer of all runs takes, in base64 */
    char note[160];
    *steps = *layers = 0;
    for (size_t i = 0; i < count; i++) {
        const double T = fmin((double)all[i].run->config.model.context, SNAPSHOT_TEXT_MAX);
        if (all[i].step_count) bytes += (double)all[i].heads * T * (T + 1) / 2 * sizeof(float) * 4 / 3;
        *steps = all[i].step_count > *steps ? all[i].step_count : *steps;
        *layers = all[i].layers > *layers ? all[i].layers : *layers;
    }
    const size_t had_steps = *steps, had_layers = *layers;
    while (*steps > 2 && bytes * (double)*steps * (double)*layers > SCORES_LIMIT) --*steps;
    while (*layers > 1 && bytes * (double)*steps * (double)*layers > SCORES_LIMIT) --*layers;
    if (*steps == had_steps && *layers == had_layers) return;
    snprintf(note, sizeof note,
             "To keep this page small, it shows the attention of %zu of %zu steps and %zu of %zu layers.", *steps,
             had_steps, *layers, had_layers);
    js_append(notes, js_text(note));
}

/* Returns the config as config_write writes it. */
static Json *config_json(const Config *config) {
    Text *text = text_begin();
    config_write(config, text->stream);
    return js_text(text_end(text));
}

static Json *run_json(const Sweep *s, const SweepRun *run, bool whole) {
    const size_t limit = ROWS_LIMIT / s->run_count, heads = run->config.model.layers * run->config.model.heads;
    Json *json = js_object();
    char page[RUN_NAME + 16], path[PATH_CAPACITY];
    js_set(json, "name", js_text(run->name));
    js_set(json, "result", js_text(SWEEP_RUN_STATES[run->state]));
    snprintf(page, sizeof page, "%s/report.html", run->name);
    path_join(path, run->directory, "report.html");
    if (s->axes.count && path_exists(path)) js_set(json, "path", js_text(page));
    if (whole) js_set(json, "description", run_description_load(run->directory));
    js_set(json, "config", config_json(&run->config));
    if (!sweep_has_logs(run)) return json;
    report_add_file(json, run->directory, "metrics.csv", "metrics", 1, limit);
    report_add_file(json, run->directory, "attention.csv", "attention", heads, limit / heads);
    return json;
}

/* Adds the losses of n-gram tables. A chart of runs on several texts has none. */
static void add_ngrams(const Sweep *s, Json *json) {
    double losses[NGRAM_ORDERS];
    why_baselines(s, losses);
    if (isnan(losses[0])) return;
    Json *list = js_list(json, "ngram_losses");
    for (size_t i = 0; i < NGRAM_ORDERS; i++) js_append(list, js_number(losses[i]));
}

/* A part of a run, and what it is made from. */
typedef struct {
    const Snapshots *from;
    size_t steps, layers, limit;
    Json *made;
} Part;

static void make_snapshots(void *part) {
    Part *p = part;
    p->made = snapshots_json(p->from, p->steps, p->layers);
}

static void make_samples(void *part) {
    Part *p = part;
    p->made = report_samples(p->from->run, p->limit);
}

/* Adds a part to a run. One whose files are damaged is left out, with a note. */
static void add_part(Json *run, const char *key, void (*make)(void *part), Part *part, Json *notes) {
    char note[2 * sizeof(Error)];
    Error damage;
    if (protect(make, part, &damage)) {
        if (part->made) js_set(run, key, part->made);
        return;
    }
    if (damage.status != STATUS_USAGE) error_raise_again(&damage);
    snprintf(note, sizeof note, "Left out: the %s of %.200s: %s.", key, part->from->run->name, damage.message);
    js_append(notes, js_text(note));
}

/* Adds the attention and the samples of each setting's run. */
static void add_attention(const Sweep *s, Json *runs, Json *notes) {
    size_t steps, layers;
    Snapshots *all = memory_make(s->setting_count, sizeof *all, "the attention of the settings");
    for (size_t i = 0; i < s->setting_count; i++) all[i] = list_steps(&s->runs[report_shown_run(s, &s->settings[i])]);
    fit(all, s->setting_count, &steps, &layers, notes);
    for (const Snapshots *one = all; one < all + s->setting_count; one++) {
        Json *run = js_at(runs, (size_t)(one->run - s->runs));
        if (!sweep_has_logs(one->run)) continue;
        Part part = {.from = one,
                     .steps = steps < one->step_count ? steps : one->step_count,
                     .layers = layers < one->layers ? layers : one->layers,
                     .limit = SAMPLES_LIMIT / s->setting_count};
        if (one->step_count) add_part(run, "snapshots", make_snapshots, &part, notes);
        part.made = NULL;
        add_part(run, "samples", make_samples, &part, notes);
    }
}

/* Adds the model of each setting's run, while the page stays below its limit. */
static void add_models(const Sweep *s, const Json *json, Json *runs) {
    char *text = js_dump(json, JS_ASCII);
    double room = (s->setting_count > 1 ? SWEEP_LIMIT : RUN_LIMIT) - (double)strlen(text);
    memory_free(text);
    for (size_t i = 0; i < s->setting_count; i++) {
        const size_t shown = report_shown_run(s, &s->settings[i]);
        js_set(js_at(runs, shown), "model", report_model(s->runs[shown].directory, &room));
    }
}

/* Notes the runs that are in no mean because their logs are damaged. */
static void note_damaged(const Sweep *s, Json *notes) {
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        char note[RUN_NAME + 1200];
        if (run->state != RUN_DAMAGED) continue;
        snprintf(note, sizeof note,
                 s->axes.count ? "The run %s is in no mean: %s." : "The logs of %s are left out: %s.", run->name,
                 run->message);
        js_append(notes, js_text(note));
    }
}

/* Returns the data of a page of runs, about which `why` says something; its `kind` is run, sweep or runs. */
static Json *page_data(const Sweep *s, const char *kind, const char *heading) {
    Json *json = js_object(), *runs = js_list(json, "runs"), *settings = js_list(json, "settings"),
         *notes = js_list(json, "notes"), *colors = js_list(json, "colors"), *t95 = js_list(json, "t95"),
         *palette = js_list(json, "palette");
    const bool sweep = s->axes.count > 0;
    size_t order[RUNS_MAX];
    js_set(json, "kind", js_text(kind));
    js_set(json, "heading", js_text(heading));
    js_set(json, "title", js_text(s->config.name));
    for (size_t i = 0; i < COLORS; i++)
        js_append(colors, color_json(heatmap_color(heatmap_weight((double)i / (COLORS - 1)))));
    for (size_t n = 0; n <= SWEEP_VALUES_MAX; n++) js_append(t95, js_number(student_quantile(.975, n > 1 ? n - 1 : 0)));
    for (size_t i = 0; i < COLORS_COUNT; i++) js_append(palette, color_json(palette_color(i)));
    if (sweep) {
        js_set(json, "config", config_json(&s->config));
        js_set(json, "description", s->description);
        report_sort(s, order);
    }
    note_damaged(s, notes);
    for (size_t i = 0; i < s->setting_count; i++) js_append(settings, setting_json(s, sweep ? order[i] : i));
    for (size_t i = 0; i < s->run_count; i++) js_append(runs, run_json(s, &s->runs[i], !sweep));
    add_ngrams(s, json);
    add_attention(s, runs, notes);
    add_models(s, json, runs);
    js_set(json, "why", js_text(why.sentence[0]));
    return json;
}

Json *report_sweep_data(const Sweep *s) {
    char heading[512];
    why_sweep(s, &why);
    snprintf(heading, sizeof heading, "%s", s->config.name);
    if (why.lowest)
        text_append(heading, sizeof heading, ": validation loss %.3f for %.150s to %.3f for %.150s",
                    why.lowest->mean[MEASURE_VAL_LOSS].mean, why.lowest->label,
                    why.highest->mean[MEASURE_VAL_LOSS].mean, why.highest->label);
    return page_data(s, "sweep", heading);
}

/* Reads the run of a directory, as a run with a setting of its own. */
static void take_run(Sweep *s, size_t index, const char *directory) {
    SweepRun *own = &s->runs[index];
    SweepSetting *setting = &s->settings[index];
    Run run;
    run_open(&run, directory, NULL, 0, false);
    own->config = run.config;
    snprintf(own->directory, sizeof own->directory, "%s", run.directory);
    snprintf(own->name, sizeof own->name, "%.*s", RUN_NAME - 1, run.directory);
    *setting = (SweepSetting){.run = {index}, .count = 1, .reference = NO_SETTING};
    snprintf(setting->label, sizeof setting->label, "%s", own->name);
    text_make_plain(setting->label);
}

Json *report_run_data(const char *const *directories, size_t count) {
    Sweep s = {.run_count = count, .setting_count = count};
    char heading[512];
    s.runs = memory_make(count, sizeof *s.runs, "the runs");
    s.settings = memory_make(count, sizeof *s.settings, "the runs");
    for (size_t i = 0; i < count; i++) take_run(&s, i, directories[i]);
    for (size_t i = 0; i < count; i++) sweep_read_run(&s.runs[i]);
    sweep_summarize(&s);
    const SweepRun *run = &s.runs[0];
    config_scores_title(&run->config, 0, heading, sizeof heading);
    if (isfinite(run->measured[MEASURE_VAL_LOSS]))
        text_append(heading, sizeof heading, ": validation loss %.3f after %.0f steps", run->measured[MEASURE_VAL_LOSS],
                    run->measured[MEASURE_STEPS]);
    if (run->state != RUN_FINISHED) text_append(heading, sizeof heading, " (%s)", SWEEP_RUN_STATES[run->state]);
    if (count > 1) snprintf(heading, sizeof heading, "%zu runs compared", count);
    snprintf(s.config.name, sizeof s.config.name, "%s", count > 1 ? "comparison" : s.runs[0].config.name);
    if (count > 1) why_sweep(&s, &why);
    else why_run(directories[0], &why);
    return page_data(&s, count > 1 ? "runs" : "run", heading);
}
