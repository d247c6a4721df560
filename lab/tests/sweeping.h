/* Sweeps of a tiny model. The runs are trained by the program that was built beside the test, or by a script. */
#pragma once

#include "training.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/machine.h"
#include "lab/sweep/sweep.h"

#define SWEEP_TEST(function) TEST_WITH(function, temporary_enter, temporary_leave)

#define TINY "train.steps=12", "eval.every=4", "log.every=3", "log.attention_every=6", "log.sample_tokens=0"
#define FOUR TINY, "sweep.attention.scale_divisor=none, sqrt_dk", "sweep.train.seed=1, 2"

/* The program in the test's own folder. */
static inline const char *built(void) {
    char *own = program_path();
    assert_non_null(own);
    char *path = memory_make(strlen(own) + sizeof "/train", 1, "a path");
    strcpy(path, own);
    strcpy(strrchr(path, '/'), "/train");
    free(own);
    return path;
}

/* A program that does something else where its arguments match the pattern, and is the built one otherwise. */
static inline const char *program_where(const char *pattern, const char *action) {
    char text[4096];
    snprintf(text, sizeof text, "#!/bin/bash\ncase \"$*\" in %s) cd %s; %s ;; esac\nexec -a ./train %s \"$@\"\n",
             pattern, temporary, action, built());
    assert_int_equal(chmod(put_text("program", text), 0755), 0);
    return in("program");
}
/* The run that the tests let fail, and how. */
#define THE_ONE "*none+seed=2*"
#define NO_SUCH_LUCK "echo './train: no such luck, today' >&2; exit 1"
static inline const char *no_such_luck(void) { return program_where(THE_ONE, NO_SUCH_LUCK); }

/* Trains a sweep, and gives back what the command would keep to its end. The program is `program`, or the built one
   where that is NULL. */
static inline void sweep_with(const char *program, const char *out, size_t threads, bool force) {
    const size_t mark = memory_mark();
    const SweepOptions options = {.threads = threads,
                                  .out = out ? in(out) : NULL,
                                  .force = force,
                                  .command_line = "./train sweep tiny.ini",
                                  .program = program ? program : built(),
                                  .progress = progress_make(stderr, true)};
    FILE *table = fopen(in("table.txt"), "w");
    assert_non_null(table);
    assert_int_equal(sweep_run(&config, &axes, &options, table), 0);
    assert_int_equal(fclose(table), 0);
    memory_release(mark);
}
static inline void sweep(const char *out, size_t threads) { sweep_with(NULL, out, threads, false); }

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
    const Json *run = js_load(inside(directory, "run.json"), "run.json");
    assert_string_equal(js_as_text(js_get(run, "result")), expected);
    assert_int_equal(js_array_size(js_get(run, "runs")), 4);
}

/* Waits until a run of a sweep has made `steps` steps, for at most a minute. */
static inline void wait_for_steps(const char *sweep_name, const char *run, size_t steps) {
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", in(sweep_name), run);
    for (int tries = 0; tries < 60000; tries++) {
        const size_t mark = memory_mark();
        LogTable metrics;
        if (works(metrics = logs_read_any(path, LOG_METRICS)) && metrics.rows > steps) return;
        memory_release(mark);
        nanosleep(&pause, NULL);
    }
    fail_msg("%s does not get on", path);
}
