/* Sweeps that are cut short in whatever way, and go on: they end with the same files as one that ran through. */
#include "sweeping.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/interrupt.h"

/* Left over from whatever happened: nothing but its own failed arms is trained again. */
static void failures_are_the_arms_own(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    sweep("straight", 2);
    assert_false(
        sweep_with(program_that("none+seed=2", "echo 'train: no such luck, today' >&2; exit 1"), "sweep", 2, false));
    assert_int_equal(err.status, STATUS_FAILED);
    assert_string_equal(err.message, "1 of 4 runs failed; scale_divisor=none+seed=2: no such luck, today");
    assert_result("sweep", "failed");
    assert_non_null(strstr(contents(in("sweep/run.json"), NULL), "\"error\": \"no such luck, today\""));
    const char *csv = timeless("sweep");
    assert_non_null(
        strstr(csv, "scale_divisor=none+seed=2,none,2,failed,,,,,,,,,,,,,,,,,,,,,\"no such luck, today\"\n"));
    assert_non_null(strstr(csv, "scale_divisor=sqrt_dk+seed=2,sqrt_dk,2,finished,,12,"));
    assert_non_null(strstr(contents(in("sweep/summary.md"), NULL), "failed: no such luck, today"));

    assert_false(sweep_with(program_that("none+seed=2", "kill -KILL $$"), "sweep", 2, false));
    assert_non_null(strstr(err.message, "scale_divisor=none+seed=2: killed by signal 9"));
    assert_false(sweep_with(program_that("none+seed=2", "exit 0"), "sweep", 2, false));
    assert_non_null(strstr(err.message, "ended with status 0 and left a run that is not started"));
    assert_false(sweep_with(program_that("none+seed=2", "kill -TERM $$"), "sweep", 2, false));
    assert_non_null(strstr(err.message, "stopped by a signal that was not for the sweep"));
    assert_false(sweep_with(in("no-such-program"), "sweep", 2, false));
    assert_non_null(strstr(err.message, "the program could not be started"));
    assert_true(sweep_with(program_that("seed=1", "echo 'this arm was done' >&2; exit 1"), "sweep", 2, false));
    assert_result("sweep", "finished");
    assert_same_sweep("straight", "sweep");
}

/* An arm cut off at each place where a kill can leave it; another process still in its directory. */
static void goes_on_from_anything(void **state) {
    (void)state;
    static const char *const remains[] = {
        "mkdir -p '%s'", /* nothing written yet */
        "mkdir -p '%s' && echo '{\"program\": \"sqrtdk\", \"result\": \"running\"}' >'%s/run.json'",
        "cp -R '%s' '%s' && rm -r '%s/checkpoint' && mkdir '%s/checkpoint'", /* before the first checkpoint */
    };
    CONFIGURE(FOUR);
    sweep("straight", 2);
    for (size_t i = 0; i < COUNT_OF(remains); i++) {
        char name[16], arm[600], command[4096];
        snprintf(name, sizeof name, "sweep%zu", i);
        assert_false(sweep_with(program_that("none+seed=2", "exit 1"), name, 2, false));
        snprintf(arm, sizeof arm, "%s/%s/scale_divisor=none+seed=2", temporary, name);
        if (i < 2)
            snprintf(command, sizeof command, i ? remains[1] : remains[0], arm, arm);
        else
            snprintf(command, sizeof command, remains[2], in("straight/scale_divisor=none+seed=2"), arm, arm, arm);
        assert_int_equal(system(command), 0);
        sweep(name, 1);
        assert_same_sweep("straight", name);
    }
}

static void other_sweeps_are_left_alone(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    const char *broken = program_that("none+seed=2", "exit 1");
    assert_false(sweep_with(broken, NULL, 2, false));
    sweep(NULL, 2); /* the same goes on where it is */
    assert_result("run", "finished");
    assert_false(path_exists(in("run-2")));
    assert_false(sweep_with(broken, NULL, 2, false)); /* a finished one is left; the second goes on, too */
    sweep(NULL, 2);
    assert_result("run-2", "finished");
    assert_false(path_exists(in("run-3")));
    assert_refused(sweep_with(program, "run", 2, false), &err, "exists", "a finished sweep");

    assert_false(sweep_with(broken, "other", 2, false));
    CONFIGURE(FOUR, "train.lr=0.02");
    assert_refused(sweep_with(program, "other", 2, false), &err, "exists", "the sweep of another config");
    CONFIGURE(FOUR);
    int lock;
    assert_true(directory_lock(in("other"), &lock, &err));
    assert_refused(sweep_with(program, "other", 2, false), &err, "in use", "a sweep that another process is at");
    close(lock);
    put_text("other/scale_divisor=none+seed=1/config.ini", "[train]\nsteps = 3\n");
    assert_false(sweep_with(program, "other", 2, false));
    assert_non_null(strstr(
        err.message,
        "seed=1/config.ini is not the config this arm began with: line 1 is \"[train]\", not \"[data]\"; set it back"));
    assert_false(sweep_with(broken, "other", 2, true)); /* --force begins again */
    assert_non_null(strstr(err.message, "scale_divisor=none+seed=2: ended with status 1"));

    /* a new one of which no arm comes to a checkpoint leaves the old one in its place */
    const char *kept_table = contents(in("other/summary.csv"), NULL);
    assert_false(sweep_with(program_that("", "exit 1"), "other", 2, true));
    assert_non_null(strstr(err.message, "4 of 4 runs failed"));
    assert_non_null(strstr(err.message, "other is again what it was before"));
    assert_string_equal(contents(in("other/summary.csv"), NULL), kept_table);
    assert_false(path_exists(in("other.old")));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) { /* nor does one that a signal stops before that */
        Progress quiet = progress_make(stderr, true);
        const SweepOptions replacing = {.threads = 1,
                                        .out = in("other"),
                                        .force = true,
                                        .command_line = "",
                                        .program = program_that("", "kill -TERM $PPID; exec sleep 20"),
                                        .progress = &quiet};
        int caught = 0;
        interrupt_catch();
        bool done = sweep_run(&config, &replacing, stdout, &caught, &err);
        _exit(done && caught == SIGTERM ? 0 : 1);
    }
    int ended = 0;
    assert_true(child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    assert_string_equal(contents(in("other/summary.csv"), NULL), kept_table);
    assert_false(path_exists(in("other.old")));

    /* what is in an arm's place and is no run of ours is not removed for it */
    assert_true(directory_make(in("other/scale_divisor=none+seed=2"), true, &err));
    put_text("other/scale_divisor=none+seed=2/run.json", "{}");
    assert_false(sweep_with(program, "other", 2, false));
    assert_non_null(strstr(err.message, "is not a run.json of this program"));
    assert_string_equal(contents(in("other/scale_divisor=none+seed=2/run.json"), NULL), "{}");
    put_text("other/scale_divisor=none+seed=2/run.json", "{\"program\": \"sqrtdk\", \"result\": \"running\"}");
    put_text("other/scale_divisor=none+seed=2/notes.txt", "mine");
    assert_false(sweep_with(program, "other", 2, false));
    assert_non_null(
        strstr(err.message, "other/scale_divisor=none+seed=2/notes.txt is nothing that this program writes"));
    assert_string_equal(contents(in("other/scale_divisor=none+seed=2/notes.txt"), NULL), "mine");
    assert_int_equal(remove(in("other/scale_divisor=none+seed=2/run.json")), 0);
    assert_false(sweep_with(program, "other", 2, false));
    assert_non_null(strstr(err.message, "seed=2 is not a run of this program"));
    assert_string_equal(contents(in("other/scale_divisor=none+seed=2/notes.txt"), NULL), "mine");
    assert_true(directory_remove(in("other/scale_divisor=none+seed=2"), &err));

    Progress progress = progress_make(stderr, true);
    const SweepOptions options = {
        .threads = 2, .command_line = "./train resume", .program = program, .progress = &progress};
    int signal_number;
    bool finished;
    FILE *table = fopen("/dev/null", "w");
    static Run no_run;
    assert_refused(run_open(&no_run, in("other"), NULL, 0, false, &err), &err,
                   "other is a sweep, whose runs are below it: name one, such as", "a sweep where a run is wanted");
    run_close(&no_run);
    assert_true(sweep_is(in("other")) && !sweep_is(in("other/scale_divisor=none+seed=1")) && !sweep_is(in("none")));
    const char *before = contents(in("other/config.ini"), NULL);
    put_text("other/config.ini", "[train]\nsteps = 3\n[sweep]\ntrain.seed = 1, 2, 3, 4\n");
    assert_refused(sweep_resume(in("other"), &options, table, &signal_number, &finished, &err), &err,
                   "other/config.ini is not the config the sweep began with: line 1 is", "another config");
    /* one line that is as valid as before, and would leave the arms that have ended as they are */
    char *edited = kept(strdup(before)), *steps = strstr(edited, "\nsteps = 12\n");
    assert_non_null(steps);
    memcpy(steps, "\nsteps = 15\n", strlen("\nsteps = 15\n"));
    put_text("other/config.ini", edited);
    const char *run_json = contents(in("other/run.json"), NULL);
    static const char says[] = "is \"steps = 15\", not \"steps = 12\"; set it back";
    assert_refused(sweep_resume(in("other"), &options, table, &signal_number, &finished, &err), &err, says, "resume");
    assert_refused(sweep_with(program, "other", 2, false), &err, says, "sweep");
    assert_string_equal(contents(in("other/run.json"), NULL), run_json);
    put_text("other/config.ini", before);
    const char *corpus = contents(in("corpus.txt"), NULL);
    put_text("corpus.txt", corpus + 7);
    assert_refused(sweep_resume(in("other"), &options, table, &signal_number, &finished, &err), &err, "another text",
                   "another text");
    put_text("corpus.txt", corpus);
    assert_true(sweep_resume(in("other"), &options, table, &signal_number, &finished, &err) && !finished);
    assert_true(sweep_resume(in("other"), &options, table, &signal_number, &finished, &err) && finished);
    fclose(table);
}

/* The tables and pictures of a finished sweep are made again from what its runs left, to the byte; nothing is trained.
 */
static void made_again(void **state) {
    (void)state;
    static const char *const names[] = {"summary.md",           "summary.csv",   "loss.png",
                                        "entropy.png",          "score_std.png", "qk_norm.png",
                                        "attention_compare.png"};
    const char *before[COUNT_OF(names)];
    size_t sizes[COUNT_OF(names)], size;
    Progress progress = progress_make(stderr, true);
    const SweepOptions options = {
        .threads = 2, .command_line = "./train resume", .program = in("no-such-program"), .progress = &progress};
    int signal_number;
    bool finished;
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    const char *json = contents(in("sweep/run.json"), NULL);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        before[i] = contents(inside("sweep", names[i]), &sizes[i]);
        assert_int_equal(remove(inside("sweep", names[i])), 0);
    }
    for (int seed = 1; seed <= 2; seed++) { /* no model is needed */
        char path[128];
        snprintf(path, sizeof path, "sweep/scale_divisor=none+seed=%d/checkpoint", seed);
        assert_true(directory_remove(in(path), &err));
    }
    bool done = sweep_resume(in("sweep"), &options, stdout, &signal_number, &finished, &err);
    assert_that(done && finished, "%s", err.message);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *after = contents(inside("sweep", names[i]), &size);
        assert_that(size == sizes[i] && memcmp(before[i], after, size) == 0, "%s", names[i]);
    }
    assert_string_equal(contents(in("sweep/run.json"), NULL), json);
    /* a run that is not readable is not trained again; one that was removed is */
    const char *run_json = contents(in("sweep/scale_divisor=none+seed=1/run.json"), NULL);
    put_text("sweep/scale_divisor=none+seed=1/run.json", "{");
    assert_refused(sweep_resume(in("sweep"), &options, stdout, &signal_number, &finished, &err), &err,
                   "scale_divisor=none+seed=1 has not: ", "a run that cannot be read");
    put_text("sweep/scale_divisor=none+seed=1/run.json", run_json);
    assert_string_equal(contents(in("sweep/run.json"), NULL), json);
}

static void removed_arm_is_trained_again(void **state) {
    (void)state;
    Progress progress = progress_make(stderr, true);
    const SweepOptions options = {
        .threads = 2, .command_line = "./train resume", .program = program, .progress = &progress};
    int signal_number;
    bool finished;
    FILE *table = fopen("/dev/null", "w");
    CONFIGURE(FOUR);
    sweep("straight", 2);
    sweep("sweep", 2);
    assert_true(directory_remove(in("sweep/scale_divisor=none+seed=1"), &err));
    bool done = sweep_resume(in("sweep"), &options, table, &signal_number, &finished, &err);
    fclose(table);
    assert_that(done && !finished, "%s", err.message);
    assert_result("sweep", "finished");
    assert_same_sweep("straight", "sweep");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(failures_are_the_arms_own),    SWEEP_TEST(goes_on_from_anything),
        SWEEP_TEST(other_sweeps_are_left_alone),  SWEEP_TEST(made_again),
        SWEEP_TEST(removed_arm_is_trained_again),
    };
    matmul_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
