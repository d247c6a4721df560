/* Sweeps that were stopped in any way and resumed: they end with the same files as one that was never stopped. */
#include "sweeping.h"

#include <signal.h>
#include <time.h>

#include "base/interrupt.h"

static FILE *no_table; /* /dev/null */

/* Continues a sweep, as sweep_with trains one. */
static void resume(const char *program, const char *directory) {
    const size_t mark = memory_mark();
    const SweepOptions options = {.threads = 2,
                                  .command_line = "./train resume",
                                  .program = program ? program : built(),
                                  .progress = progress_make(stderr, true)};
    assert_int_equal(sweep_resume(in(directory), &options, no_table), 0);
    memory_release(mark);
}
static void resumes(const char *directory) {
    resume(NULL, directory);
    assert_result(directory, "finished");
}

/* Trains a sweep of which one run fails. */
#define FAILS "1 of 4 runs failed; scale_divisor=none+seed=2: no such luck, today"
static void sweep_failing(const char *name, bool force) {
    assert_fails(STATUS_FAILED, FAILS, sweep_with(no_such_luck(), name, 2, force));
    assert_string_equal(err.message, FAILS);
}

/* Makes the tables of "sweep". */
static void make_tables(void) {
    const size_t mark = memory_mark();
    const SweepOptions options = {.command_line = "./train sweep", .progress = progress_make(stderr, true)};
    sweep_tables(in("sweep"), &options, no_table);
    memory_release(mark);
}

/* If a run fails in any way, the others are trained, and only the failed one is trained when the sweep is resumed. */
static void failures_are_the_runs_own(void) {
    CONFIGURE(FOUR);
    sweep("straight", 2);
    sweep_failing("sweep", false);
    assert_result("sweep", "failed");
    assert_non_null(strstr(contents(in("sweep/run.json"), NULL), "\"error\": \"no such luck, today\""));
    const char *csv = timeless("sweep");
    assert_non_null(
        strstr(csv, "scale_divisor=none+seed=2,none,2,1,failed,,,,,,,,,,,,,,,,,,,,,,,\"no such luck, today\"\n"));
    assert_non_null(strstr(csv, "scale_divisor=sqrt_dk+seed=2,sqrt_dk,2,4,finished,12,"));

    assert_fails(STATUS_FAILED, "scale_divisor=none+seed=2: killed by signal 9",
                 resume(program_where(THE_ONE, "kill -9 $$"), "sweep"));
    assert_fails(STATUS_FAILED, "scale_divisor=none+seed=2: killed by signal 9", make_tables());
    assert_non_null(strstr(timeless("sweep"), ",killed by signal 9 (Killed)\n"));
    assert_fails(STATUS_FAILED, "ended with status 0 before it had finished",
                 resume(program_where(THE_ONE, "exit 0"), "sweep"));
    assert_fails(STATUS_FAILED, "ended with status 7 before it had finished",
                 resume(program_where(THE_ONE, "exit 7"), "sweep"));
    resume(program_where("*seed=1*", NO_SUCH_LUCK), "sweep");
    assert_result("sweep", "finished");
    assert_same_sweep("straight", "sweep");
}

/* A directory in a run's place is not lost: a run of this program is moved, and anything else is not trained over. */
static void what_is_not_ours_stays(void) {
    CONFIGURE(FOUR);
    sweep_failing("sweep", false);
    assert_true(directory_make_new(in("sweep/scale_divisor=none+seed=2")));
    put_text("sweep/scale_divisor=none+seed=2/run.json", "{}");
    assert_fails(STATUS_FAILED, "is not a run.json of this program", resume(NULL, "sweep"));
    put_text("sweep/scale_divisor=none+seed=2/run.json", "{\"program\": \"sqrtdk\", \"result\": \"running\"}");
    put_text("sweep/scale_divisor=none+seed=2/notes.txt", "mine");
    assert_fails(STATUS_FAILED, "seed=2/config.ini: No such file", resume(NULL, "sweep"));
    assert_true(shell("rm sweep/*none+seed=2/run.json"));
    assert_fails(STATUS_FAILED, "seed=2 is not the directory of a run: it holds no run.json", resume(NULL, "sweep"));
    assert_string_equal(contents(in("sweep/scale_divisor=none+seed=2/notes.txt"), NULL), "mine");
}

/* A run that had no room for the first lines of its logs has not begun: it is trained by resume, and the tables and the
   page name nothing that is damaged. */
static void full_at_birth(void) {
    CONFIGURE(FOUR);
    sweep("straight", 2);
    sweep("sweep", 2);
    assert_true(shell("cd sweep/*none+seed=2 && rm -r attention checkpoint *.png report.html samples.txt"
                      " && mv run.json run.json.new && : >metrics.csv && printf step,la >attention.csv"));
    make_tables();
    resumes("sweep");
    assert_same_sweep("straight", "sweep");
}

/* A sweep is resumed with the config and text it began with, by one process, and nothing is written before. */
static void changes_are_refused(void) {
    CONFIGURE(FOUR);
    sweep_failing("sweep", false);
    const char *run_json = contents(in("sweep/run.json"), NULL), *before = contents(in("sweep/config.ini"), NULL);
    const size_t mark = memory_mark();
    directory_lock(in("sweep"));
    assert_refused("in use", resume(NULL, "sweep"));
    memory_release(mark);
    /* one line that is as valid as before, and would leave the runs that have ended as they are */
    char *edited = memory_copy_text(before, strlen(before)), *steps = strstr(edited, "\nsteps = 12\n");
    assert_non_null(steps);
    memcpy(steps, "\nsteps = 15\n", strlen("\nsteps = 15\n"));
    put_text("sweep/config.ini", edited);
    assert_refused("sweep/config.ini gives the run scale_divisor=none+seed=1 \"train.steps = 15\", but it was trained "
                   "with \"train.steps = 12\"",
                   resume(NULL, "sweep"));
    put_text("sweep/config.ini", before);
    const char *of_run = contents(in("sweep/scale_divisor=sqrt_dk+seed=1/config.ini"), NULL);
    put_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", "[train]\nsteps = 3\n");
    assert_refused("but it was trained with \"data.corpus = \"\"\": set back", resume(NULL, "sweep"));
    put_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", of_run);
    const char *corpus = contents(in("corpus.txt"), NULL);
    put_text("corpus.txt", corpus + 7);
    assert_refused("another text", resume(NULL, "sweep"));
    put_text("corpus.txt", corpus);
    assert_string_equal(contents(in("sweep/run.json"), NULL), run_json);
    /* A key that the program did not have yet had what is its default now. */
    char *older = memory_copy_text(of_run, strlen(of_run)), *key = strstr(older, "momentum = 0.9\n");
    assert_non_null(key);
    memset(key, '\n', strlen("momentum = 0.9"));
    put_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", older);
    /* lr/10 as it was up to version 0.6.0 */
    set_text("sweep/scale_divisor=sqrt_dk+seed=1/config.ini", "min_lr = 0.001\n", "min_lr = 0.0010000000000000002\n");
    resumes("sweep");
}

/* A run that was interrupted, and that cannot be resumed, has failed, as often as it is tried. */
static void resumed_in_vain(void) {
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    assert_true(shell("cd sweep/*none+seed=1 && sed -i 's/\"finished\"/\"interrupted\"/' run.json && "
                      "mv checkpoint/last.safetensors ../kept"));
    for (int again = 0; again < 2; again++) {
        assert_fails(STATUS_FAILED, "1 of 4 runs failed; scale_divisor=none+seed=1: ", resume(NULL, "sweep"));
        const char *csv = contents(in("sweep/summary.csv"), NULL);
        assert_non_null(strstr(csv, "\nscale_divisor=none+seed=1,none,1,1,failed,"));
        assert_result("sweep", "failed");
    }
    assert_true(shell("cd sweep/*none+seed=1 && mv ../kept checkpoint/last.safetensors"));
    resumes("sweep");
    assert_result("sweep", "finished");
}

/* The table of a finished sweep is made again from what its runs left, to the byte; nothing is trained. */
static void made_again(void) {
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    const char *json = contents(in("sweep/run.json"), NULL), *before = contents(in("sweep/summary.csv"), NULL);
    assert_int_equal(remove(in("sweep/summary.csv")), 0);
    for (int seed = 1; seed <= 2; seed++) { /* no model is needed */
        char path[128];
        snprintf(path, sizeof path, "sweep/scale_divisor=none+seed=%d/checkpoint", seed);
        assert_true(directory_remove(in(path)));
    }
    resume(program_where("*", NO_SUCH_LUCK), "sweep");
    assert_string_equal(contents(in("sweep/summary.csv"), NULL), before);
    assert_string_equal(contents(in("sweep/run.json"), NULL), json);
}

/* A run of which a file is damaged is named and left out: the tables have the others, and the sweep that had finished
   is not recorded as failed. What the tables do not need is named where it is needed. */
static void damaged_runs(void) {
    static const struct {
        const char *damage, *words; /* NULL: the tables are as before */
    } cases[] = {
        {"rm metrics.csv", "cannot read the log"},
        {"rm attention.csv", "cannot read the log"},
        {": >metrics.csv", "metrics.csv or attention.csv is not as the run left it"},
        {": >attention.csv", "metrics.csv or attention.csv is not as the run left it"},
        {"sed -i '$d' metrics.csv", "is not as the run left it"},
        {"sed -i '$d' attention.csv", "is not as the run left it"},
        {"sed -i '3s/1/2/' metrics.csv", "is not as the run left it"}, /* a number that is not the last */
        {"rm run.json", "is not the directory of a run: it holds no run.json"},
        {": >run.json", "run.json is not valid JSON"},
        {"echo { >run.json", "run.json is not valid JSON"},
        {"echo '{\"program\": \"another\"}' >run.json", "is not a run.json of this program"},
        {"rm config.ini", "cannot read config"},
        {"rm config.ini && mkdir config.ini", "cannot read config"},
        {"rm config.ini && mkfifo config.ini", "cannot read config"},
        {"rm vocab.json && mkfifo vocab.json", NULL},
        {"rm samples.txt && mkdir samples.txt", NULL},
        {"head -c 300 checkpoint/last.safetensors >cut && mv cut checkpoint/last.safetensors", NULL},
        {"rm attention/step000012.safetensors", NULL},
    };
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    const char *before = contents(in("sweep/summary.csv"), NULL);
    assert_true(shell("cp -a sweep whole"));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char command[512];
        snprintf(command, sizeof command, "cd sweep/*none+seed=1 && %s", cases[i].damage);
        assert_true(shell(command));
        for (int tables = 0; tables < 2; tables++) {
            const bool done = works(tables ? make_tables() : resume(NULL, "sweep"));
            assert_that(done == !cases[i].words, "%s: %s", cases[i].damage, done ? "done" : err.message);
            const char *csv = contents(in("sweep/summary.csv"), NULL);
            assert_result("sweep", "finished");
            if (done) {
                assert_string_equal(csv, before);
                continue;
            }
            assert_int_equal(err.status, STATUS_FAILED);
            assert_that(strstr(err.message, cases[i].words), "no %s in: %s", cases[i].words, err.message);
            assert_non_null(strstr(err.message, "1 of 4 runs are damaged and left out; scale_divisor=none+seed=1: "));
            assert_non_null(strstr(csv, "\nscale_divisor=none+seed=1,none,1,1,damaged,"));
            assert_non_null(strstr(csv, strstr(before, "\nscale_divisor=none+seed=2,none,2,1,finished,")));
        }
        assert_true(shell("rm -r sweep && cp -a whole sweep"));
    }
}

/* A run is resumed in its directory wherever its process was killed: after the last checkpoint, before the first one,
   before it had a directory. Nothing is moved. */
static void killed_anywhere(void) {
    static const char *const left[] = {
        ":",
        "rm -r ../*none+seed=1",
        "find . -mindepth 1 -delete",
        "find . -mindepth 1 -delete && touch run.json.new",
        "mv run.json run.json.new && find . -mindepth 1 ! -name run.json.new ! -name config.ini -delete",
        "mv run.json run.json.new && rm -rf attention checkpoint/best* loss.png report.html",
    };
    CONFIGURE(FOUR);
    sweep("straight", 2);
    for (size_t i = 0; i < COUNT_OF(left); i++) {
        char command[512];
        snprintf(command, sizeof command,
                 "rm -rf sweep && cp -a straight sweep && cd sweep/*none+seed=1 && "
                 "sed -i 's/\"finished\"/\"running\"/; /\"steps\"/d' run.json && %s",
                 left[i]);
        assert_true(shell(command));
        resumes("sweep");
        assert_same_sweep("straight", "sweep");
        assert_true(shell("! ls -d sweep/*.old"));
    }
}

/* [sweep] may grow, but it must still have every run that it had. */
static void a_run_cannot_be_dropped(void) {
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    char *text = contents(in("sweep/config.ini"), NULL), *seeds = strstr(text, "train.seed = 1, 2");
    assert_non_null(seeds);
    seeds[strlen("train.seed = 1, 2") - 1] = '3';
    put_text("sweep/config.ini", text);
    assert_refused("no longer has the run scale_divisor=none+seed=2", resume(NULL, "sweep"));
}

/* A default that depends on a swept key with a single value is that of the run, not of the base config. */
static void one_value(void) {
    CONFIGURE(TINY, "sweep.attention.scale_divisor=dk", "sweep.train.lr=1e-4");
    sweep("sweep", 1);
    resume(NULL, "sweep");
}

/* --- signals */

#define LONG                                                                                                           \
    "train.steps=600", "eval.every=300", "log.every=1", "log.attention_every=300", "log.sample_tokens=0",              \
        "log.checkpoint_every=10"
#define TWO LONG, "sweep.attention.scale_divisor=none, sqrt_dk"
static const char *const NAMES[] = {"scale_divisor=none", "scale_divisor=sqrt_dk"};

/* Starts a sweep as the program would, in a process group of its own. */
static pid_t start_sweep(const char *out, size_t jobs) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    const size_t mark = memory_mark();
    const SweepOptions options = {.threads = 1,
                                  .jobs = jobs,
                                  .out = in(out),
                                  .command_line = "./train sweep tiny.ini",
                                  .program = built(),
                                  .progress = progress_make(stderr, true)};
    setpgid(0, 0);
    interrupt_catch();
    int signal_number = 0;
    if (!works(signal_number = sweep_run(&config, &axes, &options, no_table))) exit((int)err.status);
    memory_release(mark);
    exit(signal_number ? 128 + signal_number : 0);
}

/* The first process that a sweep's process has started for a run. */
static pid_t child_of(pid_t sweep_process) {
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", sweep_process, sweep_process);
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    assert_int_equal(fscanf(children, "%d", &child), 1);
    fclose(children);
    return child;
}

/* Trains both runs of TWO by themselves, in alone0 and alone1, and configures the sweep. */
static void train_both_alone(void) {
    CONFIGURE(LONG, "attention.scale_divisor=none");
    train("alone0", 1);
    CONFIGURE(LONG);
    train("alone1", 1);
    CONFIGURE(TWO);
}
static void assert_both_as_alone(const char *sweep_name) {
    for (int i = 0; i < 2; i++) {
        char run[64], alone[32];
        snprintf(run, sizeof run, "%s/%s", sweep_name, NAMES[i]);
        snprintf(alone, sizeof alone, "alone%d", i);
        assert_that(same_parameters(alone, run), "%s is not as by itself", run);
    }
}

/* When the sweep's process is killed, its runs train on. Resume and the tables name them and leave them alone. */
static void a_killed_parent(void) {
    train_both_alone();
    const pid_t child = start_sweep("sweep", 2);
    for (int k = 0; k < 2; k++) wait_for_steps("sweep", NAMES[k], 15);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(status_of(child), 128 + SIGKILL);
    FILE *table = no_table;
    no_table = fopen(in("table"), "w");
    make_tables();
    fclose(no_table);
    no_table = table;
    assert_true(shell("[ $(grep -c ': not finished: another process trains it' table) = 2 ] && ! grep '^exec' table"));
    resume(NULL, "sweep");
    assert_true(shell("grep -q '\"result\": \"running\"' sweep/run.json"));
    assert_true(shell("until [ $(grep -l finished sweep/scale*/run.json | wc -l) = 2 ]; do sleep .05; done"));
    assert_true(shell("until [ $(ls sweep/scale*/report.html | wc -l) = 2 ]; do sleep .05; done; sleep .2"));
    resume(NULL, "sweep");
    assert_both_as_alone("sweep");
    assert_true(shell("! grep resumed sweep/scale*/run.json"));
}

/* A run whose process has started when another one locks its directory is left to that one, and is no failure. */
static void started_twice(void) {
    CONFIGURE(FOUR);
    sweep("straight", 2);
    assert_fails(STATUS_FAILED, FAILS, sweep_with(no_such_luck(), "sweep", 2, false));
    const char *run = in("sweep/scale_divisor=none+seed=2");
    const char *late = program_where(THE_ONE, "echo >>starts; until [ -e go ]; do sleep .01; done; cd \"$OLDPWD\"");
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const SweepOptions options = {
            .command_line = "./train resume", .program = late, .progress = progress_make(stderr, true)};
        _exit(works(sweep_resume(in("sweep"), &options, no_table)) ? 0 : (int)err.status);
    }
    assert_true(shell("until [ -e starts ]; do sleep .01; done"));
    assert_true(directory_make_new(run));
    const size_t mark = memory_mark();
    directory_lock(run);
    assert_true(shell("touch go"));
    assert_int_equal(status_of(child), 0);
    memory_release(mark);
    assert_result("sweep", "running");
    resumes("sweep");
    assert_same_sweep("straight", "sweep");
}

/* Results that the sweep itself cannot write are recorded as its failure, and written when it is resumed. */
static void results_that_cannot_be_written(void) {
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    assert_true(shell("mv sweep/summary.csv . && mkdir sweep/summary.csv"));
    assert_fails(STATUS_FAILED, "cannot write", resume(NULL, "sweep"));
    assert_result("sweep", "failed");
    assert_true(shell("grep -q '\"error\": \"cannot write .*summary.csv: ' sweep/run.json && rmdir sweep/summary.csv"));
    resumes("sweep");
    assert_true(shell("cmp summary.csv sweep/summary.csv && ! grep error sweep/run.json"));
}

/* A run that was killed when it had finished and its page was not written yet, or the page of an earlier stop was
   there, gets the page from its sweep. The pages of the others stay. */
static void pages_of_killed_runs(void) {
    CONFIGURE(FOUR);
    sweep("sweep", 2);
    const SweepOptions options = {
        .command_line = "./train sweep", .progress = progress_make(stderr, true), .pages = true};
    for (int i = 0; i < 2; i++) {
        const size_t mark = memory_mark();
        assert_true(shell("cd sweep && rm scale_divisor=none+seed=1/report.html && "
                          "echo old >scale_divisor=none+seed=2/report.html && "
                          "touch -d 2020-01-01 scale_divisor=none+seed=2/report.html && "
                          "touch -r scale_divisor=sqrt_dk+seed=1/report.html ../before"));
        if (i == 0) assert_int_equal(sweep_resume(in("sweep"), &options, no_table), 0);
        else sweep_tables(in("sweep"), &options, no_table);
        memory_release(mark);
        assert_true(shell("cd sweep && for seed in 1 2; do tail -n 1 scale_divisor=none+seed=$seed/report.html | "
                          "grep -q '</html>' || exit 1; done"));
        assert_true(shell("! [ sweep/scale_divisor=sqrt_dk+seed=1/report.html -nt before ]"));
    }
}

/* A process that a signal ends before it notes signals has been stopped, which is no failure, and stops the sweep. */
static void stopped_at_birth(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
    CONFIGURE(FOUR);
    sweep("straight", 2);
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        char name[16], action[32];
        const size_t mark = memory_mark();
        snprintf(name, sizeof name, "sweep%zu", i);
        snprintf(action, sizeof action, "kill -%d $$", signals[i]);
        const SweepOptions options = {.threads = 1,
                                      .out = in(name),
                                      .command_line = "./train sweep tiny.ini",
                                      .program = program_where(THE_ONE, action),
                                      .progress = progress_make(stderr, true)};
        assert_int_equal(sweep_run(&config, &axes, &options, no_table), signals[i]);
        memory_release(mark);
        assert_result(name, "interrupted");
        assert_non_null(strstr(timeless(name), "\nscale_divisor=none+seed=2,none,2,1,not finished,"));
        resumes(name);
        assert_same_sweep("straight", name);
    }
}

/* A signal to the whole group (Ctrl-C), to the parent alone, or to a run's process: all runs are saved, and resumed to
   the bits of runs by themselves. So they are when all are killed. On a busy machine one run may have ended before the
   other has made the steps that are waited for. */
static void signals_reach_all(void) {
    enum Target { GROUP, PARENT, RUN };
    static const struct {
        enum Target target;
        int signal;
    } cases[] = {{GROUP, SIGINT},   {GROUP, SIGTERM}, {PARENT, SIGINT}, {PARENT, SIGTERM}, {PARENT, SIGHUP},
                 {PARENT, SIGUSR1}, {RUN, SIGTERM},   {RUN, SIGXCPU},   {GROUP, SIGKILL}};
    train_both_alone();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char name[16];
        const int signal_number = cases[i].signal;
        snprintf(name, sizeof name, "sweep%zu", i);
        const pid_t child = start_sweep(name, 2);
        wait_for_steps(name, NAMES[0], 15);
        wait_for_steps(name, NAMES[1], 15);
        const pid_t whom = cases[i].target == GROUP ? -child : cases[i].target == RUN ? child_of(child) : child;
        assert_int_equal(kill(whom, signal_number), 0);
        assert_int_equal(status_of(child), 128 + signal_number);
        int interrupted = 0;
        for (int k = 0; k < 2 && signal_number != SIGKILL; k++) {
            char run[64];
            snprintf(run, sizeof run, "%s/%s", name, NAMES[k]);
            const char *json = contents(inside(run, "run.json"), NULL);
            const bool is_interrupted = strstr(json, "\"result\": \"interrupted\"") != NULL;
            interrupted += is_interrupted;
            assert_that(is_interrupted || strstr(json, "\"result\": \"finished\"") != NULL, "case %zu: %s", i, json);
        }
        assert_true(interrupted > 0 || signal_number == SIGKILL);
        /* a killed process holds the lock of its run until it has ended */
        if (signal_number == SIGKILL)
            assert_true(shell("for run in sweep?/scale*; do flock -w 60 $run/owner true || exit 1; done"));
        resume(NULL, name);
        assert_both_as_alone(name);
    }
}

/* Ctrl-Z, which reaches the whole group: no run makes a step until SIGCONT, and then all end as by themselves. */
static void stopped_and_continued(void) {
    int how;
    size_t before[2], after[2];
    char logs[2][64];
    train_both_alone();
    const pid_t child = start_sweep("sweep", 2);
    for (int k = 0; k < 2; k++) {
        wait_for_steps("sweep", NAMES[k], 15);
        snprintf(logs[k], sizeof logs[k], "sweep/%s/metrics.csv", NAMES[k]);
    }
    assert_int_equal(kill(-child, SIGTSTP), 0);
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* the runs have stopped by now */
    for (int k = 0; k < 2; k++) contents(in(logs[k]), &before[k]);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    for (int k = 0; k < 2; k++) contents(in(logs[k]), &after[k]);
    assert_true(before[0] == after[0] && before[1] == after[1]);
    assert_int_equal(kill(-child, SIGCONT), 0);
    assert_int_equal(status_of(child), 0);
    assert_both_as_alone("sweep");
}

int main(void) {
    no_table = fopen("/dev/null", "w");
    /* Whoever started this program (nohup, a script's background job) may ignore them, and then all of it would. */
    for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], SIG_DFL);
    return RUN_TESTS(SWEEP_TEST(failures_are_the_runs_own), SWEEP_TEST(what_is_not_ours_stays),
                     SWEEP_TEST(changes_are_refused), SWEEP_TEST(made_again), SWEEP_TEST(damaged_runs),
                     SWEEP_TEST(resumed_in_vain), SWEEP_TEST(killed_anywhere), SWEEP_TEST(a_run_cannot_be_dropped),
                     SWEEP_TEST(one_value), SWEEP_TEST(a_killed_parent), SWEEP_TEST(started_twice),
                     SWEEP_TEST(full_at_birth), SWEEP_TEST(results_that_cannot_be_written),
                     SWEEP_TEST(pages_of_killed_runs), SWEEP_TEST(stopped_at_birth), SWEEP_TEST(signals_reach_all),
                     SWEEP_TEST(stopped_and_continued));
}
