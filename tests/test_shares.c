/* A sweep by shares: processes of four hosts, of which one is killed and one stopped and started again, make the tables
   of a single sweep. Flock does nothing here: what keeps the shares apart is the owner's file in each run. */
#include "sweeping.h"

#include <sys/resource.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "locks.h"
#include "sweep/parts.h"

#define SIX                                                                                                            \
    "train.steps=800", "eval.every=200", "log.every=1", "log.attention_every=400", "log.sample_tokens=0",              \
        "log.checkpoint_every=100", "sweep.attention.scale_divisor=none, sqrt_dk", "sweep.train.seed=1, 2, 3"
static const char *const NAMES[] = {"scale_divisor=none+seed=1",    "scale_divisor=none+seed=2",
                                    "scale_divisor=none+seed=3",    "scale_divisor=sqrt_dk+seed=1",
                                    "scale_divisor=sqrt_dk+seed=2", "scale_divisor=sqrt_dk+seed=3"};

static Progress silent;
static TrainOptions options_of(const char *out) {
    silent = progress_make(stderr, true);
    return (TrainOptions){.threads = 1, .jobs = 1, .out = out, .command_line = "./train sweep", .progress = &silent};
}

/* Prepares a sweep; returns what was printed. */
static const char *prepare(const char *name) {
    const TrainOptions options = options_of(in(name));
    FILE *out = fopen(in("said"), "w");
    bool done = sweep_prepare(&config, &options, out, &err);
    assert_that(done, "%s", err.message);
    assert_int_equal(fclose(out), 0);
    return contents(in("said"), NULL);
}

/* Makes the tables; returns what was printed. */
static const char *tables(const char *name) {
    const TrainOptions options = options_of(NULL);
    FILE *out = fopen(in("said"), "w");
    bool done = sweep_tables(in(name), &options, out, &err);
    assert_that(done, "%s", err.message);
    assert_int_equal(fclose(out), 0);
    return contents(in("said"), NULL);
}

/* Starts a share on a host, in a process group of its own and as the job of its number. What it prints is added to the
   file `shares`. */
static pid_t start_share(const char *on, const char *share) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    setenv("SLURM_JOB_ID", share, 1);
    int signal_number = 0;
    FILE *said = fopen(in("shares"), "a");
    TrainOptions options = options_of(NULL);
    options.progress = &(Progress){.stream = said};
    setvbuf(said, NULL, _IOLBF, 0);
    strcpy(host, on);
    setpgid(0, 0);
    interrupt_catch();
    const bool ok = sweep_share(in("sweep"), share, &options, said, &signal_number, &err);
    if (!ok) fprintf(stderr, "%s\n", err.message);
    exit(ok ? signal_number ? 128 + signal_number : 0 : (int)err.status);
}

/* Four hosts, four shares of six runs. Share 1 is killed with its worker, share 2 is stopped, and both are started
   again, on other hosts, as jobs that are requeued. */
static void four_shares(void **state) {
    (void)state;
    pid_t shares[4];
    CONFIGURE(SIX);
    sweep("straight", 1);
    for (flocks = NO_FLOCK; flocks <= FLOCK_FOR_ALL; flocks++) {
        assert_string_equal(prepare("sweep"), "6\n");
        shares[0] = start_share("a", "1/4");
        shares[1] = start_share("b", "2/4");
        wait_for_steps("sweep", NAMES[0], 120);
        wait_for_steps("sweep", NAMES[1], 120);
        assert_int_equal(kill(-shares[0], SIGKILL), 0);
        assert_int_equal(kill(shares[1], SIGTERM), 0);
        assert_int_equal(status_of(shares[0]), 128 + SIGKILL);
        assert_int_equal(status_of(shares[1]), 128 + SIGTERM);
        assert_true(path_exists(in("sweep/scale_divisor=none+seed=1/owner")));
        assert_true(shell("grep -q interrupted sweep/scale_divisor=none+seed=2/run.json"));
        assert_true(!path_exists(in("sweep/scale_divisor=none+seed=2/owner")));
        shares[0] = start_share("c", "1/4");
        shares[1] = start_share("d", "2/4");
        shares[2] = start_share("a", "3/4");
        shares[3] = start_share("b", "4/4");
        for (int i = 0; i < 4; i++) assert_int_equal(status_of(shares[i]), 0);
        const char *said = tables("sweep");
        assert_null(strstr(said, "did not finish"));
        assert_same_sweep("straight", "sweep");
        assert_true(shell("! find sweep -name 'owner*' -o -name '*.old*' | grep ."));
        /* each run was trained by one share to its end, and resumed at most once */
        assert_true(shell("[ $(grep -c ': val .* at step 800' shares) = 6 ]"));
        assert_true(shell("[ $(cat sweep/*/run.json | grep -c '\"step\":') = 2 ]"));
        assert_true(shell("rm -r sweep shares"));
    }
    flocks = FLOCK;
}

/* Tables of what is there; what is missing is named. The config of each run is as the sweep trains it. */
static void what_is_there(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    assert_string_equal(prepare("sweep"), "4\n");
    assert_true(shell("[ $(ls sweep/configs | wc -l) = 4 ]"));
    const char *said = tables("sweep");
    assert_non_null(strstr(said, "4 of 4 runs did not finish; to resume: "));
    assert_non_null(strstr(said, "  scale_divisor=sqrt_dk+seed=2: not finished\n"));
    assert_result("sweep", "running");
    assert_int_equal(status_of(start_share("a", "2/4")), 0);
    assert_result("sweep", "running");
    assert_non_null(strstr(contents(in("shares"), NULL), "4 of the 4 runs in "));
    said = tables("sweep");
    assert_null(strstr(said, "did not finish"));
    assert_result("sweep", "finished");
    assert_true(shell("for run in sweep/scale*; do cmp $run/config.ini sweep/configs/${run##*/}.ini || exit 1; done"));
    assert_int_equal(status_of(start_share("a", "1/1")), 0); /* nothing is left */
    assert_refused(sweep_prepare(&config, &(TrainOptions){.out = in("sweep"), .threads = 1}, stdout, &err), &err,
                   "sweep exists: continue that sweep with", "a sweep in the place of another");
}

/* A run that another process trains is left to it, and what a share could be refused for is refused. */
static void left_alone(void **state) {
    (void)state;
    Directory lock;
    CONFIGURE(FOUR);
    prepare("sweep");
    assert_true(directory_make(in("sweep/scale_divisor=none+seed=1"), true, &err));
    assert_true(directory_lock(&lock, in("sweep/scale_divisor=none+seed=1"), &err));
    assert_int_equal(status_of(start_share("a", "1/2")), 0);
    assert_true(shell("grep -q '^3 of the 4 runs in .* have ended' shares"));
    assert_non_null(strstr(tables("sweep"), "1 of 4 runs did not finish"));
    directory_close(&lock);
    const char *corpus = contents(in("corpus.txt"), NULL);
    put_text("corpus.txt", corpus + 7);
    assert_int_equal(status_of(start_share("a", "1/2")), STATUS_USAGE);
    put_text("corpus.txt", corpus);
    assert_int_equal(status_of(start_share("b", "2/2")), 0);
    assert_null(strstr(tables("sweep"), "did not finish"));
}

/* A process that dies while it writes the first files of a sweep leaves what the same command takes, or a sweep. Here
   the system kills it as soon as a file would be longer than so many bytes. */
static void dies_at_the_start(void **state) {
    (void)state;
    int how = 0, begun = 0, made = 0;
    CONFIGURE(FOUR);
    for (rlim_t bytes = 0; bytes < 8000 && !made; bytes += 100) {
        const TrainOptions options = options_of(in("sweep"));
        const struct rlimit longest = {bytes, bytes}, no_core = {0, 0};
        FILE *nowhere = fopen("/dev/null", "w");
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0 && nowhere);
        if (child == 0) {
            setrlimit(RLIMIT_CORE, &no_core);
            setrlimit(RLIMIT_FSIZE, &longest);
            _exit(sweep_prepare(&config, &options, nowhere, &err) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        fclose(nowhere);
        made = WIFEXITED(how) && WEXITSTATUS(how) == 0;
        begun += WIFSIGNALED(how) && path_exists(in("sweep/config.ini.new"));
        if (!path_exists(in("sweep/run.json"))) prepare("sweep");
        assert_non_null(strstr(tables("sweep"), "4 of 4 runs did not finish"));
        assert_true(directory_remove(in("sweep"), &err));
    }
    assert_true(made && begun > 5);
}

/* What is trained in a directory of the sweep stays in it. */
static void linked_run(void **state) {
    (void)state;
    CONFIGURE(FOUR);
    prepare("sweep");
    assert_true(shell("mkdir victim && ln -s ../victim sweep/scale_divisor=none+seed=1"));
    assert_int_equal(status_of(start_share("a", "1/1")), STATUS_USAGE);
    const TrainOptions options = options_of(NULL);
    int signal_number;
    assert_refused(sweep_resume(in("sweep"), &options, stdout, &signal_number, &err), &err,
                   "none+seed=1 is a symbolic link", "a run elsewhere");
    assert_true(shell("rmdir victim")); /* empty */
}

/* --- which share */

static const char *const VARIABLES[] = {"SLURM_ARRAY_TASK_ID",
                                        "SLURM_ARRAY_TASK_COUNT",
                                        "SLURM_ARRAY_TASK_MIN",
                                        "SLURM_ARRAY_TASK_STEP",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE"};
static void which_share(void **state) {
    (void)state;
    static const struct {
        const char *text, *variables[8], *refused;
        size_t share, shares;
    } cases[] = {
        {"1/1", {0}, NULL, 0, 1},
        {"8/8", {0}, NULL, 7, 8},
        {"2/8", {"5", "9"}, NULL, 1, 8}, /* what is said counts */
        {"0/8", {0}, "--share takes I/N with I from 1 to N", 0, 0},
        {"9/8", {0}, "--share takes I/N", 0, 0},
        {"/8", {0}, "--share takes I/N", 0, 0},
        {"1/", {0}, "--share takes I/N", 0, 0},
        {"1/8x", {0}, "--share takes I/N", 0, 0},
        {"-1/8", {0}, "--share takes I/N", 0, 0},
        {"1/99999999999999999999", {0}, "--share takes I/N", 0, 0},
        {"", {0}, "--share takes I/N", 0, 0},
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
        for (size_t v = 0; v < COUNT_OF(VARIABLES); v++) {
            unsetenv(VARIABLES[v]);
            if (cases[i].variables[v]) setenv(VARIABLES[v], cases[i].variables[v], 1);
        }
        const bool done = share_read(cases[i].text, &share, &shares, &err);
        if (cases[i].refused) assert_refused(done, &err, cases[i].refused, cases[i].text);
        else
            assert_that(done && share == cases[i].share && shares == cases[i].shares, "case %zu: %zu/%zu", i, share,
                        shares);
    }
    for (size_t v = 0; v < COUNT_OF(VARIABLES); v++) unsetenv(VARIABLES[v]);
}

int main(void) {
    matmul_setup();
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(four_shares),       SWEEP_TEST(what_is_there), SWEEP_TEST(left_alone),
        SWEEP_TEST(dies_at_the_start), SWEEP_TEST(linked_run),    SWEEP_TEST(which_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
