/* Makes a Snapshot, from a text or from what the run has logged, and writes it as CSV. A text goes through the model
   of the last checkpoint, without dropout. */
#include "attend/attend.h"

#include <math.h>

Snapshot attend_to_text(Run *run, const char *text, size_t size, size_t threads, Progress *progress) {
    const size_t T = run->config.model.context, limit = T < SNAPSHOT_TEXT_MAX ? T : SNAPSHOT_TEXT_MAX;
    int32_t ids[SNAPSHOT_TEXT_MAX];
    uint32_t characters[SNAPSHOT_TEXT_MAX];
    size_t kept = 0;
    Model model;
    if (size == 0) usage_error("--text is empty");
    for (size_t i = 0; i < limit && kept < size; i++) {
        const size_t length = utf8_decode(text + kept, size - kept, &characters[i]);
        kept += length ? length : 1; /* a byte that is not UTF-8: vocabulary_encode names it */
    }
    const size_t count = vocabulary_encode(&run->vocabulary, "--text", text, kept, ids, SNAPSHOT_TEXT_MAX);
    run_load_model(run, &model, 1, threads);
    Snapshot s = snapshot_make(model.shape.L, model.shape.attention.H, characters, count);
    if (kept < size) progress_message(progress, "note: --text is cut to its first %zu characters", limit);
    s.step = run->step;
    model_forward(&model, &(Batch){ids, NULL, 1, count});
    measure_snapshot(&model, count, &s.attention);
    return s;
}

Snapshot attend_to_log(const Run *run) {
    const LogTable attention = logs_read(run->directory, LOG_ATTENTION);
    const double step = log_last(&attention, ATTENTION_STEP);
    if (isnan(step)) usage_error("%s has no attention measured yet", run->directory);
    return snapshot_load(run->directory, &run->config, (size_t)step);
}

/* The logarithms of weights are scores that softmax makes these weights of. A sink is counted as one more key, whose
   weight is what the visible keys leave of 1. */
SnapshotStatistics snapshot_statistics(const Snapshot *s, size_t layer, size_t head) {
    const float *weights = snapshot_weights(s, layer, head);
    const bool sink = s->attention.sink[layer * s->H + head] != -INFINITY;
    double row[SNAPSHOT_TEXT_MAX + 1], entropy = 0, max_weight = 0, rows = 0;
    for (size_t query = sink ? 0 : 1; query < s->T; query++) {
        double rest = 1;
        for (size_t key = 0; key <= query; key++) {
            rest -= (double)weights[query * s->T + key];
            row[key] = log((double)weights[query * s->T + key]);
        }
        row[query + 1] = log(fmax(rest, 0));
        const SoftmaxRow softmax = softmax_row(row, query + 1 + sink);
        entropy += softmax.entropy / log((double)softmax.keys);
        max_weight += softmax.max_weight;
        rows++;
    }
    return rows > 0 ? (SnapshotStatistics){entropy / rows, max_weight / rows} : (SnapshotStatistics){NAN, NAN};
}

void attend_write_csv(const Snapshot *s, Range layers, Range heads, FILE *out) {
    fputs("layer,head,query,key,query_char,key_char,score,weight\n", out);
    for (size_t layer = layers.begin; layer < layers.end; layer++)
        for (size_t head = heads.begin; head < heads.end; head++)
            for (size_t i = 0; i < s->T * s->T; i++) {
                const size_t query = i / s->T, key = i % s->T, at = (layer * s->H + head) * s->T * s->T + i;
                char text[5];
                if (key > query) continue;
                fprintf(out, "%zu,%zu,%zu,%zu,", layer, head, query, key);
                utf8_encode(s->text[query], text);
                text_write_field(text, false, out);
                fputc(',', out);
                utf8_encode(s->text[key], text);
                text_write_field(text, false, out);
                fprintf(out, ",%.9g,%.9g\n", (double)s->attention.scores[at], (double)s->attention.weights[at]);
            }
}

/* --- a run at a glance */

static void show_losses(const Terminal *t, const LogTable *metrics) {
    enum { NAME = 11, LOSSES = 2 };
    static const char *const names[LOSSES] = {"training", "validation"};
    const double *losses[LOSSES] = {metrics->column[METRICS_TRAIN_LOSS], metrics->column[METRICS_VAL_LOSS]};
    double first[LOSSES] = {NAN, NAN}, low[LOSSES] = {NAN, NAN}, last[LOSSES] = {NAN, NAN}, high = -INFINITY;
    for (size_t i = 0; i < LOSSES; i++)
        for (size_t row = 0; row < metrics->rows; row++) {
            const double loss = losses[i][row];
            if (!isfinite(loss)) continue;
            if (isnan(first[i])) first[i] = loss;
            low[i] = fmin(low[i], loss);
            last[i] = loss;
            high = fmax(high, loss);
        }
    for (size_t i = 0; i < LOSSES; i++) {
        fprintf(t->out, "%-*s", NAME, names[i]);
        terminal_bars(t, losses[i], metrics->rows, t->columns > NAME ? t->columns - NAME : 1, fmin(low[0], low[1]),
                      high);
        fprintf(t->out, "\n  first %.3f, lowest %.3f, last %.3f\n", first[i], low[i], last[i]);
    }
}

void attend_show_run(const Terminal *t, const Run *run) {
    const Config *c = &run->config;
    const LogTable metrics = logs_read(run->directory, LOG_METRICS);
    const char *result = js_as_text(js_get(run->description, "result"));
    const double steps = log_last(&metrics, METRICS_STEP), accuracy = log_last(&metrics, METRICS_VAL_ACCURACY);
    char duration[32];
    progress_duration(log_last(&metrics, METRICS_SECONDS), duration, sizeof duration);
    print_plain(t->out, "%s: %s at step %.0f, after %s", c->name, result ? result : "?", steps, duration);
    fprintf(t->out, "layers %zu, heads %zu, d_k %zu, context %zu\n\n", c->model.layers, c->model.heads, c->model.d_k,
            c->model.context);
    show_losses(t, &metrics);
    if (!isnan(accuracy)) fprintf(t->out, "  accuracy %.4f\n", accuracy);
    fputc('\n', t->out);
}
