/* The system refuses memory. Each operation of the program is repeated, every time by a separate process: first its
   first request is refused, then its second, until all are granted. Each time but the last it must raise an error and
   release all memory; a command that ends does not show the latter (tests/torture, where files are refused as well).
   The functions below stand in for the library's. They refuse the requests of src/, jansson and stb. They grant those
   of other libraries, since libgomp ends the program without memory. */
#include "training.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/results.h"
#include "lab/live/live.h"
#include "run/checkpoint.h"
#include "run/pictures.h"
#include "run/run.h"
#include "train/evaluate.h"

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

static struct {
    bool armed;   /* requests are counted */
    long left;    /* requests that are granted before it */
    bool refused; /* the request was refused */
    long live;    /* blocks of memory in use */
} plan;

static bool refuse(const void *caller) {
    extern const char __executable_start[], etext[];
    bool ours = (const char *)caller >= __executable_start && (const char *)caller < etext;
    if (!plan.armed || !ours || plan.refused || plan.left-- > 0) return false;
    errno = ENOMEM;
    return plan.refused = true;
}
#define REFUSED refuse(__builtin_return_address(0))
static void *counted(void *block) {
    if (block) plan.live++;
    return block;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);
void *malloc(size_t size) { return REFUSED ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return REFUSED ? NULL : counted(__libc_calloc(count, size)); }
void *realloc(void *block, size_t size) {
    if (REFUSED) return NULL;
    if (block && size == 0) plan.live--;
    return block ? __libc_realloc(block, size) : counted(__libc_realloc(NULL, size));
}
void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); } /* libgomp's */
void free(void *block) {
    if (block) plan.live--;
    __libc_free(block);
}
void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if (REFUSED) return MAP_FAILED;
    void *block = (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
    return block == MAP_FAILED ? block : counted(block);
}
int munmap(void *block, size_t size) {
    plan.live--;
    return (int)syscall(SYS_munmap, block, size);
}

/* Defines name(parameters), which returns `answer` when it is refused. */
#define STAND_IN(type, answer, name, parameters, arguments)                                                            \
    type name parameters {                                                                                             \
        static type(*granted) parameters;                                                                              \
        if (REFUSED) return answer;                                                                                    \
        if (!granted) *(void **)&granted = dlsym(RTLD_NEXT, #name);                                                    \
        return granted arguments;                                                                                      \
    }
STAND_IN(FILE *, NULL, open_memstream, (char **text, size_t *size), (text, size))

typedef void Operation(void);

enum { SAID = 40, DONE, UNNOTICED, LOST, UNSAID }; /* exit statuses */
static int attempt(Operation *operation, long granted) {
#pragma omp parallel num_threads(1)
    errno = 0; /* libomp allocates memory again after a fork */
    const long before = plan.live;
    const size_t mark = memory_mark();
    plan.armed = true, plan.left = granted;
    const bool done = works(operation());
    plan.armed = false;
    memory_release(mark);
    if (plan.live != before) return LOST;
    if (!plan.refused) return done ? DONE : UNSAID;
    if (done) return UNNOTICED;
    return err.status == STATUS_FAILED && *err.message && !strchr(err.message, '\n') ? SAID : UNSAID;
}

/* Refuses the first request, then in another process the one `stride` later, and so on. */
static void refuse_some(Operation *operation, const char *what, long least, long stride) {
    const size_t mark = memory_mark();
    operation(); /* libraries allocate some memory once */
    memory_release(mark);
    for (long granted = 0, status = 0; status != DONE; granted += stride) {
        int ended = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) exit(attempt(operation, granted));
        assert_true(child > 0 && waitpid(child, &ended, 0) == child);
        assert_that(WIFEXITED(ended), "%s: signal %d, request %ld refused", what, WTERMSIG(ended), granted);
        status = WEXITSTATUS(ended);
        assert_that(status != LOST, "%s: memory is lost, request %ld refused", what, granted);
        assert_that(status != UNNOTICED, "%s: continues as if nothing were, request %ld refused", what, granted);
        assert_that(status == SAID || status == DONE, "%s: no error, request %ld refused", what, granted);
        if (status == DONE) assert_that(granted >= least, "%s: makes %ld requests only", what, granted);
    }
}

static void refuse_each(Operation *operation, const char *what, long least) { refuse_some(operation, what, least, 1); }

static FILE *nowhere;
static void check(void) {
    const TrainOptions options = {
        .threads = 1, .out = in("fresh"), .command_line = "", .progress = progress_make(stderr, true)};
    trainer_check(&config, &options, nowhere);
}

static void use(void) {
    static Run run;
    Model model;
    run_open(&run, in("run"), NULL, 0, false);
    run_load_model(&run, &model, 0, 1);
    run_load_corpus(&run);
    evaluate_run(&run, &model);
}

/* A picture with text, for which stb asks for memory. */
static void draw(void) {
    static Run run;
    run_open(&run, in("run"), NULL, 0, true);
    picture_loss(&run);
}

/* A description with a text that is not UTF-8, written and read again. */
static void describe(void) {
    Json *run = run_description("./train", 1);
    js_append(js_list(run, "resumed"), js_text("\xff"));
    run_description_save(run, directory_open(temporary));
    const Json *again = run_description_load(temporary);
    assert_int_equal(js_object_size(again), 7);
    assert_string_equal(js_as_text(js_get(again, "command")), "./train");
}

static void configure_again(void) {
    Config loaded;
    const char *const override = "model.layers=1";
    config_load(&loaded, NULL, in("tiny.ini"), &override, 1);
}

static void checking(void) {
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    refuse_each(check, "checking", 12);
    refuse_each(configure_again, "a config", 2);
}

static void finished_run(void) {
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    train("run", 1);
    refuse_each(use, "using", 10);
    refuse_some(draw, "drawing", 2000, 397);
}

static void descriptions(void) { refuse_each(describe, "a description", 45); }

/* A text of JSON whose escapes and end come at each place of the parser's buffer, which grows as it is read. */
static size_t letters;
static void parse(void) {
    char text[128];
    snprintf(text, sizeof text, "[\"%.*s\\\"\\u00e9\"]", (int)letters,
             "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij");
    js_parse(text, strlen(text), "a text");
}

static void escapes(void) {
    for (letters = 0; letters < 62; letters++) refuse_each(parse, "an escape", 3);
}

/* Makes what is left of a model's two steps, and asks for all that it shows. */
static void steer(Live *live) {
    size_t count;
    if (live_steps(live) == 0) live_step(live);
    live_evaluate(live);
    live_divide(live, 3);
    live_step(live);
    live_sample(live, "", 4, 1, 1);
    live_why(live, "run");
    live_files(live, &count);
}

/* Returns a hash of what does not depend on the time. */
static uint64_t hash_model(Live *live) {
    uint64_t hash = hash_bytes(HASH_START, live_parameters(live, NULL), live_count(live) * sizeof(real));
    size_t count;
    const LiveFile *files = live_files(live, &count);
    for (const LiveFile *file = files; file < files + count; file++) {
        const bool timed = strstr(file->name, "last") || strcmp(file->name, "run.json") == 0;
        hash = hash_bytes(hash, file->name, strlen(file->name));
        if (strcmp(file->name, "metrics.csv") == 0) hash = hash_bytes(hash, &file->size, sizeof file->size);
        else if (!timed) hash = hash_bytes(hash, file->bytes, file->size);
    }
    return hash;
}

/* After an error a model is as it was, and makes the same two steps. */
static void go_on(void) {
    static uint64_t expected;
    Live *live =
        live_make("[model]\nlayers = 1\nd_model = 8\ncontext = 8\n[train]\nsteps = 2\nbatch = 2\n[eval]\n"
                  "every = 1\nbatches = 1\n[log]\nattention_every = 1\nsample_tokens = 4\n",
                  "The model is refused memory. It is as it was, and makes the step that it was asked for. The "
                  "files that it writes are those of a model that had all the memory in the world.\n");
    Error refused = {0};
    for (size_t tries = 0; live_steps(live) < 2; tries++) {
        if (!works(steer(live))) refused = err;
        assert_true(tries < 2);
    }
    const uint64_t hash = hash_model(live);
    if (!expected) expected = hash;
    assert_true(hash == expected);
    if (refused.status) error_raise_again(&refused);
}

static void models_in_memory(void) { refuse_some(go_on, "a model in memory", 1000, 7); }

int main(void) {
    nowhere = fopen("/dev/null", "w");
    return RUN_TESTS(TRAINING_TEST(checking), TRAINING_TEST(finished_run), TRAINING_TEST(descriptions),
                     TRAINING_TEST(escapes), TRAINING_TEST(models_in_memory));
}
#endif
