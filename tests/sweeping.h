/* Sweeps of a tiny model. A sweep forks, so the tests' own process must not enter a parallel region: a run by itself is
   trained in a child (train_alone). */
#pragma once

#include "training.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "ops/matmul.h"
#include "sweep/sweep.h"

static Error err;

#define SWEEP_TEST(function) cmocka_unit_test_setup_teardown(function, temporary_enter, temporary_leave)

#define TINY "train.steps=12", "eval.every=4", "log.every=3", "log.attention_every=6", "log.sample_tokens=0"
#define FOUR TINY, "sweep.attention.scale_divisor=none, sqrt_dk", "sweep.train.seed=1, 2"

/* What a run does at its end, in the process that trained it and with all its files written: what TrainOptions calls to
   make the page. */
typedef bool AtEnd(const Directory *directory, Error *why);

static inline bool sweep_with(AtEnd *at_end, const char *out, size_t threads, bool force) {
    Progress progress = progress_make(stderr, true);
    const TrainOptions options = {.threads = threads,
                                  .out = out ? in(out) : NULL,
                                  .force = force,
                                  .command_line = "./train sweep tiny.ini",
                                  .report = at_end,
                                  .progress = &progress};
    int signal_number = 0;
    FILE *table = fopen(in("table.txt"), "w");
    assert_non_null(table);
    bool ok = sweep_run(&config, &options, table, &signal_number, &err);
    assert_int_equal(fclose(table), 0);
    assert_int_equal(signal_number, 0);
    return ok;
}
static inline bool resume_with(AtEnd *at_end, const char *directory, FILE *table) {
    Progress progress = progress_make(stderr, true);
    const TrainOptions options = {
        .threads = 2, .command_line = "./train resume", .report = at_end, .progress = &progress};
    int signal_number = 0;
    bool ok = sweep_resume(in(directory), &options, table, &signal_number, &err);
    assert_int_equal(signal_number, 0);
    return ok;
}
static inline void sweep(const char *out, size_t threads) {
    bool done = sweep_with(NULL, out, threads, false);
    assert_that(done, "%s", err.message);
}

/* Whether a directory is that of the run that the tests let fail. */
static inline bool is_the_one(const Directory *directory) { return strstr(directory->path, "none+seed=2") != NULL; }

/* One run fails, and leaves nothing on disk. */
static inline bool no_such_luck(const Directory *directory, Error *why) {
    Error ignored;
    if (!is_the_one(directory)) return true;
    directory_remove(directory->path, &ignored);
    return runtime_error(why, "no such luck, today");
}

/* Waits for a child; returns its exit status, or 128 + N where signal N killed it. */
static inline int status_of(pid_t child) {
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

/* Trains the config by itself. */
static inline void train_alone(const char *name, size_t threads) {
    Error why;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) exit(!try_training(name, threads, &why));
    assert_int_equal(status_of(child), 0);
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

/* Waits until a run of a sweep has made `steps` steps, for at most a minute. */
static inline void wait_for_steps(const char *sweep_name, const char *run, size_t steps) {
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", in(sweep_name), run);
    for (int tries = 0; tries < 60000; tries++) {
        LogTable metrics = {0};
        const size_t rows = logs_read_any(path, LOG_METRICS, &metrics, &err) ? metrics.rows : 0;
        log_table_free(&metrics);
        if (rows > steps) return;
        nanosleep(&pause, NULL);
    }
    fail_msg("%s does not get on", path);
}
