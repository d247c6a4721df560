/* The directory of a sweep: where it is, whether it is one to go on with, its config.ini and run.json. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/range.h"
#include "base/results.h"
#include "sweep/parts.h"
#include "train/description.h"
#include "train/trainer.h"

bool sweep_arm_path(const Sweep *s, size_t arm, char path[4096], Error *err) {
    return path_join(path, 4096, s->directory, s->arms.arms[arm].name, err);
}

/* A key that nobody set and that is not the same in all arms follows from swept ones (d_k from heads): written down, it
   would follow no more. */
static bool follows(const Arms *arms, size_t key) {
    char first[CONFIG_VALUE_MAX], value[CONFIG_VALUE_MAX];
    if (config_is_given(arms->config, key)) return false;
    for (size_t a = 0; a < arms->config->sweep_count; a++)
        if (arms->config->sweep[a].setting == key) return false;
    config_value_text(&arms->arms[0].config, key, first, sizeof first);
    for (size_t i = 1; i < arms->count; i++) {
        config_value_text(&arms->arms[i].config, key, value, sizeof value);
        if (strcmp(first, value) != 0) return true;
    }
    return false;
}

void sweep_write_config(const Arms *arms, FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < config_key_count(); i++) {
        char value[CONFIG_VALUE_MAX];
        const char *name = config_key_name(i), *key = strchr(name, '.') + 1;
        size_t length = (size_t)(key - name - 1);
        if (strncmp(name, section, length) != 0 || section[length] != '.')
            fprintf(out, "%s[%.*s]\n", i ? "\n" : "", (int)length, name);
        section = name;
        config_value_text(arms->config, i, value, sizeof value);
        if (follows(arms, i))
            fprintf(out, "; %s follows from swept keys\n", key);
        else
            fprintf(out, "%s = %s\n", key, value);
    }
    fprintf(out, "\n[sweep]\n");
    combinations_print(arms->config, "", out);
}

/* The caller frees. */
static bool text_of(const Arms *arms, char **text, Error *err) {
    size_t size;
    FILE *stream = open_memstream(text, &size);
    if (stream) sweep_write_config(arms, stream);
    if (stream && fclose(stream) == 0) return true;
    return error_set(err, STATUS_FAILED, "no memory for the text of a config");
}

bool sweep_check_config(const char *directory, const char *text, const char *whose, Error *err) {
    char path[4096], *there = NULL;
    size_t size;
    bool is = path_join(path, sizeof path, directory, "config.ini", err) &&
              file_read(path, "config", (size_t)1 << 20, STATUS_USAGE, &there, &size, err);
    if (is && strcmp(there, text) != 0)
        is = error_set(err, STATUS_USAGE, "%s is not the config of %s: set it back, or remove %s", path, whose,
                       directory);
    free(there);
    return is;
}

/* Whether a directory's config.ini is that of these arms. */
static bool same_config(const Arms *arms, const char *directory) {
    char *own = NULL;
    Error ignored;
    bool same = text_of(arms, &own, &ignored) && sweep_check_config(directory, own, "this sweep", &ignored);
    free(own);
    return same;
}

static bool has_ended(const Json *run) {
    const char *result = js_as_text(js_get(run, "result"));
    return result && strcmp(result, "finished") == 0;
}

bool sweep_is(const char *directory) {
    Json *run;
    Error ignored;
    bool is = run_description_load(&run, directory, &ignored) && js_array_size(js_get(run, "arms")) > 0;
    js_free(run);
    return is;
}

/* The sweep that is to be run, begun in this directory and not ended. */
static bool is_unfinished(const Sweep *s, const char *directory) {
    Json *run;
    Error ignored;
    bool is =
        sweep_is(directory) && same_config(&s->arms, directory) && run_description_load(&run, directory, &ignored);
    if (!is) return false;
    is = !has_ended(run);
    js_free(run);
    return is;
}

static bool open_existing(Sweep *s, const char *directory, Error *err) {
    int64_t threads;
    if (!directory_lock(directory, &s->lock, err) || !run_description_load(&s->description, directory, err))
        return false;
    snprintf(s->directory, sizeof s->directory, "%s", directory);
    s->resumed = true;
    /* Every arm has the same number, however many processors there are by now. */
    if (js_as_integer(js_get(s->description, "arm_threads"), &threads) && threads > 0 && threads <= THREADS_MAX)
        s->threads = (size_t)threads;
    return true;
}

bool sweep_find(Sweep *s, Error *err) {
    const SweepOptions *o = s->options;
    const char *wanted = o->out ? o->out : s->arms.config->log.out;
    char path[sizeof s->directory];
    for (unsigned number = 1; !o->force && number < 1000000; number++) {
        if (!results_name(path, sizeof path, wanted, number, err)) return false;
        bool there;
        if (!path_find(path, &there, err)) return false;
        if (!there) break;
        if (is_unfinished(s, path)) {
            if (open_existing(s, path, err)) return true;
            if (o->out || err->status != STATUS_USAGE) return false; /* else another one is at it */
        }
        if (o->out) break;
    }
    return results_check(wanted, o->out != NULL, o->force, err);
}

bool sweep_enter(Sweep *s, const char *directory, bool *finished, Error *err) {
    *finished = false;
    if (strlen(directory) >= sizeof s->directory)
        return error_set(err, STATUS_USAGE, "the path of the sweep's directory is too long: %.200s...", directory);
    if (!open_existing(s, directory, err)) return false;
    *finished = has_ended(s->description);
    const Json *arms = js_get(s->description, "arms");
    bool same = js_array_size(arms) == s->arms.count && same_config(&s->arms, directory);
    for (size_t i = 0; same && i < s->arms.count; i++) {
        const char *name = js_as_text(js_get(js_at(arms, i), "name"));
        same = name && strcmp(name, s->arms.arms[i].name) == 0;
    }
    return same ||
           error_set(err, STATUS_USAGE, "%s/config.ini is not what the sweep there began with: set it back", directory);
}

static bool describe(Sweep *s, const Corpus *corpus) {
    char fingerprint[CORPUS_FINGERPRINT];
    corpus_fingerprint(corpus, fingerprint);
    s->description = run_description(s->options->command_line, s->options->threads);
    js_set(s->description, "name", js_text(s->arms.config->name));
    js_set(s->description, "corpus", js_text(fingerprint));
    js_set(s->description, "arm_threads", js_integer((int64_t)s->threads));
    return true;
}

static void describe_resumed(Sweep *s) {
    Json *now = js_object();
    js_set(now, "time", time_now());
    js_set(now, "version", js_text(SQRTDK_VERSION));
    js_set(now, "command", js_text(s->options->command_line));
    js_append(js_list(s->description, "resumed"), now);
    js_remove(s->description, "end");
    js_remove(s->description, "error");
}

static bool write_text(const Sweep *s, const char *name, const char *text, Error *err) {
    char path[4096];
    return path_join(path, sizeof path, s->directory, name, err) && file_write(path, text, strlen(text), err);
}

static bool make_directory(Sweep *s, const Corpus *corpus, Error *err) {
    const SweepOptions *o = s->options;
    char path[4096], *text = NULL;
    if (!results_make(&s->made, o->out ? o->out : s->arms.config->log.out, o->out != NULL, o->force, err)) return false;
    memcpy(s->directory, s->made.path, sizeof s->directory);
    bool ok = describe(s, corpus) && path_join(path, sizeof path, s->directory, "configs", err) &&
              directory_make(path, false, err) && text_of(&s->arms, &text, err) &&
              write_text(s, "config.ini", text, err);
    free(text);
    return ok;
}

bool sweep_open(Sweep *s, Error *err) {
    const Config *c = &s->arms.arms[0].config;
    Corpus corpus;
    if (!config_corpus(&corpus, c, NULL, err)) return false;
    bool ok = s->resumed ? description_check_corpus(s->description, s->directory, c->data.corpus, &corpus, err)
                         : make_directory(s, &corpus, err);
    corpus_free(&corpus);
    if (ok && s->resumed) describe_resumed(s);
    return ok && sweep_save(s, "running", err);
}

bool sweep_save(Sweep *s, const char *result, Error *err) {
    Json *list = js_array();
    for (size_t i = 0; i < s->arms.count; i++) {
        const Arm *arm = &s->arms.arms[i];
        const ArmRun *run = sweep_run_of(s, i);
        Json *entry = js_object();
        js_set(entry, "name", js_text(arm->name));
        js_set(entry, "result", js_text(ARM_STATE_NAMES[run->state]));
        if (arm->same_as != i) js_set(entry, "same_as", js_text(s->arms.arms[arm->same_as].name));
        if (*run->message) js_set(entry, "error", js_text(run->message));
        js_append(list, entry);
    }
    js_set(s->description, "arms", list);
    js_set(s->description, "result", js_text(result));
    if (strcmp(result, "running") != 0) js_set(s->description, "end", time_now());
    return run_description_save(s->description, s->directory, err);
}
