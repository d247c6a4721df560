/* Sweeps of a tiny model, with the program beside the test for their runs. */
#pragma once

#include "training.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "ops/matmul.h"
#include "sweep/sweep.h"

static char program[4096]; /* that trains the runs */
static Error err;

static inline int enter(void **state) {
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 16);
    if (length < 0) return 1;
    program[length] = 0;
    strcpy(strrchr(program, '/'), "/train");
    return temporary_enter(state);
}
#define SWEEP_TEST(function) cmocka_unit_test_setup_teardown(function, enter, temporary_leave)

#define TINY "train.steps=12", "eval.every=4", "log.every=3", "log.attention_every=6", "log.sample_tokens=0"
#define FOUR TINY, "sweep.attention.scale_divisor=none, sqrt_dk", "sweep.train.seed=1, 2"

static inline bool sweep_with(const char *with, const char *out, size_t threads, bool force) {
    Progress progress = progress_make(stderr, true);
    const TrainOptions options = {.threads = threads,
                                  .out = out ? in(out) : NULL,
                                  .force = force,
                                  .command_line = "./train sweep tiny.ini",
                                  .program = with,
                                  .progress = &progress};
    int signal_number = 0;
    FILE *table = fopen(in("table.txt"), "w");
    assert_non_null(table);
    bool ok = sweep_run(&config, &options, table, &signal_number, &err);
    assert_int_equal(fclose(table), 0);
    assert_int_equal(signal_number, 0);
    return ok;
}
static inline bool resume_with(const char *with, const char *directory, FILE *table) {
    Progress progress = progress_make(stderr, true);
    const TrainOptions options = {
        .threads = 2, .command_line = "./train resume", .program = with, .progress = &progress};
    int signal_number = 0;
    bool ok = sweep_resume(in(directory), &options, table, &signal_number, &err);
    assert_int_equal(signal_number, 0);
    return ok;
}
static inline void sweep(const char *out, size_t threads) {
    bool done = sweep_with(program, out, threads, false);
    assert_that(done, "%s", err.message);
}

/* A program that does something else, or first, for the runs whose name is in the pattern. */
static inline const char *program_that(const char *pattern, const char *does) {
    char text[8192];
    snprintf(text, sizeof text, "#!/bin/sh\ncase \"$*\" in *%s*) %s ;; esac\nexec %s \"$@\"\n", pattern, does, program);
    char *path = kept(strdup(put_text("program.sh", text))); /* what in() gives does not last */
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

static inline const char *inside(const char *directory, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return in(path);
}

/* summary.csv without its last column, the time. */
static inline char *timeless(const char *directory) {
    char *text = contents(inside(directory, "summary.csv"), NULL), *out = text;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        char *comma = end;
        while (*comma != ',') comma--;
        memmove(out, line, (size_t)(comma - line));
        out += comma - line;
        *out++ = '\n';
    }
    *out = 0;
    return text;
}

static inline void assert_same_sweep(const char *a, const char *b) {
    static const char *const files[] = {"config.ini", "scale_divisor=sqrt_dk+seed=2/attention.csv",
                                        "scale_divisor=none+seed=2/loss.png"};
    assert_string_equal(timeless(a), timeless(b));
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        size_t n, m;
        const char *first = contents(inside(a, files[i]), &n), *second = contents(inside(b, files[i]), &m);
        assert_that(n == m && memcmp(first, second, n) == 0, "%s of %s and of %s", files[i], a, b);
    }
}

static inline void assert_result(const char *directory, const char *expected) {
    Json *run;
    size_t size;
    const char *text = contents(inside(directory, "run.json"), &size);
    assert_true(js_parse(text, size, "run.json", &run, &err));
    assert_string_equal(js_as_text(js_get(run, "result")), expected);
    assert_int_equal(js_array_size(js_get(run, "runs")), 4);
    js_free(run);
}
