/* The run as the files of its directory, from the code that writes them there. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "lab/live/parts.h"
#include "lab/why/why.h"

/* --- texts and files in memory */

void *live_longer(void *list, size_t count, size_t size) {
    void *longer = realloc(list, size_mul(count + 1, size));
    if (!longer) runtime_error("no memory for what a run keeps");
    return longer;
}

const char *live_text_return(Live *l, Text *text) {
    size_t size;
    char *written = text_take(text, &size);
    free(l->written);
    l->written = written;
    return written;
}

LiveFile live_file_end(const char *name, Text *text) {
    size_t size;
    fprintf(text->stream, "%c%s", 0, name);
    const char *bytes = text_take(text, &size);
    size -= strlen(name) + 1;
    return (LiveFile){bytes + size + 1, bytes, size};
}

void live_add_file(Live *l, const char *name, Text *text) {
    l->files = live_longer(l->files, l->file_count, sizeof *l->files);
    const LiveFile file = live_file_end(name, text);
    l->files[l->file_count++] = file;
}

static void copy_file(Live *l, const char *name, const void *bytes, size_t size) {
    Text *text = text_begin();
    fwrite(bytes, 1, size, text->stream);
    live_add_file(l, name, text);
}

void live_free_file(const LiveFile *file) { free((void *)file->bytes); }

void live_drop_parts(Live *l) {
    for (; l->file_count > l->kept; l->file_count--) live_free_file(&l->files[l->file_count - 1]);
}

/* --- the run as files */

/* Says as comments what was moved, which a config has no keys for. */
static void write_moves(const Live *l, FILE *out) {
    if (l->move_count == 0 || live_is_one_switch(l)) return;
    fputs("; This run was steered while it trained. This config alone does not make it again:\n", out);
    for (const Move *m = l->moves; m < l->moves + l->move_count; m++)
        fprintf(out, "; from step %zu on the %s %.9g%s\n", m->step,
                m->divisor > 0 ? "scores were divided by" : "learning rate was", m->divisor > 0 ? m->divisor : m->rate,
                m->divisor > 0 ? "" : " times that of the schedule");
}

static void write_config(Live *l, FILE *out) {
    write_moves(l, out);
    config_write(&l->t.run.config, out);
}

const char *live_config(Live *l) {
    Text *text = text_begin();
    write_config(l, text->stream);
    return live_text_return(l, text);
}

/* Computes and logs what ./train does at the last step. */
static void end_last_step(Live *l) {
    live_take_back(l);
    if (live_steps(l) == live_last(l) && !l->ended) l->ended = live_begin_step(l);
}

static const char *result_of(const Live *l) { return l->diverged ? "diverged" : l->ended ? "finished" : "interrupted"; }

static void write_description(Live *l, FILE *out) {
    Run *run = &l->t.run;
    RunState *state = &l->t.state;
    const size_t mark = memory_mark();
    live_baselines(l);
    run_describe(run, &l->t.model, "docs/live.html, or lab/live in a program");
    for (const Move *m = l->moves; m < l->moves + l->move_count; m++) {
        Json *move = js_object();
        js_set(move, "step", js_size(m->step));
        if (m->divisor > 0) js_set(move, "divisor", js_number(m->divisor));
        else js_set(move, "rate", js_number(m->rate));
        js_append(js_list(run->description, "moved"), move);
    }
    run_describe_end(run, state, result_of(l), NULL);
    fputs(js_dump(run->description, JS_INDENTED), out);
    run->description = NULL;
    memory_release(mark);
}

static void write_vocabulary(Live *l, FILE *out) {
    const size_t mark = memory_mark();
    fputs(js_dump(vocabulary_json(&l->t.run.corpus.vocabulary), JS_LINE), out);
    memory_release(mark);
}

static void write_checkpoint(Live *l, FILE *out) {
    Trainer *t = &l->t;
    checkpoint_write(out, &t->run.config, CHECKPOINT_LAST, &t->model, (Moments){t->optimizer.m, t->optimizer.v},
                     &t->state);
}

/* The files that are written when they are asked for. The snapshots and the best checkpoint are there. */
static const struct {
    const char *name;
    void (*write)(Live *live, FILE *out);
} PARTS[] = {{"config.ini", write_config},
             {"vocab.json", write_vocabulary},
             {"run.json", write_description},
             {"checkpoint/last.safetensors", write_checkpoint}};

const LiveFile *live_files(Live *l, size_t *count) {
    Trainer *t = &l->t;
    end_last_step(l);
    t->state.seconds = omp_get_wtime() - t->start;
    live_drop_parts(l);
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        Text *text = text_begin();
        PARTS[i].write(l, text->stream);
        live_add_file(l, PARTS[i].name, text);
    }
    for (Log log = 0; log < LOG_COUNT; log++) copy_file(l, LOG_NAMES[log], l->logs[log]->bytes, l->logs[log]->size);
    if (l->best.name) copy_file(l, l->best.name, l->best.bytes, l->best.size);
    *count = l->file_count;
    return l->files;
}

static LogTable read_log(const Live *l, Log log) {
    return logs_read_text(log, l->logs[log]->bytes, l->logs[log]->size);
}

const char *live_why(Live *l, const char *directory) {
    static Why why; /* large */
    const Run *run = &l->t.run;
    end_last_step(l);
    const size_t mark = memory_mark();
    const double *losses = live_baselines(l);
    RunFigures figures = {.directory = directory,
                          .config = &run->config,
                          .vocabulary = run->corpus.vocabulary.count,
                          .metrics = read_log(l, LOG_METRICS),
                          .attention = read_log(l, LOG_ATTENTION),
                          .result = result_of(l)};
    for (size_t i = 0; i < NGRAM_ORDERS; i++) figures.baselines[i] = losses ? losses[i] : (double)NAN;
    why_figures(&figures, &why);
    Text *text = text_begin();
    why_write(&why, text->stream);
    const char *said = live_text_return(l, text);
    memory_release(mark);
    return said;
}
