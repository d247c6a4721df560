/* A run that was killed or stopped anywhere and is resumed ends with the same bits as one that never stopped:
   parameters, moments, logs (all columns but seconds) and pictures. What cannot be resumed is tested in
   test_resume_refused.c. The program starts itself as a child that trains, and that dies or gets a signal at the n-th
   call of a kind: the functions below stand in for the library's. */
#include "training.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "gemm/matmul.h"
#include "run/checkpoint.h"

static long dies_at = -1, stops_at = -1; /* calls left until then */

/* Each call by which something reaches the disk, or takes its place there, is one to die at. */
static void count_write(void) {
    if (dies_at >= 0 && dies_at-- == 0) _exit(99);
}
int fsync(int file) {
    count_write();
    return fdatasync(file);
}
#define STAND_IN(name, parameters, arguments)                                                                          \
    int name parameters {                                                                                              \
        static int(*granted) parameters;                                                                               \
        count_write();                                                                                                 \
        if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, #name);                                                    \
        return granted arguments;                                                                                      \
    }
STAND_IN(ftruncate, (int file, off_t size), (file, size))
STAND_IN(renameat, (int from, const char *name, int to, const char *new), (from, name, to, new))
STAND_IN(mkdir, (const char *path, mode_t mode), (path, mode))
STAND_IN(mkdirat, (int above, const char *name, mode_t mode), (above, name, mode))
STAND_IN(unlinkat, (int above, const char *name, int flags), (above, name, flags))
/* Products are everywhere: in training, evaluation, attention statistics and samples. The linker gives the function
   that makes them to this one (the Makefile's --wrap, which also chooses the names). */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
__typeof__(matmul_product) __real_matmul_product, __wrap_matmul_product;
void __wrap_matmul_product(const Product *product, real *c) {
    if (__atomic_load_n(&stops_at, __ATOMIC_RELAXED) >= 0 && __atomic_fetch_sub(&stops_at, 1, __ATOMIC_RELAXED) == 0)
        raise(SIGTERM);
    __real_matmul_product(product, c);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static TrainOptions child_options(char **arguments) {
    return (TrainOptions){
        .threads = (size_t)atol(arguments[3]), .command_line = "child", .progress = progress_make(stderr, true)};
}
static void child_trains(char **arguments) {
    TrainOptions options = child_options(arguments);
    options.out = arguments[2];
    config_load(&config, NULL, arguments[1], NULL, 0);
    outcome = *run_loop(trainer_start(&config, &options));
}
static void child_resumes(char **arguments) {
    const TrainOptions options = child_options(arguments);
    const char *set = arguments[2];
    outcome = *run_loop(trainer_resume(arguments[1], &set, *set != '-', &options));
}

/* child train|resume CONFIG|DIR OUT|train.steps=N THREADS DIES STOPS -> 0 done, 99 died, 143 stopped, 1..3
   failed, 100 nothing to do */
static int child_main(char **arguments) {
    interrupt_catch();
    dies_at = atol(arguments[4]), stops_at = atol(arguments[5]);
    const bool done = works(strcmp(arguments[0], "resume") == 0 ? child_resumes(arguments) : child_trains(arguments));
    if (!done) printf("%s\n", err.message);
    memory_release(0);
    return !done ? (int)err.status : outcome.had_finished ? 100 : outcome.signal ? 128 + outcome.signal : 0;
}

static char said[1200]; /* output of the last child */
static int child(const char *verb, const char *what, const char *where, size_t threads, long dies, long stops) {
    char command[4096];
    snprintf(command, sizeof command, "/proc/%d/exe child %s %s %s %zu %ld %ld 2>&1", (int)getpid(), verb, what, where,
             threads, dies, stops);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    said[fread(said, 1, sizeof said - 1, stream)] = 0;
    int status = pclose(stream);
    assert_that(WIFEXITED(status), "%s ended by signal %d: %s", command, WTERMSIG(status), said);
    return WEXITSTATUS(status);
}
static int run(const char *name, size_t threads, long dies, long stops) {
    return child("train", in("child.ini"), in(name), threads, dies, stops);
}
static int resume(const char *name, long dies, long stops) { return child("resume", in(name), "-", 0, dies, stops); }

/* Sets the config that children train with: the tiny config with some keys set. */
#define CHILDREN_TRAIN(...)                                                                                            \
    children_train((const char *const[]){"log.checkpoint_every=3", "eval.every=4", "log.every=2",                      \
                                         "log.attention_every=5", "train.steps=8", "train.warmup=2", __VA_ARGS__,      \
                                         NULL})
static void children_train(const char *const *overrides) {
    configure(overrides);
    save_config("child.ini");
}

static void remove_run(const char *name) { assert_true(!path_exists(in(name)) || directory_remove(in(name))); }

/* A run that died as soon as it had begun. */
static void run_to_first_checkpoint(const char *name) {
    char description[64];
    snprintf(description, sizeof description, "%s/run.json", name);
    for (long n = 40;; n++) {
        remove_run(name);
        int status = run(name, 1, n, -1);
        assert_that(status == 99, "dying at write %ld: status %d: %s", n, status, said);
        if (path_exists(in(description))) return;
    }
}

/* Asserts that a run that has finished does not differ from the whole one. */
static void assert_finished_alike(void) {
    assert_same_run("whole", "run");
    assert_true(shell("grep -q '\"finished\"' run/run.json"));
}

#ifdef SANITIZED
enum { STRIDE = 11 }; /* everything is slower */
#else
enum { STRIDE = 2 };
#endif

/* The run dies before each write in turn, first while training and then while resuming. Where it had not begun,
   training takes its directory. */
static void dies_anywhere(void) {
    CHILDREN_TRAIN("model.dropout=0.1");
    assert_int_equal(run("whole", 1, -1, -1), 0);
    long resumed = 0, beginnings = 0;
    for (long n = 0;; n += STRIDE) {
        remove_run("run");
        int status = run("run", 1, n, -1);
        if (status == 0) break;
        assert_that(status == 99, "dying at write %ld: status %d: %s", n, status, said);
        status = resume("run", n % (3 * STRIDE) ? -1 : n / 2, -1); /* every third dies again */
        if (status == 99) status = resume("run", -1, -1);
        const bool begun = path_exists(in("run/run.json"));
        assert_true(begun || status == STATUS_USAGE);
        if (!begun) status = run("run", 1, -1, -1);
        beginnings += !begun;
        if (status == 100) status = 0; /* it died after it had written that it has finished */
        assert_that(status == 0, "resuming what died at write %ld: status %d: %s", n, status, said);
        assert_finished_alike();
        resumed++;
    }
    assert_that(resumed > 50 / STRIDE && beginnings > 20 / STRIDE, "only %ld deaths, %ld of them early", resumed,
                beginnings);
}

/* The run is stopped by a signal at steps, evaluations, measurements and samples, again and again until it is done. */
static void stops_anywhere(void) {
    static const char *const variants[][3] = {
        {"model.dropout=0.2", "train.accumulate=2", "train.batch=3"},
        {"train.optimizer=sgd", "model.norm=post", "model.tie_embeddings=no"},
        {"model.bias=no", "model.activation=relu", "attention.scale_divisor=none"},
        {"attention.score=additive", "attention.scale_learned=head", "attention.sink=learned"},
        {"attention.qk_norm=rms", "attention.scale_length=log", "attention.score_precision=bf16"},
        {"train.qk_clip=0.5", "train.accumulate=2", "attention.scale_divisor=none"},
        {"train.optimizer=muon", "train.batch=3", "attention.score=additive"},
    };
    for (size_t v = 0; v < COUNT_OF(variants); v++) {
        const size_t threads = v == 0 ? 2 : 1;
        remove_run("whole"), remove_run("run");
        CHILDREN_TRAIN(variants[v][0], variants[v][1], variants[v][2]);
        assert_int_equal(run("whole", threads, -1, -1), 0);
        int stops = 0, status = run("run", threads, -1, 100);
        for (long calls = 100; status != 0; calls = 100 + calls * 7 % 1013, stops++) {
            assert_that(status == 143, "stop %d: status %d: %s", stops, status, said);
            status = resume("run", -1, calls);
        }
        assert_that(stops > 2, "%d stops", stops);
        assert_finished_alike();
    }
}

/* A run that was made longer has the best parameters of the longer run, also where the last evaluation of the shorter
   one, which the longer one does not make, found better ones; and wherever either of them dies. */
static void best_of_the_longer_run(void) {
    static const char *const same_bests = "for run in whole run; do grep best_ $run/run.json >$run.bests; done; "
                                          "cmp whole.bests run.bests";
    long deaths[2] = {0};
    CHILDREN_TRAIN("train.lr=0.3", "train.min_lr=0.3", "train.seed=48");
    assert_int_equal(run("whole", 1, -1, -1), 0);
    assert_true(shell("grep -q '\"best_step\": 0' whole/run.json"));
    CHILDREN_TRAIN("train.lr=0.3", "train.min_lr=0.3", "train.seed=48", "train.steps=1");
    assert_int_equal(run("short", 1, -1, -1), 0);
    assert_true(shell("grep -q '\"best_step\": 1' short/run.json"));
    for (int which = 0; which < 2; which++) {
        for (long n = 0;; n += STRIDE) {
            int status = 0;
            remove_run("run");
            if (which == 0) status = run("run", 1, n, -1);
            else assert_true(shell("cp -a short run"));
            if (which == 1) status = child("resume", in("run"), "train.steps=8", 0, n, -1);
            const bool died = status == 99, begun = path_exists(in("run/run.json"));
            assert_true(died || status == 0);
            if (begun) status = child("resume", in("run"), "train.steps=8", 0, -1, -1);
            assert_that(!begun || status == 0 || status == 100, "status %d: %s", status, said);
            /* files that the longer run does not write, or a part of one, stay */
            assert_true(!begun || shell("find run -name '*.new' -delete && rm -f run/attention/step000001*"));
            if (begun) assert_finished_alike();
            assert_true(!begun || shell(same_bests));
            if (!died) break;
            deaths[which] += begun;
        }
    }
    assert_that(deaths[0] > 10 / STRIDE && deaths[1] > 20 / STRIDE, "%ld and %ld deaths", deaths[0], deaths[1]);
}

/* Keys that may change between start and resume: nothing that the run computes or writes depends on them. */
static void keys_that_may_change(void) {
    size_t size;
    char text[2048];
    CHILDREN_TRAIN("log.checkpoint_every=6");
    assert_int_equal(run("whole", 1, -1, -1), 0);
    run_to_first_checkpoint("run");
    const char *corpus = contents(in("corpus.txt"), &size), *whole = contents(in("run/config.ini"), NULL);
    put("moved.txt", corpus, size);
    remove(in("corpus.txt"));
    set_text("run/config.ini", "corpus.txt", "moved.txt");
    snprintf(text, sizeof text, "out = %s", in("run"));
    set_text("run/config.ini", text, "out = elsewhere");
    set_text("run/config.ini", "checkpoint_every = 6", "checkpoint_every = 1");
    assert_int_equal(child("resume", in("run"), "-", 0, -1, -1), 0);
    put_text("run/config.ini", whole);
    assert_finished_alike();
}

static bool described(const char *text) { return strstr(contents(in("run/run.json"), NULL), text) != NULL; }

/* While a resumed run is "running", run.json does not say how it ended before. */
static void no_former_end(void) {
    static const char *const ends[] = {"\"steps\"",   "\"train_loss\"", "val_loss\"", "best_step",
                                       "\"seconds\"", "\"end\"",        "\"error\""};
    CHILDREN_TRAIN("log.checkpoint_every=2", "train.steps=2");
    assert_int_equal(run("run", 1, -1, -1), 0);
    assert_true(described("\"finished\"") && described(ends[0]));
    long n = 0;
    while (child("resume", in("run"), "train.steps=8", 0, n++, -1) == 99 && !described("\"running\"")) continue;
    assert_true(described("\"running\"") && described("\"resumed\""));
    for (size_t i = 0; i < COUNT_OF(ends); i++) assert_that(!described(ends[i]), "%s in run.json", ends[i]);
    assert_int_equal(resume("run", -1, -1), 0);
    for (size_t i = 0; i + 1 < COUNT_OF(ends); i++) assert_that(described(ends[i]), "no %s in run.json", ends[i]);
}

static void one_process_at_a_time(void) {
    CHILDREN_TRAIN("log.checkpoint_every=6");
    run_to_first_checkpoint("run");
    const size_t mark = memory_mark();
    directory_lock(in("run"));
    assert_int_equal(resume("run", -1, -1), STATUS_USAGE);
    assert_non_null(strstr(said, "in use"));
    memory_release(mark);
    assert_int_equal(resume("run", -1, -1), 0);
}

int main(int argc, char **argv) {
    if (argc == 8 && strcmp(argv[1], "child") == 0) return child_main(argv + 2);
    return RUN_TESTS(TRAINING_TEST(dies_anywhere), TRAINING_TEST(stops_anywhere), TRAINING_TEST(keys_that_may_change),
                     TRAINING_TEST(one_process_at_a_time), TRAINING_TEST(no_former_end),
                     TRAINING_TEST(best_of_the_longer_run));
}
