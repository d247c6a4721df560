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
    double ruler[NGRAM_ORDERS];
} Ranking;

static double mean_of(const SweepSetting *setting, Measure measure) { return setting->mean[measure].mean; }

/* Returns whether a key that begins so is swept. */
static bool sweeps(const Sweep *s, const char *start) {
    for (size_t a = 0; a < s->axes.count; a++)
        if (strncmp(config_key_name(s->axes.axis[a].key), start, strlen(start)) == 0) return true;
    return false;
}

static void rank(Ranking *r, const Sweep *s) {
    *r = (Ranking){.sweep = s, .ruler = {NAN, NAN, NAN, NAN}};
    for (const SweepSetting *now = s->settings; now < s->settings + s->setting_count; now++) {
        if (!now->mean[MEASURE_VAL_LOSS].count) continue;
        size_t at = r->count++;
        for (; at > 0 && mean_of(now, MEASURE_VAL_LOSS) < mean_of(r->setting[at - 1], MEASURE_VAL_LOSS); at--)
            r->setting[at] = r->setting[at - 1];
        r->setting[at] = now;
    }
    const SweepRun *run = s->runs, *end = s->runs + s->run_count;
    while (run < end && run->state != RUN_FINISHED) run++; /* all have one text: the first that has finished will do */
    if (run < end && !sweeps(s, "data.")) run_ngram_losses(run->directory, r->ruler);
}

static void add_setting(const Ranking *r, size_t at, const char *rank, char *p) {
    const double loss = mean_of(r->setting[at], MEASURE_VAL_LOSS);
    why_add(p, "%s %s%.2f nats per %s", r->setting[at]->label, rank, loss, config_target(&r->sweep->config));
    ruler_add(r->ruler, loss, p);
    why_add(p, ".");
}

static void say_losses(const Ranking *r, Why *why) {
    const Sweep *s = r->sweep;
    char *p = why_next(why);
    if (r->count == 0) {
        why_add(p, "None of the sweep's %zu runs has finished with a validation loss.", s->run_count);
        return;
    }
    if (sweeps(s, "train.seed")) why_add(p, "On average over the seeds that finished, ");
    add_setting(r, 0, r->count > 1 ? "ends with the lowest validation loss, " : "ends with a validation loss of ", p);
    const double first = mean_of(r->setting[0], MEASURE_SCORE_STD_FIRST);
    const double last = mean_of(r->setting[r->count - 1], MEASURE_SCORE_STD_FIRST);
    if (r->count > 1) {
        why_add(p, " ");
        add_setting(r, r->count - 1, "ends with the highest, ", p);
        if (isfinite(first) && isfinite(last))
            why_add(p, " Their scores start with standard deviations of %.3g and %.3g.", first, last);
    } else if (isfinite(first)) why_add(p, " Its scores start with a standard deviation of %.3g.", first);
    if (sweeps(s, "data.") || sweeps(s, "eval."))
        why_add(p, " But the runs of this sweep differ in what their losses are measured on.");
    else if (s->config.eval.batches > 0 && !isnan(*r->ruler))
        why_add(p, " Losses are those of %zu %s, a table's that of the whole validation split.", s->config.eval.batches,
                s->config.eval.batches == 1 ? "batch" : "batches");
}

static void say_differences(const Ranking *r, Why *why) {
    const SweepSetting *lowest = r->setting[0], *highest = r->setting[r->count - 1];
    const double *table = r->ruler;
    char *p = why_next(why);
    why_add(p, "Lowest and highest are %.2f apart",
            mean_of(highest, MEASURE_VAL_LOSS) - mean_of(lowest, MEASURE_VAL_LOSS));
    if (!isnan(*table))
        why_add(p,
                "; a table of character pairs is %.2f below one of single characters, triples %.2f below pairs, "
                "4-grams %.2f below triples",
                table[0] - table[1], table[1] - table[2], table[2] - table[3]);
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
    if (isnan(mean)) text_append(table, WHY_TABLE, " %*s", width, "-");
    else text_append(table, WHY_TABLE, rounded ? " %*.*g" : " %*.*f", width, digits, mean);
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
    if (r.count > 1) say_differences(&r, why);
    say_unfinished(sweep, why);
    if (r.count > 0) say_limits(&r, why);
}
