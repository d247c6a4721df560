/* Sweeps that are cut short in whatever way, and resumed: they end with the same files as one that ran through. */
#include "sweeping.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/interrupt.h"

static FILE *no_table;

static bool resume(const char *with, const char *directory) {
    no_table = no_table ? no_table : fopen("/dev/null", "w");
    return resume_with(with, directory, no_table);
}
static void resumes(const char *directory) {
    bool done = resume(program, directory);
    assert_that(done, "%s", err.message);
    assert_result(directory, "finished");
}
static void assert_says(const char *words) { assert_that(strstr(err.message, words) != NULL, "%s", err.message); }

/* Whatever happens to a run, the others are trained, and only it is trained when the sweep is resumed. */
static void failures_are_the_runs_own(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("straight", 2);
    assert_false(
        sweep_with(program_that("none+seed=2", "echo './train: no such luck, today' >&2; exit 1"), "sweep", 2, false));
    assert_int_equal(err.status, STATUS_FAILED);
    assert_string_equal(err.message, "1 of 4 runs failed; scale_divisor=none+seed=2: no such luck, today");
    assert_result("sweep", "failed");
    assert_non_null(strstr(contents(in("sweep/run.json"), NULL), "\"error\": \"no such luck, today\""));
    const char *csv = timeless("sweep");
    assert_non_null(
        strstr(csv, "scale_divisor=none+seed=2,none,2,1,failed,,,,,,,,,,,,,,,,,,,,,,,\"no such luck, today\"\n"));
    assert_non_null(strstr(csv, "scale_divisor=sqrt_dk+seed=2,sqrt_dk,2,4,finished,12,"));

    assert_false(resume(program_that("none+seed=2", "kill -KILL $$"), "sweep"));
    assert_says("scale_divisor=none+seed=2: killed by signal 9");
    assert_false(resume(program_that("none+seed=2", "exit 0"), "sweep"));
    assert_says("ended with status 0 before it had finished");
    assert_false(resume(program_that("none+seed=2", "exit 143"), "sweep"));
    assert_says("ended with status 143 before it had finished");
    assert_false(resume(in("no-such-program"), "sweep"));
    assert_says("the program could not be started");
    assert_true(resume(program_that("seed=1", "echo 'this run was done' >&2; exit 1"), "sweep"));
    assert_result("sweep", "finished");
    assert_same_sweep("straight", "sweep");
}

/* A run cut off at each place where a kill can leave it. */
static void resumes_from_anything(void **state) {
    (void)state;
    static const char *const remains[] = {
        "mkdir -p '%s'", /* nothing written yet */
        "mkdir -p '%s' && echo '{\"program\": \"sqrtdk\", \"result\": \"running\"}' >'%s/run.json'",
        /* before the first checkpoint */
        "cp -R '%s' '%s' && rm -r '%s/checkpoint' && mkdir '%s/checkpoint' && sed -i s/finished/running/ '%s/run.json'",
    };
    CONFIGURE(FOUR);
    sweep("straight", 2);
    for (size_t i = 0; i < COUNT_OF(remains); i++) {
        char name[16], run[600], command[4096];
        snprintf(name, sizeof name, "sweep%zu", i);
        assert_false(sweep_with(program_that("none+seed=2", "exit 1"), name, 2, false));
        snprintf(run, sizeof run, "%s/%s/scale_divisor=none+seed=2", temporary, name);
        if (i < 2) snprintf(command, sizeof command, i ? remains[1] : remains[0], run, run);
        else
            snprintf(command, sizeof command, remains[2], in("straight/scale_divisor=none+seed=2"), run, run, run, run);
        assert_int_equal(system(command), 0);
        resumes(name);
        assert_same_sweep("straight", name);
    }
}

/* A sweep that is started again takes the next free name, and never the place of one that is there. */
static void other_sweeps_are_left_alone(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    assert_false(sweep_with(program_that("none+seed=2", "exit 1"), NULL, 2, false));
    sweep(NULL, 2);
    assert_result("run", "failed");
    assert_result("run-2", "finished");
    assert_refused(sweep_with(program, "run", 2, false), &err, "run exists: continue that sweep with ./train resume ",
                   "a sweep in the place of another");
    resumes("run");
    static Run no_run;
    assert_refused(run_open(&no_run, in("run"), NULL, 0, false, &err), &err,
                   "run is a sweep, whose runs are below it: name one, such as", "a sweep where a run is wanted");
    run_close(&no_run);
    assert_true(sweep_is(in("run")) && !sweep_is(in("run/scale_divisor=none+seed=1")) && !sweep_is(in("none")));
}

/* --force: the old sweep is whole in sweep.old, however the new one ends. */
static void force_moves_the_old_sweep(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    assert_true(shell("cp -a sweep first"));
    assert_false(sweep_with(program_that("none+seed=2", "exit 1"), "sweep", 2, true));
    assert_says("1 of 4 runs failed; scale_divisor=none+seed=2: ended with status 1");
    assert_result("sweep", "failed");
    assert_true(shell("diff -r first sweep.old"));
    bool done = sweep_with(program, "sweep", 2, true);
    assert_that(done, "%s", err.message);
    assert_same_sweep("first", "sweep");
    assert_true(shell("diff -r first sweep.old"));
    assert_result("sweep.old-2", "failed");
}

/* What is in a run's place is not lost: a run of ours is moved, and another is not trained over. */
static void what_is_not_ours_stays(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    assert_false(sweep_with(program_that("none+seed=2", "exit 1"), "sweep", 2, false));
    assert_true(directory_make(in("sweep/scale_divisor=none+seed=2"), true, &err));
    put_text("sweep/scale_divisor=none+seed=2/run.json", "{}");
    assert_refused(resume(program, "sweep"), &err, "is not a run.json of this program", "another program's run.json");
    put_text("sweep/scale_divisor=none+seed=2/run.json", "{\"program\": \"sqrtdk\", \"result\": \"running\"}");
    put_text("sweep/scale_divisor=none+seed=2/notes.txt", "mine");
    assert_true(shell("cp -a sweep again && rm again/*none+seed=2/run.json"));
    assert_false(resume(program, "again"));
    assert_says("seed=2 is not the directory of a run: it holds no run.json");
    assert_string_equal(contents(in("again/scale_divisor=none+seed=2/notes.txt"), NULL), "mine");
    resumes("sweep");
    assert_string_equal(contents(in("sweep/scale_divisor=none+seed=2.old/notes.txt"), NULL), "mine");
}

/* A sweep is resumed with the config and text it began with, by one process. Nothing is written before that is known.
 */
static void changes_are_refused(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    assert_false(sweep_with(program_that("none+seed=2", "exit 1"), "sweep", 2, false));
    const char *run_json = contents(in("sweep/run.json"), NULL), *before = contents(in("sweep/config.ini"), NULL);
    int lock;
    assert_true(directory_lock(in("sweep"), &lock, &err));
    assert_refused(resume(program, "sweep"), &err, "in use", "a sweep that another process is at");
    close(lock);
    /* one line that is as valid as before, and would leave the runs that have ended as they are */
    char *edited = kept(strdup(before)), *steps = strstr(edited, "\nsteps = 12\n");
    assert_non_null(steps);
    memcpy(steps, "\nsteps = 15\n", strlen("\nsteps = 15\n"));
    put_text("sweep/config.ini", edited);
    assert_refused(
        resume(program, "sweep"), &err,
        "sweep/config.ini gives the run scale_divisor=none+seed=1 \"train.steps = 15\", but it was trained with \"train.steps = 12\"",
        "another config");
    put_text("sweep/config.ini", before);
    const char *of_run = contents(in("sweep/scale_divisor=sqrt_dk+seed=1/config.ini"), NULL);
    put_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", "[train]\nsteps = 3\n");
    assert_refused(resume(program, "sweep"), &err, "but it was trained with \"data.corpus = \"\"\": set back",
                   "another config of a run");
    put_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", of_run);
    const char *corpus = contents(in("corpus.txt"), NULL);
    put_text("corpus.txt", corpus + 7);
    assert_refused(resume(program, "sweep"), &err, "another text", "another text");
    put_text("corpus.txt", corpus);
    assert_string_equal(contents(in("sweep/run.json"), NULL), run_json);
    /* A key that the program did not have yet had what is its default now. */
    char *older = kept(strdup(of_run)), *key = strstr(older, "momentum = 0.9\n");
    assert_non_null(key);
    memset(key, '\n', strlen("momentum = 0.9"));
    put_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", older);
    resumes("sweep");
}

/* The table of a finished sweep is made again from what its runs left, to the byte; nothing is trained. */
static void made_again(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    const char *json = contents(in("sweep/run.json"), NULL), *before = contents(in("sweep/summary.csv"), NULL);
    assert_int_equal(remove(in("sweep/summary.csv")), 0);
    for (int seed = 1; seed <= 2; seed++) { /* no model is needed */
        char path[128];
        snprintf(path, sizeof path, "sweep/scale_divisor=none+seed=%d/checkpoint", seed);
        assert_true(directory_remove(in(path), &err));
    }
    bool done = resume(in("no-such-program"), "sweep");
    assert_that(done, "%s", err.message);
    assert_string_equal(contents(in("sweep/summary.csv"), NULL), before);
    assert_string_equal(contents(in("sweep/run.json"), NULL), json);
    /* a run that is not readable is not trained again; one that was removed is */
    const char *run_json = contents(in("sweep/scale_divisor=none+seed=1/run.json"), NULL);
    put_text("sweep/scale_divisor=none+seed=1/run.json", "{");
    assert_refused(resume(program, "sweep"), &err, "scale_divisor=none+seed=1/run.json", "a run that cannot be read");
    put_text("sweep/scale_divisor=none+seed=1/run.json", run_json);
    const char *metrics = contents(in("sweep/scale_divisor=none+seed=1/metrics.csv"), NULL);
    put_text("sweep/scale_divisor=none+seed=1/metrics.csv", "step\n1\n");
    assert_false(resume(program, "sweep"));
    assert_says("sweep has finished, but scale_divisor=none+seed=1 cannot be read: ");
    assert_string_equal(contents(in("sweep/run.json"), NULL), json);
    put_text("sweep/scale_divisor=none+seed=1/metrics.csv", metrics);
    resumes("sweep");
    assert_string_equal(contents(in("sweep/summary.csv"), NULL), before);
}

/* [sweep] may grow, but every run that it had must still be one of its own. */
static void a_run_cannot_be_dropped(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    char *text = contents(in("sweep/config.ini"), NULL), *seeds = strstr(text, "train.seed = 1, 2");
    assert_non_null(seeds);
    seeds[strlen("train.seed = 1, 2") - 1] = '3';
    put_text("sweep/config.ini", text);
    assert_refused(resume(program, "sweep"), &err, "no longer has the run scale_divisor=none+seed=2", "a dropped run");
}

/* What follows from a swept key with a single value is that run's, not the base config's. */
static void one_value(void **state) {
    (void)state;
    CONFIGURE(TINY, "sweep.attention.scale_divisor=dk", "sweep.train.lr=1e-4");
    sweep("sweep", 1);
    bool done = resume(program, "sweep");
    assert_that(done, "%s", err.message);
}

static void removed_run_is_trained_again(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("straight", 2);
    sweep("sweep", 2);
    assert_true(directory_remove(in("sweep/scale_divisor=none+seed=1"), &err));
    resumes("sweep");
    assert_same_sweep("straight", "sweep");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(failures_are_the_runs_own),
        SWEEP_TEST(resumes_from_anything),
        SWEEP_TEST(other_sweeps_are_left_alone),
        SWEEP_TEST(force_moves_the_old_sweep),
        SWEEP_TEST(what_is_not_ours_stays),
        SWEEP_TEST(changes_are_refused),
        SWEEP_TEST(made_again),
        SWEEP_TEST(a_run_cannot_be_dropped),
        SWEEP_TEST(one_value),
        SWEEP_TEST(removed_run_is_trained_again),
    };
    matmul_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
