/* The directory of a sweep: its config.ini and run.json, and the state of its runs when it is resumed. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "sweep/parts.h"

/* Whether the sweep's config.ini must leave a key out: nobody set it, and some run has another value. Then it is
   swept or follows from a swept key (d_k from heads), and written down it would no longer follow. */
static bool differs(const void *sweep, size_t key) {
    const Sweep *s = sweep;
    char own[CONFIG_VALUE_MAX], value[CONFIG_VALUE_MAX];
    if (config_is_given(&s->config, key)) return false;
    config_value_text(&s->config, key, own, sizeof own);
    for (size_t i = 0; i < s->run_count; i++) {
        config_value_text(&s->runs[i].config, key, value, sizeof value);
        if (strcmp(own, value) != 0) return true;
    }
    return false;
}

void sweep_write_config(const Sweep *s, FILE *out) {
    config_write_but(&s->config, differs, s, out);
    fprintf(out, "\n[sweep]\n");
    combinations_print(&s->config, "", out);
}

bool sweep_is(const char *directory, bool *is, Error *err) {
    Json *json;
    const bool known = run_description_load(&json, directory, err);
    *is = known && js_array_size(js_get(json, "runs")) > 0;
    js_free(json);
    return known || err->status == STATUS_USAGE;
}

static void name_directories(Sweep *s) {
    for (size_t i = 0; i < s->run_count; i++)
        snprintf(s->runs[i].directory, sizeof s->runs[i].directory, "%s/%s", s->directory, s->runs[i].name);
}

/* Reads run.json and config.ini of an existing directory. */
static bool read_config(Sweep *s, Error *err) {
    char path[4096];
    s->directory = s->place.directory.path;
    if (!run_description_load(&s->description, s->directory, err) ||
        !path_join(path, sizeof path, s->directory, "config.ini", err) || !config_load(&s->config, path, NULL, 0, err))
        return false;
    const char *name = js_as_text(js_get(s->description, "name"));
    if (name) snprintf(s->config.name, sizeof s->config.name, "%s", name);
    text_make_plain(s->config.name);
    return true;
}

/* Waits until no process holds the directory: a run whose sweep was killed may still be saving its checkpoint. Fails
   after half a minute. */
static bool wait_for(const char *directory, Error *err) {
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int tries = 0;; tries++) {
        if (directory_free(directory, err)) return true;
        if (err->status != STATUS_USAGE || tries == 1500 || interrupt_signal()) return false;
        nanosleep(&pause, NULL);
    }
}

/* Whether the run was trained with the config that the sweep's config.ini gives it. */
static bool check_config(const Sweep *s, const SweepRun *run, Error *err) {
    static Config trained; /* large */
    char path[4096], ours[CONFIG_VALUE_MAX], theirs[CONFIG_VALUE_MAX];
    if (!path_join(path, sizeof path, run->directory, "config.ini", err) || !config_load(&trained, path, NULL, 0, err))
        return false;
    for (size_t key = 0; key < config_key_count(); key++) {
        config_value_text(&run->config, key, ours, sizeof ours);
        config_value_text(&trained, key, theirs, sizeof theirs);
        if (strcmp(ours, theirs) != 0)
            return usage_error(
                err,
                "%.400s/config.ini gives the run %s \"%s = %.100s\", but it was trained with \"%s = %.100s\": set "
                "back whichever of the two files was edited",
                s->directory, run->name, config_key_name(key), ours, config_key_name(key), theirs);
    }
    return true;
}

/* Marks a failed run as not finished, so that it is tried once more. */
static void forgive(SweepRun *run) {
    if (run->state != RUN_FAILED) return;
    run->state = RUN_NOT_FINISHED;
    *run->message = 0;
}

bool sweep_load_run(const Sweep *s, SweepRun *run, Error *err) {
    if (!path_exists(run->directory)) return true;
    if (!sweep_read_run(run, err)) return false;
    forgive(run);
    if (run->state != RUN_NOT_FINISHED) return check_config(s, run, err);
    if (results_unused(run->directory)) return true; /* killed before it began */
    run->resumable = true;
    return check_config(s, run, err);
}

/* Fails when a run that run.json names is no longer one of the sweep's: [sweep] may grow, but not lose a run. */
static bool check_planned(const Sweep *s, Error *err) {
    const Json *recorded = js_get(s->description, "runs");
    for (size_t i = 0; i < js_array_size(recorded); i++) {
        const char *name = js_as_text(js_get(js_at(recorded, i), "name"));
        bool planned = !name;
        for (size_t k = 0; k < s->run_count && !planned; k++) planned = strcmp(s->runs[k].name, name) == 0;
        if (!planned)
            return usage_error(err,
                               "%s/config.ini no longer has the run %.200s, which the sweep began with: set it back",
                               s->directory, name);
    }
    return true;
}

bool sweep_load(Sweep *s, Error *err) {
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        if (!directory_no_link(run->directory, err) ||
            (path_exists(run->directory) && !wait_for(run->directory, err)) || !sweep_load_run(s, run, err))
            return false;
    }
    return true;
}

static bool check_corpus(const Sweep *s, const Corpus *corpus, Error *err) {
    return description_check_corpus(s->description, s->directory, s->runs[0].config.data.corpus, corpus, err);
}

bool sweep_read(Sweep *s, const char *directory, bool alone, Error *err) {
    int64_t threads;
    char path[RESULTS_PATH];
    if (!results_name(path, sizeof path, directory, 1, err)) return false;
    memcpy(s->place.directory.path, path, sizeof path);
    if ((alone && !directory_lock(&s->place.directory, path, err)) || !read_config(s, err) || !sweep_plan(s, err) ||
        (!alone && !directory_open(&s->place.directory, path, err)))
        return false;
    s->resumed = true;
    /* Every run has as many threads as the first runs had, whatever the number of processors is now. */
    if (js_as_integer(js_get(s->description, "threads_per_run"), &threads) && threads > 0 && threads <= THREADS_MAX)
        s->threads = (size_t)threads;
    name_directories(s);
    for (size_t i = 0; i < s->run_count; i++)
        if (!sweep_read_run(&s->runs[i], err)) return false;
    return check_planned(s, err);
}

bool sweep_view(Sweep *s, const char *directory, Error *err) {
    return sweep_read(s, directory, false, err) && sweep_read_back(s, err);
}

bool sweep_begin_share(Sweep *s, Error *err) {
    Corpus corpus;
    for (size_t i = 0; i < s->run_count; i++) {
        forgive(&s->runs[i]);
        if (!directory_no_link(s->runs[i].directory, err)) return false;
    }
    const bool ok = config_corpus(&corpus, &s->runs[0].config, NULL, err) && check_corpus(s, &corpus, err);
    corpus_free(&corpus);
    return ok;
}

static bool make_directory(Sweep *s, const Corpus *corpus, Error *err) {
    const TrainOptions *o = s->options;
    char fingerprint[HASH_DIGITS];
    if (!results_make(&s->place, o->out, s->config.log.out, o->force, err)) return false;
    s->directory = s->place.directory.path;
    name_directories(s);
    corpus_fingerprint(corpus, fingerprint);
    s->description = run_description(o->command_line, o->threads);
    js_set(s->description, "name", js_text(s->config.name));
    js_set(s->description, "corpus", js_text(fingerprint));
    js_set(s->description, "threads_per_run", js_integer((int64_t)s->threads));
    return true;
}

static bool save_config(const Sweep *s, Error *err) {
    FileWriter config;
    if (!file_writer_open(&config, &s->place.directory, "config.ini", err)) return false;
    sweep_write_config(s, config.stream);
    return file_writer_commit(&config, err);
}

bool sweep_save_configs(const Sweep *s, Error *err) {
    char name[RUN_NAME + 16];
    FileWriter config;
    if (!directory_make_in(&s->place.directory, "configs", err)) return false;
    for (size_t i = 0; i < s->run_count; i++) {
        snprintf(name, sizeof name, "configs/%s.ini", s->runs[i].name);
        if (!file_writer_open(&config, &s->place.directory, name, err)) return false;
        config_write(&s->runs[i].config, config.stream);
        if (!file_writer_commit(&config, err)) return false;
    }
    return true;
}

static void describe_resumed(Sweep *s) {
    Json *now = js_object();
    js_set(now, "time", time_now());
    js_set(now, "version", js_text(SQRTDK_VERSION));
    js_set(now, "command", js_text(s->options->command_line));
    js_append(js_list(s->description, "resumed"), now);
}

static void describe(const Sweep *s, const char *result, const Error *why) {
    Json *list = js_array();
    for (size_t i = 0; i < s->run_count; i++) {
        const SweepRun *run = &s->runs[i];
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
    if (strcmp(result, "running") != 0) js_set(s->description, "end", time_now());
    if (why) js_set(s->description, "error", js_text(why->message));
}

bool sweep_save(Sweep *s, const char *result, const Error *why, Error *err) {
    describe(s, result, why);
    return run_description_save(s->description, &s->place.directory, err);
}

/* As for a run, config.ini is written before run.json: a directory that has run.json can be resumed. */
static bool save_first(Sweep *s, Error *err) {
    describe(s, "running", NULL);
    return save_config(s, err) && results_begin(&s->place, s->description, err);
}

bool sweep_open(Sweep *s, Error *err) {
    const Config *c = &s->runs[0].config;
    Corpus corpus;
    bool ok = config_corpus(&corpus, c, NULL, err) &&
              (s->resumed ? check_corpus(s, &corpus, err) : make_directory(s, &corpus, err));
    corpus_free(&corpus);
    if (ok && s->resumed) describe_resumed(s);
    ok = ok && (s->resumed ? sweep_save(s, "running", NULL, err) : save_first(s, err));
    if (!ok && !s->resumed) results_abandon(&s->place, err);
    if (*s->place.old)
        progress_message(s->options->progress, "note: what stood in %s is now in %s", s->directory, s->place.old);
    return ok;
}
