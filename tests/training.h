/* A tiny run, for the tests of training and of the files that it writes. */
#pragma once

#include "temporary.h"

#include "base/safetensors.h"
#include "lab/sweep/section.h"

/* The program itself: tests train as it does. */
#define main program_main
#include "../train.c"
#undef main

static Config config;
static SweepAxes axes;
static Trainer outcome; /* of the last run */

#define TRAINING_TEST(function) TEST_WITH(function, temporary_enter, temporary_leave)

/* 6000 characters of sentences put together at random: a model can learn their words soon and their order never. */
static inline const char *make_corpus(void) {
    static const char *const words[] = {"the ", "keys ", "and ",    "queries ",  "of ",
                                        "one ", "head ", "answer ", "softly.\n", "naïve "};
    char text[6400] = "";
    Rng rng = rng_make(1, RNG_SAMPLE, 0);
    size_t size = 0;
    for (uint64_t i = 0; size < 6000; i++)
        size += (size_t)sprintf(text + size, "%s", words[rng_below(&rng, i, COUNT_OF(words))]);
    return put("corpus.txt", text, size);
}

/* The config of a tiny run with some keys set ("section.key=value"). */
#define CONFIGURE(...) configure((const char *const[]){__VA_ARGS__, NULL})
static inline void configure(const char *const *overrides) {
    char text[2048];
    size_t count = 0;
    while (overrides[count]) count++;
    snprintf(text, sizeof text,
             "[data]\ncorpus = %s\nval_fraction = 0.2\n[model]\nlayers = 1\nheads = 2\nd_model = 32\ncontext = 16\n"
             "[train]\nsteps = 60\nbatch = 4\nlr = 1e-2\nwarmup = 5\n[eval]\nevery = 20\n"
             "[log]\nout = %s\nsample_tokens = 20\nattention_every = 25\nevery = 7\n",
             path_exists(in("corpus.txt")) ? in("corpus.txt") : make_corpus(), in("run"));
    axes_load(&config, &axes, put_text("tiny.ini", text), overrides, count);
}

/* Trains a run, or continues one with a key set and as many threads as it had. Then releases everything that a command
   holds until its end, such as the lock on the directory. */
static inline void train(const char *name, size_t threads) {
    const size_t mark = memory_mark();
    const TrainOptions options = {.threads = threads,
                                  .out = name ? in(name) : NULL,
                                  .command_line = "./train tiny.ini",
                                  .progress = progress_make(stderr, true)};
    outcome = *run_loop(trainer_start(&config, &options));
    memory_release(mark);
}
static inline void resume_with_key(const char *name, const char *set) {
    const size_t mark = memory_mark();
    const TrainOptions options = {.command_line = "./train resume", .progress = progress_make(stderr, true)};
    outcome = *run_loop(trainer_resume(in(name), &set, 1, &options));
    memory_release(mark);
}

/* A CSV file as a table of numbers; NaN where a field is empty. */
enum { ROWS_MAX = 400 };
typedef struct {
    size_t columns, rows;
    double at[ROWS_MAX][LOG_COLUMNS_MAX];
} Table;

/* Every row must have as many columns as the header, which must be as given. */
static inline const Table *read_table(const char *path, const char *header) {
    Table *table = memory_make(1, sizeof *table, "a table");
    char *rest = contents(path, NULL), *line = strsep(&rest, "\n");
    assert_string_equal(line, header);
    for (const char *c = header; (c = strchr(c, ',')) != NULL; c++) table->columns++;
    table->columns++;
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        size_t column = 0;
        for (char *field; (field = strsep(&line, ",")) != NULL; column++) {
            char *end;
            assert_true(column < table->columns && table->rows < ROWS_MAX);
            table->at[table->rows][column] = *field ? strtod(field, &end) : NAN;
            if (*field) assert_int_equal(*end, 0);
        }
        assert_int_equal(column, table->columns);
        table->rows++;
    }
    assert_string_equal(line, ""); /* the last line is complete */
    return table;
}

static inline const Table *read_metrics(const char *run) {
    char path[128];
    snprintf(path, sizeof path, "%s/metrics.csv", run);
    return read_table(in(path), log_header(LOG_METRICS));
}

/* The first row's value of a column, and the last row's. */
static inline double first_of(const Table *table, int column) { return table->at[0][column]; }
static inline double last_of(const Table *table, int column) { return table->at[table->rows - 1][column]; }

/* The bytes of a run's last parameters and moments: the checkpoint without its header, which has times in it. */
static inline char *numbers_of(const char *run, size_t *size) {
    char path[128];
    uint64_t header;
    snprintf(path, sizeof path, "%s/checkpoint/last.safetensors", run);
    char *file = contents(in(path), size);
    memcpy(&header, file, sizeof header);
    *size -= sizeof header + header;
    return file + sizeof header + header;
}
static inline bool same_parameters(const char *a, const char *b) {
    size_t size_a, size_b;
    const char *x = numbers_of(a, &size_a), *y = numbers_of(b, &size_b);
    return size_a == size_b && memcmp(x, y, size_a) == 0;
}

/* The first `from` in a file becomes `to`. */
static inline void set_text(const char *name, const char *from, const char *to) {
    size_t size;
    char *text = contents(in(name), &size), *changed = memory_make(size + strlen(to), 1, "a text");
    const char *place = memmem(text, size, from, strlen(from));
    assert_that(place != NULL, "no %s in %s", from, name);
    const size_t at = (size_t)(place - text), rest = at + strlen(from);
    memcpy(changed, text, at);
    memcpy(changed + at, to, strlen(to));
    memcpy(changed + at + strlen(to), text + rest, size - rest);
    put(name, changed, size - strlen(from) + strlen(to));
}

/* The state that a checkpoint has in its metadata, as JSON. */
static inline const char *state_of(const char *run) {
    char path[128];
    snprintf(path, sizeof path, "%s/checkpoint/last.safetensors", run);
    const SafetensorsFile file = safetensors_open(in(path), (size_t)1 << 28);
    return safetensors_metadata(&file, "state");
}

/* The first `from` in a checkpoint's header becomes `to`; \" is a quotation mark of the state there. The checksum is
   given another name, so that other checks must see the difference. */
static inline void set_header(const char *name, const char *from, const char *to) {
    uint64_t header;
    size_t size;
    set_text(name, from, to);
    const char *changed = contents(in(name), &size);
    if (memmem(changed, size, "\"checksum\":", 11)) set_text(name, "\"checksum\":", "\"checksun\":");
    char *file = contents(in(name), &size);
    memcpy(&header, file, sizeof header);
    header += strlen(to) - strlen(from);
    memcpy(file, &header, sizeof header);
    put(name, file, size);
}

/* Opens a run and its model, as eval and sample do, and gives them back. */
static inline void open_model(const char *name) {
    static Run run;
    Model model;
    const size_t mark = memory_mark();
    run_open(&run, in(name), NULL, 0, false);
    run_load_model(&run, &model, 0, 1);
    memory_release(mark);
}

/* Asserts that two runs have the same files, apart from run.json, pages and times. */
static inline void assert_same_run(const char *a, const char *b) {
    char script[1024];
    snprintf(script, sizeof script,
             "for run in %s %s; do (cd $run && {\n"
             "  find . -type f ! -name report.html | sort && cut -d, -f 1,2,4- metrics.csv\n"
             "  find . -type f ! -name report.html ! -name run.json ! -name metrics.csv ! -name last.safetensors \\\n"
             "    -exec cksum {} + | sort; } >../$run.same); done; cmp %s.same %s.same",
             a, b, a, b);
    assert_that(shell(script), "%s and %s differ", a, b);
    assert_that(same_parameters(a, b), "the parameters or moments of %s and %s differ", a, b);
}

/* Writes the config of the test into a file. */
static inline void save_config(const char *name) {
    FILE *file = fopen(in(name), "wb");
    assert_non_null(file);
    config_write(&config, file);
    assert_int_equal(fclose(file), 0);
}
