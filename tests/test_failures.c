/* What happens when the system refuses something: memory, or a file call. Each thing the program does is done again and
   again, every time by a process of its own: first its first request is refused, then its second, until it makes no
   more. Each time but the last it must say so in an Error, and all memory must be given back. The functions below stand
   in for the library's; they refuse what src/ asks for, not what libraries ask for themselves, for libgomp ends the
   program when it gets no memory, and so does stb_truetype: nothing is drawn while memory is refused here. */
#include "training.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/results.h"
#include "ops/matmul.h"
#include "train/checkpoint.h"
#include "train/run.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHER_ALLOCATOR
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OTHER_ALLOCATOR
#endif
#ifdef OTHER_ALLOCATOR
int main(void) {
    puts("not with this allocator");
    return 0;
}
#else

typedef enum { NOTHING, MEMORY, FILES } Kind;
static struct {
    Kind kind;           /* kind of the request to be refused */
    long left;           /* how many requests are granted before it */
    bool refused;        /* the request was refused */
    bool harmless;       /* nothing was lost by the refusal */
    const char *library; /* the library whose requests are refused too */
    long live;           /* blocks of memory in use */
} plan;

static bool is_in(const char *library, const void *caller) {
    Dl_info found;
    return library && dladdr(caller, &found) != 0 && strstr(found.dli_fname, library);
}
static bool refuse(Kind kind, const void *caller) {
    extern const char __executable_start[], etext[];
    bool ours = (const char *)caller >= __executable_start && (const char *)caller < etext;
    if (plan.kind != kind || !(ours || is_in(plan.library, caller)) || plan.refused || plan.left-- > 0) return false;
    errno = kind == MEMORY ? ENOMEM : EIO;
    return plan.refused = true;
}
#define REFUSED(kind) refuse(kind, __builtin_return_address(0))
static void *counted(void *block) {
    if (block) plan.live++;
    return block;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);
void *malloc(size_t size) { return REFUSED(MEMORY) ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return REFUSED(MEMORY) ? NULL : counted(__libc_calloc(count, size)); }
void *realloc(void *block, size_t size) {
    if (REFUSED(MEMORY)) return NULL;
    if (block && size == 0) plan.live--;
    return block ? __libc_realloc(block, size) : counted(__libc_realloc(NULL, size));
}
void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); } /* libgomp's */
void free(void *block) {
    if (block) plan.live--;
    __libc_free(block);
}
void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if (REFUSED(MEMORY)) return MAP_FAILED;
    void *block = (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
    return block == MAP_FAILED ? block : counted(block);
}
int munmap(void *block, size_t size) {
    plan.live--;
    return (int)syscall(SYS_munmap, block, size);
}

/* Defines name(parameters), which returns `answer` when it is refused. */
#define STAND_IN(type, kind, answer, name, parameters, arguments)                                                      \
    type name parameters {                                                                                             \
        static type(*granted) parameters;                                                                              \
        if (REFUSED(kind)) return answer;                                                                              \
        if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, #name);                                                    \
        return granted arguments;                                                                                      \
    }
STAND_IN(FILE *, MEMORY, NULL, open_memstream, (char **text, size_t *size), (text, size))
STAND_IN(char *, MEMORY, NULL, strdup, (const char *text), (text))
STAND_IN(FILE *, FILES, NULL, fopen, (const char *path, const char *mode), (path, mode))
STAND_IN(FILE *, FILES, NULL, fdopen, (int file, const char *mode), (file, mode))
STAND_IN(int, FILES, -1, rename, (const char *from, const char *to), (from, to))
STAND_IN(int, FILES, -1, ftruncate, (int file, off_t size), (file, size))
STAND_IN(int, FILES, -1, fseeko, (FILE * file, off_t at, int from), (file, at, from))
STAND_IN(int, FILES, -1, mkdir, (const char *path, mode_t mode), (path, mode))
STAND_IN(int, FILES, -1, stat, (const char *restrict path, struct stat *restrict info), (path, info))
STAND_IN(int, FILES, -1, unlink, (const char *path), (path))
STAND_IN(DIR *, FILES, NULL, opendir, (const char *path), (path))
STAND_IN(struct dirent *, FILES, NULL, readdir, (DIR * stream), (stream))
/* A path whose lstat fails counts as there: config.ini or run.json is then opened, and read all the same. */
int lstat(const char *restrict path, struct stat *restrict info) {
    static int (*granted)(const char *restrict, struct stat *restrict);
    bool refused = REFUSED(FILES);
    if (refused) plan.harmless = strstr(path, "/config.ini") || strstr(path, "/run.json");
    if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, "lstat");
    return refused ? -1 : granted(path, info);
}
size_t fread(void *to, size_t size, size_t count, FILE *file) {
    static size_t (*granted)(void *, size_t, size_t, FILE *);
    bool refused = count > 0 && REFUSED(FILES);
    if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, "fread");
    return refused ? 0 : granted(to, size, count, file);
}
int fflush(FILE *file) {
    static int (*granted)(FILE *);
    bool refused = file && file != stderr && REFUSED(FILES);
    if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, "fflush");
    return refused ? EOF : granted(file);
}
/* fclose closes the file, but does not write what is in its buffer. */
int fclose(FILE *file) {
    static int (*granted)(FILE *);
    bool empty = !__fwriting(file) || __fpending(file) == 0, refused = REFUSED(FILES);
    if (refused) plan.harmless = empty;
    if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, "fclose");
    int result = granted(file);
    if (refused) errno = EIO;
    return refused ? EOF : result;
}
int fsync(int file) {
    struct stat info;
    bool refused = REFUSED(FILES);
    if (refused) plan.harmless = fstat(file, &info) == 0 && S_ISDIR(info.st_mode);
    if (refused) errno = EIO;
    return refused ? -1 : 0; /* the power stays on */
}
int open(const char *path, int flags, ...) {
    bool refused = access(path, F_OK) == 0 && REFUSED(FILES);
    if (refused) plan.harmless = flags & O_DIRECTORY;
    return refused ? -1 : openat(AT_FDCWD, path, flags);
}

typedef bool Operation(Error *err); /* frees all it takes */

enum { SAID = 40, DONE, UNNOTICED, LOST, UNSAID }; /* exit statuses */
static int attempt(Operation *operation, Kind kind, const char *library, long granted) {
    Error err = {0};
#pragma omp parallel num_threads(1)
    errno = 0; /* libomp takes memory again after a fork */
    const long before = plan.live;
    plan.kind = kind, plan.left = granted, plan.library = library;
    bool done = operation(&err);
    plan.kind = NOTHING;
    if (plan.live != before) return LOST;
    if (!plan.refused) return done ? DONE : UNSAID;
    if (done) return plan.harmless ? SAID : UNNOTICED;
    return err.status != STATUS_OK && *err.message && !strchr(err.message, '\n') ? SAID : UNSAID;
}

static void clear_away(void) {
    Error err;
    if (path_exists(in("fresh"))) assert_true(directory_remove(in("fresh"), &err));
}
/* Refuses request number `first`, then in another process the one `stride` later, and so on. */
static void refuse_some(Operation *operation, Kind kind, const char *library, const char *what, long least, long first,
                        long stride) {
    Error err = {0};
    clear_away();
    assert_that(operation(&err), "%s: %s", what, err.message); /* what libraries take once they keep */
    for (long granted = first, status = 0; status != DONE; granted += stride) {
        int ended = 0;
        clear_away();
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) exit(attempt(operation, kind, library, granted));
        assert_true(child > 0 && waitpid(child, &ended, 0) == child);
        assert_that(WIFEXITED(ended), "%s: signal %d, request %ld refused", what, WTERMSIG(ended), granted);
        status = WEXITSTATUS(ended);
        assert_that(status != LOST, "%s: memory is lost, request %ld refused", what, granted);
        assert_that(status != UNNOTICED, "%s: continues as if nothing were, request %ld refused", what, granted);
        assert_that(status == SAID || status == DONE, "%s: no error, request %ld refused", what, granted);
        if (status == DONE) assert_that(granted >= least, "%s: makes %ld requests only", what, granted);
    }
}

static void refuse_each(Operation *operation, Kind kind, const char *library, const char *what, long least) {
    refuse_some(operation, kind, library, what, least, 0, 1);
}

static TrainOptions options_for(const char *out) {
    static Progress progress;
    progress = progress_make(stderr, true);
    return (TrainOptions){.threads = 1, .out = out, .command_line = "", .progress = &progress};
}

static bool train_anew(Error *err) {
    const TrainOptions options = options_for(in("fresh"));
    bool done = train_run(&config, &options, &outcome, err);
    return done;
}

/* Resumes one run again and again, a step further each time; nothing that failed before may keep it from that. */
static bool resume_further(Error *err) {
    const TrainOptions options = options_for(NULL);
    char steps[64];
    const char *const override = steps;
    snprintf(steps, sizeof steps, "train.steps=%ld", 2 + (plan.kind ? plan.left + 1 : 0));
    bool done = train_resume(in("run"), &override, 1, &options, &outcome, err);
    return done && !outcome.had_finished;
}

static FILE *nowhere;
static bool check(Error *err) {
    const TrainOptions options = options_for(in("fresh"));
    size_t bytes;
    return train_check(&config, &options, nowhere, &bytes, err);
}

static bool use(Error *err) {
    static Run run;
    Model model = {0};
    Evaluation evaluation;
    bool done = run_open(&run, in("run"), NULL, 0, false, err) && run_load_model(&run, &model, 0, 1, err) &&
                run_load_corpus(&run, err) && run_evaluate(&run, &model, &evaluation, err);
    model_free(&model);
    run_close(&run);
    return done;
}

/* A text that gets no memory is tried again, as one that is not UTF-8 would be: if that works, nothing is missing. */
static bool describe(Error *err) {
    Json *run = run_description("./train", 1), *again = NULL;
    js_append(js_list(run, "resumed"), js_text("\xff"));
    bool done = run_description_save(run, temporary, err) && run_description_load(&again, temporary, err);
    if (!done && plan.refused) { /* what failed was that document's: the next one is whole */
        Json *next = js_object();
        char *text = NULL;
        Error unexpected;
        if (!js_dump(next, false, &text, &unexpected)) abort();
        free(text);
        js_free(next);
    }
    plan.harmless |= done && js_object_size(again) == 7 && strcmp(js_as_text(js_get(again, "command")), "./train") == 0;
    js_free(run);
    js_free(again);
    return done;
}

static bool configure_again(Error *err) {
    static Config loaded;
    const char *const override = "model.layers=1";
    return config_load(&loaded, in("tiny.ini"), &override, 1, err);
}

static void training(void **state) {
    (void)state;
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    refuse_each(train_anew, FILES, NULL, "training", 100);
    refuse_each(check, MEMORY, NULL, "checking", 12);
    refuse_each(check, FILES, NULL, "checking", 5);
    refuse_each(configure_again, MEMORY, NULL, "a config", 2);
    refuse_each(configure_again, FILES, NULL, "a config", 3);
}

static void finished_run(void **state) {
    (void)state;
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    train("run", 1);
    refuse_each(use, MEMORY, NULL, "using", 10);
    refuse_each(use, FILES, NULL, "using", 12);
    refuse_each(resume_further, FILES, NULL, "resuming", 100);
}

/* Whatever is refused to a resume, or to the saves in it, the next one continues from the last checkpoint: it
   never starts again, and ends with the same parameters. */
static bool resume_torn(Error *err) {
    const Kind kind = plan.kind;
    const TrainOptions options = options_for(NULL);
    const char *const override = "train.steps=3";
    plan.kind = NOTHING;
    if (!shell("rm -rf trial && cp -a torn trial")) abort();
    plan.kind = kind;
    bool done = train_resume(in("trial"), &override, 1, &options, &outcome, err);
    plan.kind = NOTHING;
    if (!done) {
        Error second;
        if (!train_resume(in("trial"), &override, 1, &options, &outcome, &second)) abort();
    }
    if (shell("grep -q '\"step\": 0' trial/run.json")) abort(); /* an entry of `resumed` */
    if (!same_parameters("whole", "trial")) abort();
    support_release(NULL);
    return done;
}

/* The states in which a kill leaves a checkpoint, each with file calls of a resume refused. */
static void torn_checkpoint(void **state) {
    (void)state;
    static const char *const states[] = {
        "true", "head -c 99 last.safetensors >last.safetensors.new", /* killed while it was written */
        "cp last.safetensors last.safetensors.new",                  /* killed before it took its place */
    };
    CONFIGURE("train.steps=3", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    train("whole", 1);
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1",
              "log.checkpoint_every=1");
    train("first", 1);
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        char command[256];
        snprintf(command, sizeof command, "rm -rf torn && cp -a first torn && cd torn/checkpoint && %s", states[i]);
        assert_true(shell(command));
        refuse_some(resume_torn, FILES, NULL, states[i], 100, (long)i, 4);
    }
}

/* The run that --force moves is whole, in its place or in the other. */
static bool replace(Error *err) {
    const Kind kind = plan.kind;
    TrainOptions options = options_for(in("trial"));
    options.force = true;
    plan.kind = NOTHING;
    if (!shell("rm -rf trial trial.old && cp -a first trial")) abort();
    plan.kind = kind;
    bool done = train_run(&config, &options, &outcome, err);
    plan.kind = NOTHING;
    const bool there = shell("diff -r first trial"), moved = shell("diff -r first trial.old");
    if (there == moved || (done && there)) abort();
    if (!path_exists(in("trial")) || (there && path_exists(in("trial.old")))) abort(); /* back, or never moved */
    return done;
}
static void forced(void **state) {
    (void)state;
    CONFIGURE("train.steps=2", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1",
              "log.checkpoint_every=1");
    train("first", 1);
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    refuse_each(replace, FILES, NULL, "replacing", 150);
}

static void descriptions(void **state) {
    (void)state;
    refuse_each(describe, MEMORY, "jansson", "a description", 45);
    refuse_each(describe, FILES, NULL, "a description", 8);
}

int main(void) {
    nowhere = fopen("/dev/null", "w");
    matmul_setup();
    const struct CMUnitTest tests[] = {
        TRAINING_TEST(training), TRAINING_TEST(finished_run), TRAINING_TEST(torn_checkpoint),
        TRAINING_TEST(forced),   TRAINING_TEST(descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
