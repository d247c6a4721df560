/* A sweep by shares: processes of two hosts, of which some are killed or stopped and started again, make the tables of
   a single sweep. Flock does nothing here: the owner's file in each run keeps the shares apart. The runs are trained
   by this very program (as_program), so that its stand-ins for system calls hold there as well. */
#include "sweeping.h"

#include <sys/resource.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "lab/sweep/sweep.h"
#include "launchers.h"
#include "locks.h"

#define SIX                                                                                                            \
    "train.steps=800", "eval.every=200", "log.every=1", "log.attention_every=400", "log.sample_tokens=0",              \
        "log.checkpoint_every=100", "sweep.attention.scale_divisor=none, sqrt_dk", "sweep.train.seed=1, 2, 3"

static SweepOptions options_of(const char *out) {
    Progress *silent = progress_make(stderr, true);
    return (SweepOptions){.threads = 1, .jobs = 1, .out = out, .command_line = "./train sweep", .progress = silent};
}

/* Trains or resumes a run as ./train does, on the host that the environment names. */
static int as_program(int argc, char **argv) {
    const bool resumes = strcmp(argv[1], "resume") == 0;
    const Verb *verb = resumes ? &resume_verb : &train_verb;
    Command command = {.argv = argv, .line = "./train", .processors = 1};
    int caught = 0;
    snprintf(host, sizeof host, "%s", getenv("TEST_HOST"));
    flocks = (int)strtol(getenv("TEST_FLOCKS"), NULL, 10);
    interrupt_catch();
    if (!works(command_parse(verb, argc - resumes, argv + resumes, &command)) || !works(caught = verb->run(&command))) {
        fprintf(stderr, "%s: %s\n", program_name, err.message);
        return (int)err.status;
    }
    memory_release(0);
    return caught ? 128 + caught : 0;
}

/* The name of the run that a share of a sweep trains as its number-th, counted from 0; valid until the next call. */
static const char *run_of(const char *name, size_t share, size_t shares, size_t number) {
    static char run[RUN_NAME];
    SweepRun *runs[RUNS_MAX];
    const size_t mark = memory_mark();
    const SweepOptions options = options_of(NULL);
    Sweep *s = sweep_read(in(name), &options, false);
    s->share = share;
    s->shares = shares;
    assert_true(number < share_runs(s, runs));
    snprintf(run, sizeof run, "%s", runs[number]->name);
    memory_release(mark);
    return run;
}
static const char *file_of(const char *name, size_t share, size_t shares, size_t number, const char *file) {
    static char path[RUN_NAME + 64];
    snprintf(path, sizeof path, "%s/%s/%s", name, run_of(name, share, shares, number), file);
    return path;
}

/* Prepares a sweep, or makes its tables. Returns what was printed. */
static const char *printed_by(bool preparing, const char *name) {
    const size_t mark = memory_mark();
    const SweepOptions options = options_of(preparing ? in(name) : NULL);
    FILE *out = fopen(in("said"), "w");
    if (preparing) sweep_prepare(&config, &axes, &options, out);
    else sweep_tables(in(name), &options, out);
    assert_int_equal(fclose(out), 0);
    memory_release(mark);
    return contents(in("said"), NULL);
}
static const char *prepare(const char *name) { return printed_by(true, name); }
static const char *tables(const char *name) { return printed_by(false, name); }

/* Starts a share on a host, under a job or, where that is NULL, none, in a process group of its own. It may have so
   many files open; 0: any number. What it prints is added to the file `shares`. */
static pid_t start_share_with(const char *on, const char *share, const char *job, rlim_t files) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    char flocks_text[8];
    int signal_number = 0;
    const size_t mark = memory_mark();
    FILE *said = fopen(in("shares"), "a");
    SweepOptions options = options_of(NULL);
    options.progress = &(Progress){.stream = said};
    setvbuf(said, NULL, _IOLBF, 0);
    strcpy(host, on);
    snprintf(flocks_text, sizeof flocks_text, "%d", flocks);
    setenv("TEST_HOST", on, 1);
    setenv("TEST_FLOCKS", flocks_text, 1);
    if (job) setenv("SLURM_JOB_ID", job, 1);
    if (files) setrlimit(RLIMIT_NOFILE, &(struct rlimit){files, files});
    setpgid(0, 0);
    interrupt_catch();
    if (!works(signal_number = sweep_share(in("sweep"), share, &options, said))) {
        fprintf(said, "%s\n", err.message);
        exit((int)err.status);
    }
    memory_release(mark);
    exit(signal_number ? 128 + signal_number : 0);
}
static pid_t start_share(const char *on, const char *share) { return start_share_with(on, share, NULL, 0); }

/* Two hosts, four shares of six runs. Three are ended with their runs: one is killed and started again on another host,
   at first without its job and then as it would be requeued; one is killed and started again on its host; one is
   stopped and started again on the other host. */
static void four_shares(void) {
    pid_t shares[4];
    CONFIGURE(SIX);
    sweep("straight", 1);
    for (flocks = NO_FLOCK; flocks <= FLOCK_FOR_ALL; flocks++) {
        assert_string_equal(prepare("sweep"), "6\n");
        shares[0] = start_share_with("a", "1/4", "77", 0);
        wait_for_steps("sweep", run_of("sweep", 0, 4, 0), 120);
        assert_int_equal(kill(-shares[0], SIGKILL), 0);
        shares[1] = start_share("b", "2/4");
        wait_for_steps("sweep", run_of("sweep", 1, 4, 0), 120);
        assert_int_equal(kill(-shares[1], SIGKILL), 0);
        shares[2] = start_share("a", "3/4"); /* each is ended as soon as it has got so far, or it might be done */
        wait_for_steps("sweep", run_of("sweep", 2, 4, 0), 120);
        assert_int_equal(kill(shares[2], SIGTERM), 0);
        assert_int_equal(status_of(shares[0]), 128 + SIGKILL);
        assert_int_equal(status_of(shares[1]), 128 + SIGKILL);
        assert_int_equal(status_of(shares[2]), 128 + SIGTERM);
        assert_true(path_exists(in(file_of("sweep", 0, 4, 0, "owner"))));
        assert_true(path_exists(in(file_of("sweep", 1, 4, 0, "owner"))));
        assert_non_null(strstr(contents(in(file_of("sweep", 2, 4, 0, "run.json")), NULL), "interrupted"));
        assert_true(!path_exists(in(file_of("sweep", 2, 4, 0, "owner"))));
        assert_int_equal(status_of(start_share("b", "1/4")), STATUS_FAILED);
        assert_true(
            shell("grep -q '^.1/2. .*: failed: .* of a (job 77) is writing there; .* remove .*/owner$' shares"));
        assert_non_null(strstr(contents(in(file_of("sweep", 0, 4, 1, "run.json")), NULL), "finished"));
        shares[0] = start_share_with("b", "1/4", "77", 0);
        shares[1] = start_share("b", "2/4");
        shares[2] = start_share("b", "3/4");
        shares[3] = start_share("a", "4/4");
        for (int i = 0; i < 4; i++) assert_int_equal(status_of(shares[i]), 0);
        const char *said = tables("sweep");
        assert_null(strstr(said, "did not finish"));
        assert_same_sweep("straight", "sweep");
        assert_true(shell("! find sweep -name 'owner*' -o -name '*.old*' | grep ."));
        /* each run was trained by one share to its end, and resumed at most once */
        assert_true(shell("[ $(grep -c ': val .* at step 800' shares) = 6 ]"));
        assert_true(shell("[ $(cat sweep/*/run.json | grep -c '\"step\":') = 3 ]"));
        assert_true(shell("rm -r sweep shares"));
    }
    flocks = FLOCK;
}

/* A run that a share cannot train is named at once, with the reason, and the share fails; its other runs are
   trained. */
static void what_cannot_be_taken(void) {
    CONFIGURE(FOUR);
    prepare("sweep");
    char run[512];
    snprintf(run, sizeof run, "%s", in(file_of("sweep", 0, 2, 0, "")));
    assert_true(directory_make_new(run));
    const size_t mark = memory_mark();
    directory_lock(run);
    assert_int_equal(status_of(start_share("a", "1/2")), STATUS_FAILED);
    assert_true(shell("grep -q '^.1/2. .*: failed: .* is in use' shares"));
    assert_true(shell("grep -q '^.2/2. .*: val ' shares"));
    assert_non_null(strstr(tables("sweep"), "3 of 4 runs did not finish"));
    memory_release(mark);
    put_text(file_of("sweep", 0, 2, 0, "owner"), "somebody");
    assert_int_equal(status_of(start_share("a", "1/2")), STATUS_FAILED);
    assert_true(shell("grep -q '^.2/2. .*: failed: .*/owner does not name a process' shares"));
    assert_int_equal(remove(in(file_of("sweep", 0, 2, 0, "owner"))), 0);
    const char *corpus = contents(in("corpus.txt"), NULL);
    put_text("corpus.txt", corpus + 7);
    assert_int_equal(status_of(start_share("a", "1/2")), STATUS_USAGE);
    put_text("corpus.txt", corpus);
    assert_int_equal(status_of(start_share("a", "1/2")), 0);
    assert_int_equal(status_of(start_share("b", "2/2")), 0);
    assert_null(strstr(tables("sweep"), "did not finish"));
}

/* A share that may open few files trains all of its runs or fails. */
static void few_files(void) {
    size_t failed = 0, succeeded = 0;
    CONFIGURE("train.steps=2", "eval.every=2", "log.sample_tokens=0", "sweep.train.seed=1, 2");
    for (rlim_t files = 4; files < 16; files++) {
        prepare("sweep");
        const int status = status_of(start_share_with("a", "1/1", NULL, files));
        const bool all = shell("[ $(grep -l finished sweep/seed*/run.json | wc -l) = 2 ]");
        assert_that((status == 0) == all, "status %d with %d files", status, (int)files);
        failed += status != 0;
        succeeded += status == 0;
        assert_true(shell("rm -r sweep"));
    }
    assert_true(failed > 0 && succeeded > 0);
}

/* A run that is trained in a directory of the sweep stays in it. */
static void linked_run(void) {
    CONFIGURE(FOUR);
    prepare("sweep");
    assert_true(shell("mkdir victim && ln -s ../victim sweep/scale_divisor=none+seed=1"));
    assert_int_equal(status_of(start_share("a", "1/1")), STATUS_FAILED);
    assert_true(shell("grep -q 'failed: .*none+seed=1 is a symbolic link' shares"));
    const SweepOptions options = options_of(NULL);
    assert_refused("none+seed=1 is a symbolic link", sweep_resume(in("sweep"), &options, stdout));
    assert_true(shell("rmdir victim")); /* empty */
}

/* --- which share */

/* Of texts that are no share, seeds/share of the fuzz target has more. */
static void which_share(void) {
    static const struct {
        const char *text, *variables[8], *refused;
        size_t share, shares;
    } cases[] = {
        {"1/1", {0}, NULL, 0, 1},
        {"8/8", {0}, NULL, 7, 8},
        {"2/8", {"5", "9"}, NULL, 1, 8}, /* what is said counts */
        {"auto", {"0", "8", "0", "1"}, NULL, 0, 8},
        {"auto", {"7", "8", "0", "1"}, NULL, 7, 8},
        {"auto", {"14", "3", "10", "2"}, NULL, 2, 3},
        {"auto", {"3", "8", "1", "1", "9", "10"}, NULL, 2, 8},
        {"auto", {0, 0, 0, 0, "3", "4"}, NULL, 3, 4},
        {"auto", {0, 0, 0, 0, 0, 0, "0", "2"}, NULL, 0, 2},
        {"auto", {0}, "--share auto: neither SLURM_ARRAY_TASK_ID nor OMPI_COMM_WORLD_RANK nor PMI_RANK is set", 0, 0},
        {"auto", {"7", "3", "1", "1"}, "SLURM_ARRAY_TASK_ID is 7, which is none of 3 that begin at 1 in steps", 0, 0},
        {"auto", {"3", "3", "0", "2"}, "SLURM_ARRAY_TASK_ID is 3, which is none of 3 that begin at 0 in steps", 0, 0},
        {"auto", {"3", "3", "0", "0"}, "in steps of 0", 0, 0},
        {"auto", {"0", "3", "1", "1"}, "begin at 1", 0, 0},
        {"auto", {"0"}, "SLURM_ARRAY_TASK_ID is set, but SLURM_ARRAY_TASK_COUNT is not", 0, 0},
        {"auto", {0, 0, 0, 0, "0"}, "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not", 0, 0},
        {"auto", {"0", "0"}, "is none of 0", 0, 0},
        {"auto", {"x", "3"}, "SLURM_ARRAY_TASK_ID is \"x\", which is not a whole number", 0, 0},
        {"auto", {0, 0, 0, 0, "4", "4"}, "OMPI_COMM_WORLD_RANK is 4, which is none of 4", 0, 0},
        {"auto", {0, 0, 0, 0, 0, 0, "1", "-2"}, "PMI_SIZE is \"-2\"", 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t share = 99, shares = 99;
        for (size_t v = 0; v < COUNT_OF(LAUNCHERS); v++) {
            unsetenv(LAUNCHERS[v]);
            if (cases[i].variables[v]) setenv(LAUNCHERS[v], cases[i].variables[v], 1);
        }
        if (cases[i].refused) {
            assert_refused(cases[i].refused, share_read(cases[i].text, &share, &shares));
            continue;
        }
        share_read(cases[i].text, &share, &shares);
        assert_that(share == cases[i].share && shares == cases[i].shares, "case %zu: %zu/%zu", i, share, shares);
    }
    for (size_t v = 0; v < COUNT_OF(LAUNCHERS); v++) unsetenv(LAUNCHERS[v]);
}

/* Shares have each run once, and about as many as each other. No share has all runs of a setting that has several. */
static void runs_of_shares(void) {
    static const char *const sweeps[][3] = {
        {"sweep.train.seed=1, 2", "sweep.attention.scale_divisor=none, sqrt_dk", NULL},
        {"sweep.attention.scale_divisor=none, sqrt_dk, dk, 2sqrt_dk", "sweep.train.seed=1, 2, 3, 4", NULL},
        {"sweep.train.seed=1, 2, 3, 4", "sweep.train.lr=1e-3, 2e-3, 4e-3", "sweep.attention.scale_divisor=none, dk"},
        {"sweep.train.lr=1e-3, 2e-3, 4e-3, 8e-3, 1e-2", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(sweeps); i++) {
        static Sweep s; /* large */
        configure(sweeps[i]);
        s = (Sweep){.config = config, .axes = axes};
        sweep_plan(&s);
        for (s.shares = 2; s.shares < 30; s.shares++) {
            SweepRun *runs[RUNS_MAX];
            size_t seen[RUNS_MAX] = {0};
            for (s.share = 0; s.share < s.shares; s.share++) {
                size_t of_setting[RUNS_MAX] = {0};
                const size_t count = share_runs(&s, runs);
                assert_in_range(count, s.run_count / s.shares, (s.run_count + s.shares - 1) / s.shares);
                for (size_t k = 0; k < count; k++) seen[runs[k] - s.runs]++, of_setting[runs[k]->setting]++;
                for (size_t g = 0; g < s.setting_count; g++)
                    assert_true(s.settings[g].count == 1 || of_setting[g] < s.settings[g].count);
            }
            for (size_t r = 0; r < s.run_count; r++) assert_int_equal(seen[r], 1);
        }
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return as_program(argc, argv);
    return RUN_TESTS(SWEEP_TEST(four_shares), SWEEP_TEST(what_cannot_be_taken), SWEEP_TEST(few_files),
                     SWEEP_TEST(linked_run), SWEEP_TEST(which_share), SWEEP_TEST(runs_of_shares));
}
