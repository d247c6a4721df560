/* The commands of a prepared sweep, which others start: whatever becomes of them, the tables are those of a sweep. */
#include "sweeping.h"

#include <sys/resource.h>

#include "base/interrupt.h"

static SweepOptions options_of(const char *out) {
    return (SweepOptions){.threads = 1,
                          .jobs = 1,
                          .out = out,
                          .command_line = "./train sweep",
                          .progress = progress_make(stderr, true),
                          .program = built()};
}

/* Makes the directory of a sweep. In its commands the program is the built one, not this test. */
static void prepare(const char *name) {
    char command[2048];
    const size_t mark = memory_mark();
    const SweepOptions options = options_of(in(name));
    FILE *out = fopen(in("count"), "w");
    sweep_prepare(&config, &axes, &options, out);
    assert_int_equal(fclose(out), 0);
    snprintf(command, sizeof command, "sed -i 's,^exec [^ ]*,exec %s,' \"%s/commands.txt\"", built(), name);
    assert_true(shell(command));
    memory_release(mark);
}

/* Writes the tables of a sweep, and returns what is printed. */
static const char *tables(const char *name) {
    const size_t mark = memory_mark();
    const SweepOptions options = options_of(NULL);
    FILE *out = fopen(in("tables"), "w");
    const bool done = works(sweep_tables(in(name), &options, out));
    assert_int_equal(fclose(out), 0);
    memory_release(mark);
    char *text = contents(in("tables"), NULL);
    if (!done) put_text("failed", err.message);
    return text;
}

/* Lines that are run by a shell, at once, in any order, again after each was killed, and once more. With --foreground
   timeout waits for what it kills, which holds the lock of its run until then; without it kills itself too. */
static void as_a_sweep(void) {
    CONFIGURE(FOUR);
    sweep("straight", 2);
    prepare("it's");
    assert_string_equal(contents(in("count"), NULL), "4\n");
    const char *said = tables("it's");
    assert_non_null(strstr(said, "4 of 4 runs have not finished"));
    assert_true(
        shell("grep '^exec ' tables | cut -d ' ' -f 3- >lines; cut -d ' ' -f 3- \"it's/commands.txt\" | cmp - lines"));
    assert_true(shell("after=0; tac \"it's/commands.txt\" | while read -r line; do after=$((after + 1)); "
                      "timeout --foreground -s KILL .0$after sh -c \"$line\"; done; :"));
    for (int again = 0; again < 2; again++)
        assert_true(shell("cd / && xargs -d '\\n' -P 2 -I {} sh -c '{}' <\"$OLDPWD/it's/commands.txt\""));
    said = tables("it's");
    assert_null(strstr(said, "have not finished"));
    assert_null(strstr(said, "exec "));
    assert_same_sweep("straight", "it's");
    assert_true(shell("! find \"it's\" -name '*.old*' | grep ."));
}

/* Each run has one line. The runs of a setting, which differ in the seed, follow each other, and settings are mixed. */
static void order_of_lines(void) {
    static Sweep s; /* large */
    SweepRun *runs[RUNS_MAX];
    size_t seen[64] = {0}, moved = 0;
    CONFIGURE("sweep.train.seed=1, 2, 3, 4", "sweep.train.lr=1e-3, 2e-3, 4e-3",
              "sweep.attention.scale_divisor=none, dk");
    s = (Sweep){.config = config, .axes = axes};
    sweep_plan(&s);
    sweep_shuffle(&s, runs);
    for (size_t i = 0; i < s.run_count; i++) {
        seen[runs[i] - s.runs]++;
        moved += runs[i]->setting != i / 4;
        assert_true(runs[i]->setting == runs[i / 4 * 4]->setting);
    }
    for (size_t i = 0; i < s.run_count; i++) assert_int_equal(seen[i], 1);
    assert_true(moved > 8);
}

/* A run whose directory is a link to another is refused by its command and by the sweep, which write nothing there. */
static void linked_run(void) {
    CONFIGURE(FOUR);
    prepare("sweep");
    assert_true(shell("mkdir victim && ln -s ../victim sweep/scale_divisor=none+seed=1"));
    assert_true(
        shell("! grep none+seed=1 sweep/commands.txt | sh 2>said && grep -q 'none+seed=1 is a symbolic link' said"));
    const SweepOptions options = options_of(NULL);
    assert_fails(STATUS_FAILED, "none+seed=1 is a symbolic link", sweep_resume(in("sweep"), &options, stdout));
    assert_true(shell("rmdir victim")); /* empty */
}

/* A text that has changed since the sweep began is refused, and a run that was trained on it is in no table. */
static void another_text(void) {
    CONFIGURE(FOUR);
    prepare("sweep");
    const char *corpus = contents(in("corpus.txt"), NULL);
    put_text("corpus.txt", corpus + 7);
    const SweepOptions options = options_of(NULL);
    assert_refused("another text", sweep_resume(in("sweep"), &options, stdout));
    assert_true(shell("head -n 1 sweep/commands.txt | sh"));
    tables("sweep");
    assert_non_null(strstr(contents(in("failed"), NULL), "1 of 4 runs are damaged and left out; "));
    assert_non_null(strstr(contents(in("failed"), NULL), "it was trained on another text"));
}

/* A sweep that may open few files trains all of its runs or fails. */
static void few_files(void) {
    size_t failed = 0, succeeded = 0;
    CONFIGURE("train.steps=2", "eval.every=2", "log.sample_tokens=0", "sweep.train.seed=1, 2");
    for (rlim_t files = 5; files < 20; files++) {
        prepare("sweep");
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const SweepOptions options = options_of(NULL);
            FILE *nowhere = fopen("/dev/null", "w");
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){files, files});
            _exit(works(sweep_resume(in("sweep"), &options, nowhere)) ? 0 : (int)err.status);
        }
        const int status = status_of(child);
        const bool all = shell("[ $(grep -l finished sweep/seed*/run.json | wc -l) = 2 ]");
        assert_that((status == 0) <= all, "status %d with %d files", status, (int)files);
        failed += status != 0;
        succeeded += status == 0;
        assert_true(shell("rm -r sweep"));
    }
    assert_true(failed > 0 && succeeded > 0);
}

int main(void) {
    return RUN_TESTS(SWEEP_TEST(as_a_sweep), SWEEP_TEST(order_of_lines), SWEEP_TEST(linked_run),
                     SWEEP_TEST(another_text), SWEEP_TEST(few_files));
}
