/* Configs to load, named c.ini, in a new directory. Errors are compared as a whole: a message is part of the
   interface. */
#pragma once

#include "setting.h"
#include "temporary.h"

#include <unistd.h>

#include "lab/sweep/section.h"

static char start[4096];
static Config config, again;
static SweepAxes axes;

/* Loads a config with this text. Returns whether it was accepted; otherwise err has the reason. */
static inline bool load_with(const char *text, size_t count, const char *const *overrides) {
    put_text("c.ini", text);
    return works(axes_load(&config, &axes, "c.ini", overrides, count));
}

static inline void loads(const char *text) {
    put_text("c.ini", text);
    axes_load(&config, &axes, "c.ini", NULL, 0);
}

static inline void loads_set(const char *text, const char *override) {
    put_text("c.ini", text);
    axes_load(&config, &axes, "c.ini", &override, 1);
}

/* Sets one key of the loaded config. */
static inline void set(const char *key, const char *value) { set_keys(&config, 1, &key, &value); }

/* `message` is what follows "c.ini:". */
static inline void refuses(const char *text, const char *message) {
    char expected[1200];
    snprintf(expected, sizeof expected, "c.ini:%s", message);
    assert_false(load_with(text, 0, NULL));
    assert_string_equal(err.message, expected);
    assert_int_equal(err.status, STATUS_USAGE);
}

/* `message` is what follows "--set OVERRIDE: ". */
static inline void refuses_set(const char *override, const char *message) {
    char expected[1200];
    snprintf(expected, sizeof expected, "--set %s: %s", override, message);
    assert_false(load_with("", 1, &override));
    assert_string_equal(err.message, expected);
    assert_int_equal(err.status, STATUS_USAGE);
}

static inline void write_config(const Config *of, const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    config_write(of, file);
    assert_int_equal(fclose(file), 0);
}

static inline char *written(const char *name) { return contents(in(name), NULL); }

/* A config that is written, read and written again has the same settings and the same bytes. */
static inline void assert_round_trip(void) {
    const size_t mark = memory_mark();
    write_config(&config, "w.ini");
    config_load(&again, NULL, "w.ini", NULL, 0);
    assert_string_equal(again.data.corpus, config.data.corpus);
    assert_string_equal(again.log.out, config.log.out);
    assert_string_equal(again.log.attention_text, config.log.attention_text);
    assert_true(again.train.grad_clip == config.train.grad_clip && again.train.min_lr == config.train.min_lr);
    write_config(&again, "v.ini");
    assert_string_equal(written("w.ini"), written("v.ini"));
    memory_release(mark);
}

static inline int enter(void **state) {
    return !getcwd(start, sizeof start) || temporary_enter(state) || chdir(temporary) != 0;
}

static inline int leave(void **state) { return chdir(start) != 0 || temporary_leave(state); }
