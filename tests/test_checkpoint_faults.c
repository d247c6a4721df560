/* run/checkpoint: a saved checkpoint is never lost. It is saved again and again, each time by a process that dies
   before the n-th file call, or whose n-th file call fails. After that the last checkpoint, or the one before if the
   new one had not replaced it, loads bit for bit. Loading changes nothing, and the next save succeeds. Files are
   flushed in an order that makes this true also when the power fails. The functions below stand in for the
   library's. */
#include "training.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/checkpoint.h"
#include "train/optimizer.h"

static struct {
    long left;     /* calls before the one that dies or fails; negative: none does */
    bool dies;     /* or else it fails, with EIO */
    bool armed;    /* calls are counted */
    bool happened; /* it failed */
    char *trace;   /* NULL, or where each call is written down */
} plan = {.left = -1};

static Run run;

/* The name below the run's directory of a path, of a descriptor, or of a path below a descriptor. */
static const char *short_name(const char *path, int file) {
    static char name[4096];
    char link[64];
    if (file >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t size = readlink(link, name, sizeof name / 2);
        name[size > 0 ? size : 0] = 0;
        if (path && strcmp(path, ".") != 0) snprintf(strchr(name, 0), sizeof name / 2, "/%s", path);
        path = name;
    }
    const size_t length = strlen(run.directory);
    if (strncmp(path, run.directory, length) != 0) return path;
    return path[length] ? path + length + 1 : ".";
}
static bool refused(const char *call, const char *path, int file) {
    if (!plan.armed) return false;
    if (plan.trace) {
        plan.armed = false;
        sprintf(plan.trace + strlen(plan.trace), "%s %s\n", call, short_name(path, file));
        plan.armed = true;
    }
    if (plan.left < 0 || plan.left-- > 0) return false;
    if (plan.dies) _exit(99);
    errno = EIO;
    return plan.happened = true;
}

#define GRANTED(name)                                                                                                  \
    static __typeof__(name) *granted;                                                                                  \
    if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, #name);
#define STAND_IN(type, answer, name, parameters, arguments, path, file)                                                \
    type name parameters {                                                                                             \
        GRANTED(name)                                                                                                  \
        return refused(#name, path, file) ? answer : granted arguments;                                                \
    }
STAND_IN(int, -1, renameat, (int from, const char *name, int to, const char *new), (from, name, to, new), new, to)
STAND_IN(int, -1, unlinkat, (int above, const char *name, int flags), (above, name, flags), name, above)
STAND_IN(int, -1, stat, (const char *restrict path, struct stat *restrict info), (path, info), path, -1)
STAND_IN(int, -1, lstat, (const char *restrict path, struct stat *restrict info), (path, info), path, -1)
STAND_IN(int, -1, fstatat, (int above, const char *restrict name, struct stat *restrict info, int flags),
         (above, name, info, flags), name, above)
STAND_IN(FILE *, NULL, fopen, (const char *restrict path, const char *restrict mode), (path, mode), path, -1)
STAND_IN(FILE *, NULL, fdopen, (int file, const char *mode), (file, mode), NULL, file)
STAND_IN(ssize_t, -1, read, (int file, void *to, size_t size), (file, to, size), NULL, file)
STAND_IN(int, -1, ftruncate, (int file, off_t size), (file, size), NULL, file)
int fsync(int file) { return refused("fsync", NULL, file) ? -1 : 0; } /* the power stays on */
int fflush(FILE *file) {
    GRANTED(fflush)
    return file && refused("fflush", NULL, fileno(file)) ? EOF : granted(file);
}
int fclose(FILE *file) {
    GRANTED(fclose)
    bool fails = fileno(file) >= 0 && refused("fclose", NULL, fileno(file));
    int result = granted(file);
    if (fails) errno = EIO;
    return fails ? EOF : result;
}
int open(const char *path, int flags, ...) {
    return refused("open", path, -1) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
}
int openat(int above, const char *name, int flags, ...) {
    return refused("openat", name, above) ? -1 : (int)syscall(SYS_openat, above, name, flags, 0666);
}

static Model model;
static Optimizer optimizer;

static int enter(void **state) {
    if (temporary_enter(state) != 0) return 1;
    CONFIGURE("model.d_model=8", "model.context=4");
    const ModelShape shape = model_shape(&config, 7);
    run.config = config;
    snprintf(run.directory, sizeof run.directory, "%s", in("run"));
    model_make(&model, &shape, 1, 1, false);
    optimizer_make(&optimizer, &config, &model.tensors, 1);
    return !directory_make_new(in("run/checkpoint"));
}

/* Everything a checkpoint holds, as a function of the step. */
static real number(size_t step, size_t group, size_t i) { return (real)(step * 1000 + group * 100 + i % 97); }
static RunState fill(size_t step) {
    for (size_t i = 0; i < model.tensors.flat; i++) {
        model.parameters[i] = number(step, 0, i);
        optimizer.m[i] = number(step, 1, i);
        optimizer.v[i] = number(step, 2, i);
    }
    return (RunState){.step = step, .seconds = 1, .log_size = {step, 2, 3}};
}
static void save(size_t step) {
    const size_t mark = memory_mark();
    const RunState s = fill(step);
    run.locked = directory_open(run.directory);
    plan.armed = true;
    checkpoint_save(&run, CHECKPOINT_LAST, &model, (Moments){optimizer.m, optimizer.v}, &s);
    plan.armed = false;
    memory_release(mark);
}
static bool is_saved(size_t step) {
    const bool done = works(save(step));
    plan.armed = false;
    return done;
}

/* The step of the checkpoint, all of which must be of it; 0: there is none. -1: there is one, and it is refused. */
static long load(void) {
    RunState s;
    fill(99);
    plan.armed = true;
    const bool done = works(s = checkpoint_load(&run, CHECKPOINT_LAST, &model, (Moments){optimizer.m, optimizer.v}));
    plan.armed = false;
    if (!done) assert_that(err.status != STATUS_OK && *err.message && !strchr(err.message, '\n'), "no error");
    if (!done) return path_exists(in("run/checkpoint/last.safetensors")) ? -1 : 0;
    assert_true(s.seconds == 1 && s.log_size[0] == s.step);
    for (size_t n = 0; n < model.tensors.count; n++) {
        const Tensor *t = &model.tensors.items[n];
        for (size_t i = t->offset; i < t->offset + t->count; i++)
            if (model.parameters[i] != number(s.step, 0, i) || optimizer.m[i] != number(s.step, 1, i) ||
                optimizer.v[i] != number(s.step, 2, i))
                fail_msg("step %zu: number %zu is of another checkpoint", s.step, i);
    }
    return (long)s.step;
}

/* Names, modes, sizes and times of everything in the run's directory. */
static char *listing(void) { return output_of("find run -printf '%p %m %i %s %T@\n' | sort"); }
/* Asserts that the directory is as listed, and frees the list. */
static void assert_unchanged(char *before) {
    char *now = listing();
    assert_string_equal(before, now);
    memory_free(now);
    memory_free(before);
}

/* Asserts that there are only the files of an undisturbed save: no new name. */
static void assert_clean(void) { assert_true(shell("test \"$(ls run/checkpoint)\" = last.safetensors")); }

/* Saves `step`; call n dies or fails. Returns 99 if it died, 0 or 1 if the save was done or refused. *reached: there
   was a call n. */
static int trouble(size_t step, long n, bool dies, bool *reached) {
    int ended = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        plan.left = n, plan.dies = dies;
        const bool done = is_saved(step);
        if (!done && (err.status == STATUS_OK || !*err.message)) _exit(77);
        _exit((done ? 0 : 1) + (plan.happened ? 2 : 0));
    }
    assert_true(child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended));
    int status = WEXITSTATUS(ended);
    assert_int_not_equal(status, 77);
    *reached = status == 99 || status >= 2;
    return status == 99 ? 99 : status & 1;
}

/* Checks the files after a save of `step` that ended with `status`, from a checkpoint of `before`. Returns the step of
   the checkpoint that is there now. */
static size_t check_after(size_t before, size_t step, int status, const char *what, long n) {
    char *before_loading = listing();
    long loaded = load();
    assert_that(loaded >= 0, "%s %ld: %s", what, n, err.message);
    assert_that(loaded == (long)step || (loaded == (long)before && status != 0), "%s %ld, status %d: step %ld", what, n,
                status, loaded);
    assert_unchanged(before_loading);
    return (size_t)loaded;
}

/* Where a run can be: before its first checkpoint, or after one. */
enum { BEGINNINGS = 2 };
static void begin(size_t saves) {
    assert_true(shell("rm -rf run && mkdir -p run/checkpoint"));
    for (size_t step = 1; step <= saves; step++) save(step);
}

/* A save dies or fails at each call, from each beginning, and then the next one succeeds. */
static void saves_in_trouble(void) {
    size_t taken[2] = {0};
    for (size_t saves = 0; saves < BEGINNINGS; saves++) {
        bool reached = true;
        for (int kind = 0; kind < 2; kind++, reached = true) {
            for (long n = 0; reached; n++) {
                begin(saves);
                const int status = trouble(saves + 1, n, kind == 0, &reached);
                taken[check_after(saves, saves + 1, status, kind ? "failing" : "dying", n) == saves + 1]++;
                save(saves + 2);
                check_after(saves + 2, saves + 2, 0, "at last", n);
                assert_clean();
            }
        }
    }
    assert_true(taken[0] > 15 && taken[1] > 8);
}

/* The order in which files are flushed, so that a checkpoint survives when the power fails: the logs before the
   checkpoint that names their sizes, its numbers before its name, its name before the next row of a log. The first
   checkpoint comes before run.json, and run.json before any row. */
static void order_on_disk(void) {
    static const char save[] = "fsync metrics.csv\n"
                               "fsync attention.csv\n"
                               "fsync samples.txt\n"
                               "fsync .\n"
                               "stat .\n"
                               "fstatat owner\n"
                               "openat checkpoint\n"
                               "fstatat checkpoint/last.safetensors\n"
                               "unlinkat checkpoint/last.safetensors.new\n"
                               "openat checkpoint/last.safetensors.new\n"
                               "fdopen checkpoint/last.safetensors.new\n"
                               "fflush checkpoint/last.safetensors.new\n"
                               "fsync checkpoint/last.safetensors.new\n"
                               "stat .\n"
                               "fstatat owner\n"
                               "fstatat checkpoint/last.safetensors.new\n"
                               "renameat checkpoint/last.safetensors\n"
                               "fsync checkpoint\n"
                               "fstatat checkpoint/last.safetensors.new\n"
                               "fclose checkpoint/last.safetensors\n";
    char *trace = memory_make(1, 1 << 16, "a trace");
    size_t saves = 0, named = 0;
    CONFIGURE("train.steps=3", "log.checkpoint_every=1", "eval.every=1");
    assert_true(shell("rm -r run"));
    plan.trace = trace, plan.armed = true;
    train("run", 1);
    plan.trace = NULL, plan.armed = false;
    for (const char *at = trace; (at = strstr(at, save)) != NULL; at++) saves++;
    for (const char *at = trace; (at = strstr(at, "renameat checkpoint/last.safetensors\n")) != NULL; at++) named++;
    assert_that(saves == 4 && named == 4, "%zu saves of %zu in order:\n%s", saves, named, trace);
    const char *first = strstr(trace, save), *row = strstr(trace, "fflush metrics.csv\n");
    assert_true(row < first && strstr(row + 1, "fflush metrics.csv\n") > first); /* row: of the header */
    const char *begun = strstr(trace, "renameat run.json\n");
    assert_true(begun > first && strstr(row + 1, "fflush metrics.csv\n") > begun);
    assert_true(strstr(trace, "attention/step") > begun && strstr(trace, "best.safetensors") > begun);
}

/* A run is made longer: config.ini and run.json say so before its logs are cut. */
static void intention_first(void) {
    char *trace = memory_make(1, 1 << 16, "a trace");
    const TrainOptions options = {.threads = 1, .command_line = "", .progress = progress_make(stderr, true)};
    CONFIGURE("train.steps=3");
    assert_true(shell("rm -r run"));
    train("run", 1);
    plan.trace = trace, plan.armed = true;
    const char *const longer = "train.steps=5";
    run_loop(trainer_resume(in("run"), &longer, 1, &options));
    plan.trace = NULL, plan.armed = false;
    const char *config_ini = strstr(trace, "renameat config.ini"), *run_json = strstr(trace, "renameat run.json"),
               *cut = strstr(trace, "ftruncate metrics.csv");
    assert_true(config_ini && run_json && cut && config_ini < run_json && run_json < cut);
}

/* A file that cannot be read counts as present, and is neither changed nor removed. */
static void not_understood(void) {
    static const struct {
        const char *command, *word;
        long step; /* that is loaded; -1: refused */
    } cases[] = {
        {"rm last.safetensors && mkdir last.safetensors", "last.safetensors", -1},
        {"ln -sf nowhere last.safetensors", "last.safetensors", -1},
        {": >last.safetensors", "cut short", -1},
        {"head -c 500 last.safetensors >x && mv x last.safetensors", "last.safetensors", -1},
        {"head -c 5000 last.safetensors >x && mv x last.safetensors", "last.safetensors", -1},
        {"echo >>last.safetensors", "last.safetensors", -1},
        {"rm last.safetensors && mkfifo last.safetensors", "last.safetensors", -1},
        {"head -c 500 last.safetensors >last.safetensors.new", "", 1},
        {"mv last.safetensors last.safetensors.new", "", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char command[512];
        begin(1);
        snprintf(command, sizeof command, "cd run/checkpoint && %s", cases[i].command);
        assert_true(shell(command));
        char *before = listing();
        long loaded = load();
        assert_that(loaded == cases[i].step, "%s: step %ld", cases[i].command, loaded);
        if (loaded < 0)
            assert_that(strstr(err.message, cases[i].word) != NULL, "%s: %s", cases[i].command, err.message);
        assert_unchanged(before);
        if (loaded < 0) continue;
        save(2);
        assert_int_equal(load(), 2);
        assert_clean();
    }
    assert_true(shell("rm -rf run/checkpoint"));
    assert_int_equal(load(), 0);
    assert_false(is_saved(1));
    assert_true(shell("echo >run/checkpoint"));
    assert_int_equal(load(), 0);
    assert_false(is_saved(1));
}

int main(void) {
#define FAULTS_TEST(function) TEST_WITH(function, enter, temporary_leave)
    return RUN_TESTS(FAULTS_TEST(saves_in_trouble), FAULTS_TEST(order_on_disk), FAULTS_TEST(intention_first),
                     FAULTS_TEST(not_understood));
}
