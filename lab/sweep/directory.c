/* The directory of a sweep: its config.ini and run.json, and the state of its runs when it is resumed. */
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/machine.h"
#include "base/memory.h"
#include "lab/sweep/sweep.h"

/* --- what is there */

bool sweep_is(const char *directory) {
    char path[PATH_CAPACITY];
    const size_t mark = memory_mark();
    path_join(path, directory, "run.json");
    const bool is = path_exists(path) && js_array_size(js_get(run_description_load(directory), "runs")) > 0;
    memory_release(mark);
    return is;
}

static void name_directories(Sweep *s) {
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++)
        snprintf(run->directory, sizeof run->directory, "%s/%s", s->directory->path, run->name);
}

/* Reads from an entry of the sweep's run.json that a run has failed. The run's run.json may not say so: its process was
   killed, or could not begin. [sweep] may grow, but not lose a run. */
static void read_recorded(Sweep *s, const Json *entry) {
    const char *name = js_as_text(js_get(entry, "name")), *result = js_as_text(js_get(entry, "result")),
               *error = js_as_text(js_get(entry, "error"));
    SweepRun *run = s->runs, *end = s->runs + s->run_count;
    while (name && run < end && strcmp(run->name, name) != 0) run++;
    if (run == end)
        usage_error("%s/config.ini no longer has the run %.200s, which the sweep began with: set it back",
                    s->directory->path, name);
    if (!name || !result || strcmp(result, SWEEP_RUN_STATES[RUN_FAILED]) != 0) return;
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", error ? error : "");
}

/* The arguments of load_config. */
typedef struct {
    Config config;
    char path[PATH_CAPACITY];
} ConfigOfRun;

static void load_config(void *of_run) {
    ConfigOfRun *c = of_run;
    config_load(&c->config, NULL, c->path, NULL, 0);
}

/* Checks that the run was trained with the config that the sweep's config.ini gives it. One whose config cannot be
   read, or that was trained on another text than the sweep began with, is damaged. */
static void check_config(const Sweep *s, SweepRun *run) {
    ConfigOfRun trained;
    char path[PATH_CAPACITY];
    Error why;
    path_join(path, run->directory, "run.json");
    path_join(trained.path, run->directory, "config.ini");
    if (!path_exists(path) || run->state == RUN_DAMAGED) return;
    const char *text = js_as_text(js_get(run_description_load(run->directory), "corpus")),
               *wanted = js_as_text(js_get(s->description, "corpus"));
    if (text && wanted && strcmp(text, wanted) != 0) sweep_note(run, RUN_DAMAGED, "it was trained on another text");
    if (protect(load_config, &trained, &why)) {
        path_join(path, s->directory->path, "config.ini");
        config_check_same(&run->config, path, &trained.config, run->name);
    } else sweep_note(run, RUN_DAMAGED, why.message);
}

Sweep *sweep_read(const char *directory, const SweepOptions *options, bool alone) {
    Sweep *s = memory_make(1, sizeof *s, "a sweep");
    int64_t threads;
    char path[RESULTS_PATH];
    results_name(path, directory, 1);
    s->options = options;
    s->directory = alone ? directory_lock(path) : directory_open(path);
    s->description = run_description_load(s->directory->path);
    const SweepReader section = axes_reader(&s->axes);
    description_config(s->description, s->directory->path, &s->config, &section, NULL, 0);
    sweep_plan(s);
    name_directories(s);
    /* Every run has as many threads as the first runs had, whatever the number of processors is now. */
    if (js_as_integer(js_get(s->description, "threads_per_run"), &threads) && threads > 0 && threads <= THREADS_MAX)
        s->threads = (size_t)threads;
    const Json *recorded = js_get(s->description, "runs");
    for (size_t i = 0; i < js_array_size(recorded); i++) read_recorded(s, js_at(recorded, i));
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        sweep_read_run(run);
        if (alone) check_config(s, run);
    }
    return s;
}

const Sweep *sweep_view(const char *directory) {
    Sweep *s = sweep_read(directory, NULL, false);
    sweep_summarize(s);
    return s;
}

/* --- how it is written */

/* Omits from the sweep's config.ini keys that vary between runs but were not set by the user. Such a key is swept, or
   follows from a swept key, as d_k from heads: if it were written, it would no longer follow. */
static bool differs(const void *sweep, size_t key) {
    const Sweep *s = sweep;
    char base[CONFIG_VALUE_MAX], value[CONFIG_VALUE_MAX];
    if (config_is_given(&s->config, key)) return false;
    config_value_text(&s->config, key, base, sizeof base);
    for (size_t i = 0; i < s->run_count; i++) {
        config_value_text(&s->runs[i].config, key, value, sizeof value);
        if (strcmp(base, value) != 0) return true;
    }
    return false;
}

void sweep_write_config(const Sweep *s, FILE *out) {
    config_write_but(&s->config, differs, s, out);
    fprintf(out, "\n[sweep]\n");
    combinations_print(&s->axes, "", out);
}

/* Makes the directory of a new sweep, with its config.ini. */
static void make_directory(Sweep *s) {
    const SweepOptions *o = s->options;
    char fingerprint[HASH_DIGITS];
    const size_t mark = memory_mark();
    const Corpus corpus = config_corpus(&s->runs[0].config, NULL);
    corpus_fingerprint(&corpus, fingerprint);
    memory_release(mark);
    s->results = results_make(o->out, s->config.log.out, o->force);
    s->directory = s->results->directory;
    name_directories(s);
    s->description = run_description(o->command_line, o->threads);
    js_set(s->description, "name", js_text(s->config.name));
    js_set(s->description, "corpus", js_text(fingerprint));
    js_set(s->description, "threads_per_run", js_size(s->threads));
    FileWriter *config = file_writer_open(s->directory, "config.ini");
    sweep_write_config(s, config->stream);
    file_writer_commit(config);
}

void sweep_describe(const Sweep *s, const char *result, const char *error) {
    Json *list = js_array();
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        Json *entry = js_object();
        js_set(entry, "name", js_text(run->name));
        js_set(entry, "result", js_text(SWEEP_RUN_STATES[run->state]));
        if (*run->message) js_set(entry, "error", js_text(run->message));
        js_append(list, entry);
    }
    js_set(s->description, "runs", list);
    js_set(s->description, "result", js_text(result));
    js_remove(s->description, "end");
    js_remove(s->description, "error");
    if (error) js_set(s->description, "error", js_text(error));
    if (strcmp(result, "running") != 0) js_set(s->description, "end", time_now());
}

void sweep_words(const Sweep *s, const SweepRun *run, const char *place, RunWords *w) {
    const char *here = *place == '-' ? "./" : ""; /* or the path would be taken for an option */
    snprintf(w->config, sizeof w->config, "%s%s/configs/%s.ini", here, place, run->name);
    snprintf(w->directory, sizeof w->directory, "%s%s/%s", here, place, run->name);
    snprintf(w->threads, sizeof w->threads, "%zu", s->threads);
    char *words[] = {program_name, w->config,   "--out",
                     w->directory, "--threads", w->threads,
                     "--quiet",    "--resume",  directory_unlocked ? "--unlocked" : NULL,
                     NULL};
    memcpy(w->words, words, sizeof w->words);
}

void sweep_write_commands(const Sweep *s, FILE *out) {
    char *place = realpath(s->directory->path, NULL), *program = program_path();
    SweepRun *runs[RUNS_MAX];
    if (!place || !program) runtime_error("cannot find the path of %s", place ? "this program" : s->directory->path);
    if (strpbrk(place, "\n\r") || strpbrk(program, "\n\r"))
        usage_error("a path with a line end cannot be part of a command: move the directory or the program");
    sweep_shuffle(s, runs);
    for (size_t i = 0; i < s->run_count; i++) {
        RunWords w;
        if (!is_to_train(runs[i]) || runs[i]->held) continue;
        sweep_words(s, runs[i], place, &w);
        w.words[0] = program;
        fputs("exec", out);
        for (char **word = w.words; *word; word++) fprintf(out, " %s", command_word(*word));
        fputc('\n', out);
    }
    free(place);
    free(program);
}

/* Writes configs/NAME.ini, from which a run starts, for each run that has not ended. */
static void save_configs(const Sweep *s) {
    char name[RUN_NAME + 16];
    directory_make_in(s->directory, "configs");
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        if (!is_to_train(run)) continue;
        snprintf(name, sizeof name, "configs/%s.ini", run->name);
        config_save(&run->config, s->directory, name);
    }
}

void sweep_open(Sweep *s) {
    if (s->description) description_resumed(s->description, s->options->command_line);
    else make_directory(s);
    save_configs(s);
    sweep_describe(s, "running", NULL);
    /* Last: a directory that has run.json can be resumed. */
    if (s->results) results_begin(s->results, s->description);
    else run_description_save(s->description, s->directory);
    if (s->results && *s->results->old)
        progress_message(s->options->progress, "note: what stood in %s is now in %s", s->directory->path,
                         s->results->old);
}
