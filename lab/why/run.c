/* The sentences about one run. Each paragraph has its figures from one file, and is omitted if the file has none.
   Scores, weights and gradients are those of attention.csv at its first and its last step, losses those of
   metrics.csv. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "lab/why/why.h"
#include "model/measure.h"

typedef struct {
    RunFigures run;
    size_t heads;    /* of all layers: the rows of a step in attention.csv */
    size_t measured; /* its steps that are whole; the last one may have been cut off */
} Measured;

/* Returns the mean over all heads of a column of attention.csv, at its first step or the last. */
static double mean_of(const Measured *f, bool last, int column) {
    return log_mean(&f->run.attention, column, last ? f->measured - 1 : 0, f->heads);
}

static void add_when(double step, char *paragraph) {
    why_add(paragraph, step > 0 ? "at step %.0f" : "before the first step", step);
}

static void say_scores(const Measured *f, Why *why) {
    const Config *c = f->run.config;
    const ModelShape shape = model_shape(c, f->run.vocabulary);
    char *p = why_next(why);
    config_scores_title(c, 0, p, WHY_BYTES);
    if (f->measured == 0) {
        why_add(p, ". No scores were measured.");
        return;
    }
    const double *deviation = f->run.attention.column[ATTENTION_SCORE_STD], step = mean_of(f, false, ATTENTION_STEP);
    double least = deviation[0], most = deviation[0], mean = mean_of(f, false, ATTENTION_SCORE_STD);
    for (size_t i = 1; i < f->heads; i++) {
        least = fmin(least, deviation[i]);
        most = fmax(most, deviation[i]);
    }
    why_add(p, ": ");
    add_when(step, p);
    if (isnan(mean)) why_add(p, " some of them are not finite");
    else why_add(p, " their standard deviation is %.3g", mean);
    if (!isnan(mean) && f->heads > 1) why_add(p, " (mean of %zu heads, from %.3g to %.3g)", f->heads, least, most);
    if (step == 0) {
        double first = 0;
        for (size_t i = 0; i < shape.attention.H; i++) first += deviation[i] / (double)shape.attention.H;
        if (shape.L > 1 && isfinite(first)) why_add(p, "; in the first layer it is %.3g, where", first);
        else why_add(p, "; for the first layer");
        why_add(p, " d_k = %zu and the initial weights predict %.3g", shape.attention.D,
                predicted_score_std(&shape, c->model.init));
    }
    why_add(p, ".");
}

/* Returns the mean weight of a key under uniform weights, over the rows with at least two keys. */
static double uniform_weight(const Config *c) {
    const size_t most = c->model.context + (c->attention.sink != SINK_NONE);
    double sum = 0;
    for (size_t keys = 2; keys <= most; keys++) sum += 1 / (double)keys;
    return sum / (double)(most - 1);
}

static void say_weights(const Measured *f, Why *why) {
    const Config *c = f->run.config;
    const double weight = mean_of(f, false, ATTENTION_MAX_WEIGHT);
    const bool sink = c->attention.sink != SINK_NONE;
    if (isnan(weight)) return; /* a query sees one key, or scores are not finite */
    char *p = why_next(why);
    why_add(p,
            "Softmax makes of these scores weights of entropy %.2f (1 is uniform, 0 one-hot): on average a query puts "
            "%.0f %% of its weight on one key%s, where uniform weights would put %.0f %%; %.0f %% of the queries put "
            "more than 99 %% on one.",
            mean_of(f, false, ATTENTION_ENTROPY), 100 * weight, sink ? " (the sink counts as one)" : "",
            100 * uniform_weight(c), 100 * mean_of(f, false, ATTENTION_SATURATED));
    if (weight >= .5 && !sink && mean_of(f, false, ATTENTION_STEP) == 0)
        why_add(p, " Nothing has taught it which key: no step has been taken.");
    if (f->measured > 1 && !isnan(mean_of(f, true, ATTENTION_MAX_WEIGHT)))
        why_add(p, " At step %.0f the entropy is %.2f, and these shares are %.0f %% and %.0f %%.",
                mean_of(f, true, ATTENTION_STEP), mean_of(f, true, ATTENTION_ENTROPY),
                100 * mean_of(f, true, ATTENTION_MAX_WEIGHT), 100 * mean_of(f, true, ATTENTION_SATURATED));
}

static void say_gradients(const Measured *f, Why *why) {
    static const int median = ATTENTION_GRAD_SCORES_MEDIAN, mean = ATTENTION_GRAD_SCORES_MEAN;
    if (isnan(mean_of(f, false, median))) return;
    char *p = why_next(why);
    why_add(p, "The gradient of a query's scores has a median norm of %.2g (mean %.2g) ", mean_of(f, false, median),
            mean_of(f, false, mean));
    add_when(mean_of(f, false, ATTENTION_STEP), p);
    if (f->measured > 1 && !isnan(mean_of(f, true, median)))
        why_add(p, " and of %.2g (mean %.2g) at step %.0f", mean_of(f, true, median), mean_of(f, true, mean),
                mean_of(f, true, ATTENTION_STEP));
    if (f->run.config->data.task == TASK_RECALL) why_add(p, "; most queries are not asked for an answer");
    why_add(p, "%s.", f->run.config->attention.score_gradient ? "" : "; training does not use it");
}

/* Says how far a run that has not finished has come. */
static void say_result(const Measured *f, Why *why) {
    const char *result = f->run.result, *error = f->run.error;
    const double step = log_last(&f->run.metrics, METRICS_STEP);
    if (result && strcmp(result, "finished") == 0) return;
    char *p = why_next(why);
    why_add(p, "The run has not finished: run.json says %s", result ? result : "nothing");
    if (result && strcmp(result, "running") == 0) why_add(p, ", so it is at work or was killed");
    if (error) why_add(p, " (%s)", error);
    if (isnan(step)) why_add(p, ". Nothing was logged.");
    else why_add(p, ". It was logged up to step %.0f of %zu.", step, f->run.config->train.steps);
}

/* Adds when the validation loss, which has `end` rows, was first below the loss of each table. Adds the highest of the
   tables that it never was below. */
static void add_passed(const Measured *f, size_t end, char *p) {
    const double *losses = f->run.metrics.column[METRICS_VAL_LOSS], *steps = f->run.metrics.column[METRICS_STEP];
    size_t passed = 0, missed = NGRAM_ORDERS; /* NGRAM_ORDERS: none */
    for (size_t i = 0; i < NGRAM_ORDERS; i++) {
        size_t row = 0;
        while (row < end && !(losses[row] < f->run.baselines[i])) row++;
        if (row < end) {
            why_add(p, "%s a table of %s at step %.0f",
                    passed ? "," : " As far as it was evaluated, it was first below", BASELINE_NAMES[i], steps[row]);
            passed++;
        } else if (missed == NGRAM_ORDERS || f->run.baselines[i] > f->run.baselines[missed]) missed = i;
    }
    if (missed < NGRAM_ORDERS)
        why_add(p, "%s not below a table of %s", passed ? ", but" : " It was", BASELINE_NAMES[missed]);
    why_add(p, ".");
}

static void say_loss(const Measured *f, Why *why) {
    const double *losses = f->run.metrics.column[METRICS_VAL_LOSS], *steps = f->run.metrics.column[METRICS_STEP];
    const Config *c = f->run.config;
    size_t end = f->run.metrics.rows; /* after the last row with a validation loss */
    while (end > 0 && isnan(losses[end - 1])) end--;
    if (end == 0) return;
    char *p = why_next(why);
    why_add(p, "Its validation loss ");
    add_when(steps[end - 1], p);
    why_add(p, " is %.2f nats per %s", losses[end - 1], config_target(c));
    if (c->eval.batches > 0)
        why_add(p, ", on %zu %s of the validation split", c->eval.batches, c->eval.batches == 1 ? "batch" : "batches");
    baselines_add(f->run.baselines, losses[end - 1], p);
    if (c->data.task == TASK_RECALL) why_add(p, "; guessing has %.2f", log((double)c->data.recall_pairs));
    why_add(p, ".");
    if (!isnan(f->run.baselines[0])) add_passed(f, end, p);
}

static void say_limits(const Measured *f, Why *why) {
    const Config *c = f->run.config;
    const double divisor = divisor_value(c->attention.scale_divisor, c->model.d_k);
    const char *other = divisor != 1 ? "none" : c->model.d_k > 1 ? "sqrt_dk" : "2sqrt_dk";
    char *p = why_next(why), config_file[PATH_CAPACITY];
    path_join(config_file, f->run.directory, "config.ini");
    why_add(p, "One run does not show that its divisor is the cause. It has one seed (%zu), ", c->train.seed);
    why_add_rate(c, p);
    why_add(
        p,
        ", one %s and one size of model. A run that differs in the divisor alone: %s --set attention.scale_divisor=%s",
        c->data.task == TASK_RECALL ? "task" : "text", command_to_copy(NULL, config_file), other);
}

void why_figures(const RunFigures *run, Why *why) {
    const size_t heads = run->config->model.layers * run->config->model.heads;
    const Measured f = {*run, heads, log_whole_steps(&run->attention, run->directory, heads)};
    *why = (Why){0};
    say_scores(&f, why);
    if (f.measured) say_weights(&f, why);
    if (f.measured) say_gradients(&f, why);
    say_result(&f, why);
    say_loss(&f, why);
    say_limits(&f, why);
}

/* A log to be read, and what it has. */
typedef struct {
    const char *directory;
    Log log;
    size_t heads; /* rows a step; 0: one */
    LogTable table;
} LogOfRun;

static void read_log(void *of_run) {
    LogOfRun *l = of_run;
    const LogTable table = logs_read_any(l->directory, l->log);
    if (l->heads) log_whole_steps(&table, l->directory, l->heads);
    l->table = table;
}

static void check_logs(void *run) { run_check_logs(((const Run *)run)->directory); }

/* Says which log is left out. */
static void say_damage(const Error *damage, Why *why) {
    if (damage->status != STATUS_USAGE) error_raise_again(damage);
    why_add(why_next(why), "Left out: %s.", damage->message);
}

void why_run(const char *directory, Why *why) {
    static Run run; /* large */
    run_open(&run, directory, NULL, 0, false);
    RunFigures figures = {.directory = run.directory,
                          .config = &run.config,
                          .result = js_as_text(js_get(run.description, "result")),
                          .error = js_as_text(js_get(run.description, "error"))};
    int64_t characters;
    if (js_as_integer(js_get(run.description, "vocabulary"), &characters) && characters > 0 && characters <= UTF8_CODES)
        figures.vocabulary = (size_t)characters;
    run_ngram_losses(directory, figures.baselines);
    const size_t heads = run.config.model.layers * run.config.model.heads;
    LogOfRun metrics = {run.directory, LOG_METRICS, 0, {0}}, attention = {run.directory, LOG_ATTENTION, heads, {0}};
    Error damage[2], change;
    const bool has_metrics = protect(read_log, &metrics, &damage[0]),
               has_attention = protect(read_log, &attention, &damage[1]);
    const bool unchanged = !has_metrics || !has_attention || protect(check_logs, &run, &change);
    if (unchanged) figures.metrics = metrics.table, figures.attention = attention.table;
    why_figures(&figures, why);
    if (!has_metrics) say_damage(&damage[0], why);
    if (!has_attention) say_damage(&damage[1], why);
    if (!unchanged) say_damage(&change, why);
}
