/* The directory of a sweep: where it is, whether it is one to resume, its config.ini and run.json. */
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
        if (arms->config->sweep[a].key == key) return false;
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

/* What config.ini of these arms says; the caller frees it. NULL for want of memory. */
static char *text_of(const Arms *arms) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream) sweep_write_config(arms, stream);
    if (stream && fclose(stream) == 0) return text;
    free(text);
    return NULL;
}

/* Where a config stops being the recorded one; the end of both where it is the same. A record that is not UTF-8 has '?'
   for every byte that is not ASCII (js_text). */
static size_t first_difference(const char *text, const char *recorded) {
    size_t i = 0;
    while (text[i] && (text[i] == recorded[i] || (recorded[i] == '?' && (unsigned char)text[i] >= 0x80))) i++;
    return i;
}

bool sweep_check_config(const char *directory, const char *recorded, const char *whose, Error *err) {
    char path[4096], *text;
    size_t size, line = 1, start = 0;
    if (!path_join(path, sizeof path, directory, "config.ini", err) ||
        !file_read(path, "config", (size_t)1 << 20, STATUS_USAGE, &text, &size, err))
        return false;
    const size_t at = first_difference(text, recorded);
    bool same = text[at] == recorded[at];
    for (size_t i = 0; i < at; i++)
        if (text[i] == '\n') line++, start = i + 1;
    if (!same)
        error_set(err, STATUS_USAGE,
                  "%s is not the config %s began with: line %zu is \"%.*s\", not \"%.*s\"; set it back", path, whose,
                  line, (int)strcspn(text + start, "\n"), text + start, (int)strcspn(recorded + start, "\n"),
                  recorded + start);
    free(text);
    return same;
}

static bool has_ended(const Json *run) {
    const char *result = js_as_text(js_get(run, "result"));
    return result && strcmp(result, "finished") == 0;
}

/* run.json of a sweep, which the caller frees; NULL where the directory is none of a sweep. */
static Json *load_sweep(const char *directory) {
    Json *run;
    Error ignored;
    if (run_description_load(&run, directory, &ignored) && js_array_size(js_get(run, "runs")) > 0) return run;
    js_free(run);
    return NULL;
}

bool sweep_is(const char *directory) {
    Json *run = load_sweep(directory);
    bool is = run != NULL;
    js_free(run);
    return is;
}

/* Whether the sweep that is to be run, whose config is `own`, was begun in this directory and has not ended. Fails
   where it was, and config.ini there is another by now. */
static bool is_unfinished(const char *directory, const char *own, bool *is, Error *err) {
    Json *run = load_sweep(directory);
    const char *began = run && !has_ended(run) ? js_as_text(js_get(run, "config")) : NULL;
    *is = began && own[first_difference(own, began)] == began[first_difference(own, began)];
    bool ok = !*is || sweep_check_config(directory, began, "the sweep", err);
    js_free(run);
    return ok;
}

/* Locks the directory and reads its run.json; on failure neither is kept. */
static bool open_existing(Sweep *s, const char *directory, Error *err) {
    int64_t threads;
    if (strlen(directory) >= sizeof s->directory)
        return error_set(err, STATUS_USAGE, "the path of the sweep's directory is too long: %.200s...", directory);
    if (!directory_lock(directory, &s->lock, err)) return false;
    if (!run_description_load(&s->description, directory, err)) {
        js_free(s->description);
        s->description = NULL;
        close(s->lock);
        s->lock = -1;
        return false;
    }
    memcpy(s->directory, directory, strlen(directory) + 1);
    s->resumed = true;
    /* Every arm has the same number, however many processors there are by now. */
    if (js_as_integer(js_get(s->description, "arm_threads"), &threads) && threads > 0 && threads <= THREADS_MAX)
        s->threads = (size_t)threads;
    return true;
}

/* Opens the first directory of those that may be meant in which the sweep was begun, if there is one. */
static bool find_unfinished(Sweep *s, const char *wanted, bool named, Error *err) {
    char path[sizeof s->directory], *own = text_of(&s->arms);
    bool ok = own || error_set(err, STATUS_FAILED, "no memory for the text of a config");
    for (unsigned number = 1; ok && !s->resumed && number < (named ? 2 : 1000000); number++) {
        bool there, unfinished;
        ok = results_name(path, sizeof path, wanted, number, err) && path_find(path, &there, err);
        if (!ok || !there) break;
        ok = is_unfinished(path, own, &unfinished, err);
        if (ok && unfinished && !open_existing(s, path, err))
            ok = !named && err->status == STATUS_USAGE; /* another process is at it */
    }
    free(own);
    return ok;
}

bool sweep_find(Sweep *s, Error *err) {
    const SweepOptions *o = s->options;
    const char *wanted = o->out ? o->out : s->arms.config->log.out;
    if (!o->force && !find_unfinished(s, wanted, o->out != NULL, err)) return false;
    return s->resumed || results_check(wanted, o->out != NULL, o->force, err);
}

bool sweep_enter(Sweep *s, const char *directory, Config *config, bool *finished, Error *err) {
    char path[4096];
    if (!open_existing(s, directory, err)) return false;
    *finished = has_ended(s->description);
    const char *began = js_as_text(js_get(s->description, "config")),
               *name = js_as_text(js_get(s->description, "name"));
    if (!began)
        return error_set(err, STATUS_USAGE,
                         "%s/run.json does not say which config the sweep began with, as an earlier version left it: "
                         "sweep its config.ini with another --out",
                         directory);
    if (!sweep_check_config(directory, began, "the sweep", err) ||
        !path_join(path, sizeof path, directory, "config.ini", err) || !config_load(config, path, NULL, 0, err))
        return false;
    if (name) snprintf(config->name, sizeof config->name, "%s", name);
    return true;
}

static void describe(Sweep *s, const Corpus *corpus, const char *config) {
    char fingerprint[CORPUS_FINGERPRINT];
    corpus_fingerprint(corpus, fingerprint);
    s->description = run_description(s->options->command_line, s->options->threads);
    js_set(s->description, "name", js_text(s->arms.config->name));
    js_set(s->description, "corpus", js_text(fingerprint));
    js_set(s->description, "arm_threads", js_integer((int64_t)s->threads));
    js_set(s->description, "config", js_text(config));
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

static bool make_directory(Sweep *s, const Corpus *corpus, Error *err) {
    const SweepOptions *o = s->options;
    char path[4096], *text = text_of(&s->arms);
    bool ok = (text || error_set(err, STATUS_FAILED, "no memory for the text of a config")) &&
              results_make(&s->made, o->out ? o->out : s->arms.config->log.out, o->out != NULL, o->force, err);
    if (ok) {
        memcpy(s->directory, s->made.path, sizeof s->directory);
        describe(s, corpus, text);
    }
    ok = ok && path_join(path, sizeof path, s->directory, "configs", err) && directory_make(path, false, err) &&
         path_join(path, sizeof path, s->directory, "config.ini", err) && file_write(path, text, strlen(text), err);
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
    js_set(s->description, "runs", list);
    js_set(s->description, "result", js_text(result));
    if (strcmp(result, "running") != 0) js_set(s->description, "end", time_now());
    return run_description_save(s->description, s->directory, err);
}
