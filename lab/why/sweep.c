/* The sentences about a sweep or other runs, and their table. Figures are a setting's means over the runs that
   finished, as in the table that the sweep prints. The settings with the lowest and the highest validation loss are
   compared. */
#include <math.h>
#include <string.h>

#include "lab/why/why.h"

/* LABEL is in columns of text. If there are more settings than ROWS, the table has the first BEST and the last ROWS -
   BEST of them. */
enum { LABEL = 26, ROWS = 12, BEST = 7 };

/* The settings that have a finished run with a validation loss, the lowest first. */
typedef struct {
    const Sweep *sweep;
    const SweepSetting *setting[RUNS_MAX]; /* (count) */
    size_t count;
    double baselines[NGRAM_ORDERS];
} Ranking;

static double mean_of(const SweepSetting *setting, Measure measure) { return setting->mean[measure].mean; }

/* Returns whether the runs differ in a key whose name begins with `start`. */
static bool differ_in(const Sweep *s, const char *start) {
    char first[CONFIG_VALUE_MAX], value[CONFIG_VALUE_MAX];
    for (size_t key = 0; key < config_key_count(); key++) {
        if (strncmp(config_key_name(key), start, strlen(start)) != 0) continue;
        config_value_text(&s->runs->config, key, first, sizeof first);
        for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
            config_value_text(&run->config, key, value, sizeof value);
            if (strcmp(value, first) != 0) return true;
        }
    }
    return false;
}

/* Returns whether a setting has several runs, which differ in the seed. */
static bool is_average(const Sweep *s) { return s->settings->count > 1; }

/* Returns the loss of the setting at a place of the ranking. */
static double loss_at(const Ranking *r, size_t at) { return mean_of(r->setting[at], MEASURE_VAL_LOSS); }

/* Returns whether all settings end with exactly the same loss, as settings do that differ in a key without effect. */
static bool all_equal(const Ranking *r) { return r->count > 1 && loss_at(r, 0) == loss_at(r, r->count - 1); }

void why_baselines(const Sweep *s, double losses[NGRAM_ORDERS]) {
    const double *first = NULL;
    bool same = true;
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        if (!(run->measured[MEASURE_STEPS] >= 0)) continue;
        if (!first) first = run->baselines;
        same = same && memcmp(first, run->baselines, sizeof run->baselines) == 0;
    }
    for (size_t i = 0; i < NGRAM_ORDERS; i++) losses[i] = first && same ? first[i] : (double)NAN;
}

static void rank(Ranking *r, const Sweep *s) {
    *r = (Ranking){.sweep = s};
    for (const SweepSetting *now = s->settings; now < s->settings + s->setting_count; now++) {
        if (!now->mean[MEASURE_VAL_LOSS].count) continue;
        size_t at = r->count++;
        for (; at > 0 && mean_of(now, MEASURE_VAL_LOSS) < loss_at(r, at - 1); at--) r->setting[at] = r->setting[at - 1];
        r->setting[at] = now;
    }
    why_baselines(s, r->baselines);
}

/* Adds the loss at a place of the ranking and who ends with it: "÷ 1 and 1 other end with the highest, 2.31 ...", or
   "All 4 settings" if they are equal. */
static void add_end(const Ranking *r, size_t at, const char *rank, char *p) {
    const double loss = loss_at(r, at);
    const Config *c = &r->sweep->runs[r->setting[at]->run[0]].config;
    size_t equal = 0;
    for (size_t i = 0; i < r->count; i++) equal += loss_at(r, i) == loss;
    if (all_equal(r))
        why_add(p, "%s %zu %s", is_average(r->sweep) ? "all" : "All", equal,
                r->sweep->axes.count ? "settings" : "runs");
    else why_add(p, "%s", r->setting[at]->label);
    if (equal > 1 && !all_equal(r)) why_add(p, " and %zu other%s", equal - 1, equal == 2 ? "" : "s");
    why_add(p, " end%s with %s%.2f nats per %s", equal > 1 ? "" : "s", rank, loss, config_target(c));
    baselines_add(r->baselines, loss, p);
    why_add(p, ".");
}

static void say_losses(const Ranking *r, Why *why) {
    const Sweep *s = r->sweep;
    char *p = why_next(why);
    if (r->count == 0) {
        why_add(p, "None of the %zu runs has finished with a validation loss.", s->run_count);
        return;
    }
    const size_t last = r->count - 1, batches = s->runs->config.eval.batches;
    const double first_std = mean_of(r->setting[0], MEASURE_SCORE_STD_FIRST);
    const double last_std = mean_of(r->setting[last], MEASURE_SCORE_STD_FIRST);
    const char *rank = last == 0 ? "a validation loss of " : all_equal(r) ? "the same validation loss, " : NULL;
    if (is_average(s)) why_add(p, "On average over the seeds that finished, ");
    add_end(r, 0, rank ? rank : "the lowest validation loss, ", p);
    if (!rank) {
        why_add(p, " ");
        add_end(r, last, "the highest, ", p);
        if (isfinite(first_std) && isfinite(last_std))
            why_add(p, " Their scores start with standard deviations of %.3g and %.3g.", first_std, last_std);
    } else if (last == 0 && isfinite(first_std))
        why_add(p, " Its scores start with a standard deviation of %.3g.", first_std);
    if (differ_in(s, "data.") || differ_in(s, "eval."))
        why_add(p, " But these runs differ in what their losses are measured on.");
    else if (batches > 0 && !isnan(*r->baselines))
        why_add(p, " Losses are those of %zu %s, a table's that of the whole validation split.", batches,
                batches == 1 ? "batch" : "batches");
}

/* Adds how far table n is below table n - 1, as in "triples 0.25 below pairs". */
static void add_gap(const Ranking *r, size_t n, const char *table, const char *other, char *p) {
    const double gap = r->baselines[n - 1] - r->baselines[n];
    if (fabs(gap) < .005) why_add(p, "%s level with %s", table, other);
    else why_add(p, "%s %.2f %s %s", table, fabs(gap), gap > 0 ? "below" : "above", other);
}

static void say_differences(const Ranking *r, Why *why) {
    const double apart = loss_at(r, r->count - 1) - loss_at(r, 0);
    char *p = why_next(why);
    if (apart < .005) why_add(p, "Lowest and highest are less than 0.01 apart");
    else why_add(p, "Lowest and highest are %.2f apart", apart);
    if (!isnan(*r->baselines)) {
        add_gap(r, 1, "; a table of character pairs is", "one of single characters", p);
        add_gap(r, 2, ", triples", "pairs", p);
        add_gap(r, 3, ", 4-grams", "triples", p);
    }
    why_add(p, ".");
}

/* Says which runs are in no mean. */
static void say_unfinished(const Sweep *s, Why *why) {
    size_t count[RUN_DAMAGED + 1] = {0};
    const SweepRun *first = NULL;
    for (size_t i = 0; i < s->run_count; i++) {
        count[s->runs[i].state]++;
        if (!first && s->runs[i].state != RUN_FINISHED) first = &s->runs[i];
    }
    if (!first) return;
    why_add(
        why_next(why),
        "Of %zu runs %zu diverged, %zu failed, %zu %s damaged and %zu %s not finished; they are in no mean. The first "
        "is %s%s%s.",
        s->run_count, count[RUN_DIVERGED], count[RUN_FAILED], count[RUN_DAMAGED],
        count[RUN_DAMAGED] == 1 ? "is" : "are", count[RUN_NOT_FINISHED], count[RUN_NOT_FINISHED] == 1 ? "has" : "have",
        first->name, *first->message ? ": " : "", first->message);
}

static void say_limits(const Ranking *r, Why *why) {
    const Sweep *s = r->sweep;
    const Config *c = &s->runs[0].config;
    double half = NAN; /* the largest half of an interval */
    for (size_t i = 0; i < r->count; i++) half = fmax(half, r->setting[i]->mean[MEASURE_VAL_LOSS].half);
    char *p = why_next(why);
    why_add(p, "What remains open: ");
    if (isnan(half)) why_add(p, "no setting has two runs that finished, so no difference has an interval; ");
    else why_add(p, "the seeds leave a mean loss uncertain by up to ± %.2g (95 %%); ", half);
    if (differ_in(s, "train.lr") || differ_in(s, "train.muon_lr"))
        why_add(p, "the best rate is chosen by the losses that are shown, which flatters it; ");
    else {
        why_add_rate(c, p);
        why_add(p, " need not suit every setting; ");
    }
    why_add(p, "other %s and sizes of model may differ.", c->data.task == TASK_RECALL ? "tasks" : "texts");
}

/* --- the table */

/* The columns of the table. A figure has so many decimals, or so many digits if it is `rounded`. */
static const struct {
    Measure measure;
    int width, digits;
    bool rounded;
} COLUMNS[] = {{MEASURE_SCORE_STD_FIRST, 7, 3, true},   {MEASURE_ENTROPY_FIRST, 7, 2, false},
               {MEASURE_GRAD_SCORES_FIRST, 8, 2, true}, {MEASURE_ENTROPY_LAST, 7, 2, false},
               {MEASURE_GRAD_SCORES_LAST, 8, 2, true},  {MEASURE_VAL_LOSS, 7, 2, false}};

/* Writes a setting's row. A label that is too long gets a separate line. A figure that was not measured is "-", as that
   of attention in a context of one character. */
static void add_row(const SweepSetting *setting, char *table) {
    const size_t columns = utf8_columns(setting->label, strlen(setting->label));
    const bool fits = columns <= LABEL;
    text_append(table, WHY_TABLE, "%s%s%*s %2zu", setting->label, fits ? "" : "\n",
                (int)(fits ? LABEL - columns : LABEL), "", setting->finished);
    for (size_t c = 0; c < sizeof COLUMNS / sizeof *COLUMNS; c++) {
        const double mean = mean_of(setting, COLUMNS[c].measure);
        char text[32];
        if (COLUMNS[c].rounded) text_digits(mean, COLUMNS[c].digits, text, sizeof text);
        else snprintf(text, sizeof text, "%.*f", COLUMNS[c].digits, mean);
        text_append(table, WHY_TABLE, " %*s", COLUMNS[c].width, isnan(mean) ? "-" : text);
    }
    text_append(table, WHY_TABLE, "\n");
}

static void make_table(const Ranking *r, char *table) {
    const size_t omitted = r->count > ROWS ? r->count - ROWS : 0;
    snprintf(table, WHY_TABLE, "%*s   %24s %16s\n%*s  n %7s %7s %8s %7s %8s %7s\n", LABEL, "",
             "first measured:", "last:", LABEL, "", "scores", "entropy", "gradient", "entropy", "gradient", "loss");
    for (size_t i = 0; i < r->count; i++) {
        if (omitted && i == BEST) {
            text_append(table, WHY_TABLE, "(%zu settings between these are left out)\n", omitted);
            i += omitted;
        }
        add_row(r->setting[i], table);
    }
    text_append(table, WHY_TABLE,
                "n: runs that finished; scores: their standard deviation; entropy: of weights, 1\n"
                "is uniform, 0 one-hot; gradient: of a query's scores, median norm; loss:\n"
                "validation, in nats per %s\n",
                config_target(&r->sweep->runs->config));
}

void why_sweep(const Sweep *sweep, Why *why) {
    static Ranking r; /* large */
    *why = (Why){0};
    rank(&r, sweep);
    say_losses(&r, why);
    if (r.count > 0) make_table(&r, why->table);
    if (r.count > 1 && !all_equal(&r)) {
        why->lowest = r.setting[0];
        why->highest = r.setting[r.count - 1];
        say_differences(&r, why);
    }
    say_unfinished(sweep, why);
    if (r.count > 0) say_limits(&r, why);
}
