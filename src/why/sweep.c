/* The sentences about a sweep, and its table. Figures are a setting's means over the runs that finished, as in the
   sweep's own table; the settings with the lowest and the highest validation loss are compared. */
#include <math.h>
#include <string.h>

#include "why/why.h"

/* Columns of a label; of more settings than ROWS the table has the first BEST, and the last. */
enum { LABEL = 26, ROWS = 12, BEST = 7 };

/* The settings that have a finished run with a validation loss, the lowest first. */
typedef struct {
    const Sweep *sweep;
    const SweepSetting *setting[RUNS_MAX]; /* (count) */
    size_t count;
    double baselines[NGRAM_ORDERS];
} Ranking;

static double mean_of(const SweepSetting *setting, Measure measure) { return setting->mean[measure].mean; }

/* Returns whether a key that begins so is swept. */
static bool sweeps(const Sweep *s, const char *start) {
    for (size_t a = 0; a < s->axes.count; a++)
        if (strncmp(config_key_name(s->axes.axis[a].key), start, strlen(start)) == 0) return true;
    return false;
}

static void rank(Ranking *r, const Sweep *s) {
    *r = (Ranking){.sweep = s, .baselines = {NAN, NAN, NAN, NAN}};
    for (const SweepSetting *now = s->settings; now < s->settings + s->setting_count; now++) {
        if (!now->mean[MEASURE_VAL_LOSS].count) continue;
        size_t at = r->count++;
        for (; at > 0 && mean_of(now, MEASURE_VAL_LOSS) < mean_of(r->setting[at - 1], MEASURE_VAL_LOSS); at--)
            r->setting[at] = r->setting[at - 1];
        r->setting[at] = now;
    }
    const SweepRun *run = s->runs, *end = s->runs + s->run_count;
    while (run < end && run->state != RUN_FINISHED) run++; /* all have one text: the first that has finished will do */
    if (run < end && !sweeps(s, "data.")) run_ngram_losses(run->directory, r->baselines);
}

/* The loss of the setting at a place of the ranking. */
static double loss_at(const Ranking *r, size_t at) { return mean_of(r->setting[at], MEASURE_VAL_LOSS); }

/* Adds which settings end with a loss, as in "÷ 1 (none) and 1 other end with the highest, ". */
static void add_settings(const Ranking *r, size_t at, const char *rank, char *p) {
    size_t others = 0;
    for (size_t i = 0; i < r->count; i++) others += i != at && loss_at(r, i) == loss_at(r, at);
    why_add(p, "%s", r->setting[at]->label);
    if (others) why_add(p, " and %zu other%s", others, others == 1 ? "" : "s");
    why_add(p, " end%s with %s", others ? "" : "s", rank);
}

static void add_loss(const Ranking *r, size_t at, char *p) {
    why_add(p, "%.2f nats per %s", loss_at(r, at), config_target(&r->sweep->config));
    baselines_add(r->baselines, loss_at(r, at), p);
    why_add(p, ".");
}

/* Returns whether all settings end with the very same loss, as those that differ in a key without effect. */
static bool all_equal(const Ranking *r) { return r->count > 1 && loss_at(r, 0) == loss_at(r, r->count - 1); }

/* Adds the losses at both ends of the ranking, and what scores started with there. */
static void add_ends(const Ranking *r, char *p) {
    const size_t last = r->count - 1;
    const double first_std = mean_of(r->setting[0], MEASURE_SCORE_STD_FIRST);
    const double last_std = mean_of(r->setting[last], MEASURE_SCORE_STD_FIRST);
    add_settings(r, 0, last ? "the lowest validation loss, " : "a validation loss of ", p);
    add_loss(r, 0, p);
    if (last == 0 && isfinite(first_std)) why_add(p, " Its scores start with a standard deviation of %.3g.", first_std);
    if (last == 0) return;
    why_add(p, " ");
    add_settings(r, last, "the highest, ", p);
    add_loss(r, last, p);
    if (isfinite(first_std) && isfinite(last_std))
        why_add(p, " Their scores start with standard deviations of %.3g and %.3g.", first_std, last_std);
}

static void say_losses(const Ranking *r, Why *why) {
    const Sweep *s = r->sweep;
    char *p = why_next(why);
    if (r->count == 0) {
        why_add(p, "None of the sweep's %zu runs has finished with a validation loss.", s->run_count);
        return;
    }
    const bool seeds = sweeps(s, "train.seed");
    if (seeds) why_add(p, "On average over the seeds that finished, ");
    if (all_equal(r)) {
        why_add(p, "%s %zu settings end with the same validation loss, ", seeds ? "all" : "All", r->count);
        add_loss(r, 0, p);
    } else add_ends(r, p);
    if (sweeps(s, "data.") || sweeps(s, "eval."))
        why_add(p, " But the runs of this sweep differ in what their losses are measured on.");
    else if (s->config.eval.batches > 0 && !isnan(*r->baselines))
        why_add(p, " Losses are those of %zu %s, a table's that of the whole validation split.", s->config.eval.batches,
                s->config.eval.batches == 1 ? "batch" : "batches");
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
    size_t count[RUN_FAILED + 1] = {0};
    const SweepRun *first = NULL;
    for (size_t i = 0; i < s->run_count; i++) {
        count[s->runs[i].state]++;
        if (!first && s->runs[i].state != RUN_FINISHED) first = &s->runs[i];
    }
    if (!first) return;
    why_add(why_next(why),
            "Of %zu runs %zu diverged, %zu failed and %zu did not finish; they are in no mean. The first is %s%s%s.",
            s->run_count, count[RUN_DIVERGED], count[RUN_FAILED], count[RUN_NOT_FINISHED], first->name,
            *first->message ? ": " : "", first->message);
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
    if (sweeps(s, "train.lr") || sweeps(s, "train.muon_lr"))
        why_add(p, "the best rate is chosen by the losses that are shown, which flatters it; ");
    else {
        why_add_rate(c, p);
        why_add(p, " need not suit every setting; ");
    }
    why_add(p, "other %s and sizes of model may differ.", c->data.task == TASK_RECALL ? "tasks" : "texts");
}

/* --- the table */

/* Writes a mean with so many decimals, or digits if it is `rounded`; "-" if nothing was measured, as of the attention
   of a context of one character. */
static void add_mean(const SweepSetting *setting, Measure measure, bool rounded, int digits, char *table) {
    const int width = measure == MEASURE_GRAD_SCORES_FIRST || measure == MEASURE_GRAD_SCORES_LAST ? 8 : 7;
    const double mean = mean_of(setting, measure);
    char text[32] = "-";
    if (!isnan(mean) && rounded) text_digits(mean, digits, text, sizeof text);
    else if (!isnan(mean)) snprintf(text, sizeof text, "%.*f", digits, mean);
    text_append(table, WHY_TABLE, " %*s", width, text);
}

/* A label that is too long has a line of its own. */
static void add_row(const SweepSetting *setting, char *table) {
    const size_t columns = utf8_columns(setting->label, strlen(setting->label));
    const bool fits = columns <= LABEL;
    text_append(table, WHY_TABLE, "%s%s%*s %2zu", setting->label, fits ? "" : "\n",
                (int)(fits ? LABEL - columns : LABEL), "", setting->finished);
    add_mean(setting, MEASURE_SCORE_STD_FIRST, true, 3, table);
    add_mean(setting, MEASURE_ENTROPY_FIRST, false, 2, table);
    add_mean(setting, MEASURE_GRAD_SCORES_FIRST, true, 2, table);
    add_mean(setting, MEASURE_ENTROPY_LAST, false, 2, table);
    add_mean(setting, MEASURE_GRAD_SCORES_LAST, true, 2, table);
    add_mean(setting, MEASURE_VAL_LOSS, false, 2, table);
    text_append(table, WHY_TABLE, "\n");
}

static void make_table(const Ranking *r, char *table) {
    const size_t left_out = r->count > ROWS ? r->count - ROWS : 0;
    snprintf(table, WHY_TABLE, "%*s   %24s %16s\n%*s  n %7s %7s %8s %7s %8s %7s\n", LABEL, "",
             "first measured:", "last:", LABEL, "", "scores", "entropy", "gradient", "entropy", "gradient", "loss");
    for (size_t i = 0; i < r->count; i++) {
        if (left_out && i == BEST) {
            text_append(table, WHY_TABLE, "(%zu settings between these are left out)\n", left_out);
            i += left_out;
        }
        add_row(r->setting[i], table);
    }
    text_append(table, WHY_TABLE,
                "n: runs that finished; scores: their standard deviation; entropy: of weights, 1\n"
                "is uniform, 0 one-hot; gradient: of a query's scores, median norm; loss:\n"
                "validation, in nats per %s\n",
                config_target(&r->sweep->runs[0].config));
}

void why_sweep(const Sweep *sweep, Why *why) {
    static Ranking r; /* large */
    *why = (Why){0};
    rank(&r, sweep);
    say_losses(&r, why);
    if (r.count > 0) make_table(&r, why->table);
    if (r.count > 1 && !all_equal(&r)) say_differences(&r, why);
    say_unfinished(sweep, why);
    if (r.count > 0) say_limits(&r, why);
}
