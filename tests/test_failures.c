/* What happens when the system refuses memory. Each thing the program does is done again and again, every time by a
   process of its own: first its first request is refused, then its second, until it makes no more. Each time but the
   last it must say so in an Error, and all memory must be given back, which a command that ends does not show
   (tests/torture, where files are refused as well). The functions below stand in for the library's; they refuse what
   src/ asks for, not what libraries ask for themselves, for libgomp ends the program when it gets no memory. */
#include "training.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/results.h"
#include "eval/eval.h"
#include "report/report.h"
#include "run/checkpoint.h"
#include "run/pictures.h"
#include "run/run.h"

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
    bool armed;          /* requests are counted */
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
static bool refuse(const void *caller) {
    extern const char __executable_start[], etext[];
    bool ours = (const char *)caller >= __executable_start && (const char *)caller < etext;
    if (!plan.armed || !(ours || is_in(plan.library, caller)) || plan.refused || plan.left-- > 0) return false;
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
STAND_IN(char *, NULL, strdup, (const char *text), (text))

typedef bool Operation(Error *err); /* frees all it takes */

enum { SAID = 40, DONE, UNNOTICED, LOST, UNSAID }; /* exit statuses */
static int attempt(Operation *operation, const char *library, long granted) {
    Error err = {0};
#pragma omp parallel num_threads(1)
    errno = 0; /* libomp takes memory again after a fork */
    const long before = plan.live;
    plan.armed = true, plan.left = granted, plan.library = library;
    bool done = operation(&err);
    plan.armed = false;
    if (plan.live != before) return LOST;
    if (!plan.refused) return done ? DONE : UNSAID;
    if (done) return plan.harmless ? SAID : UNNOTICED;
    return err.status == STATUS_FAILED && *err.message && !strchr(err.message, '\n') ? SAID : UNSAID;
}

/* Refuses the first request, then in another process the one `stride` later, and so on. */
static void refuse_some(Operation *operation, const char *library, const char *what, long least, long stride) {
    Error err = {0};
    assert_that(operation(&err), "%s: %s", what, err.message); /* what libraries take once they keep */
    for (long granted = 0, status = 0; status != DONE; granted += stride) {
        int ended = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) exit(attempt(operation, library, granted));
        assert_true(child > 0 && waitpid(child, &ended, 0) == child);
        assert_that(WIFEXITED(ended), "%s: signal %d, request %ld refused", what, WTERMSIG(ended), granted);
        status = WEXITSTATUS(ended);
        assert_that(status != LOST, "%s: memory is lost, request %ld refused", what, granted);
        assert_that(status != UNNOTICED, "%s: continues as if nothing were, request %ld refused", what, granted);
        assert_that(status == SAID || status == DONE, "%s: no error, request %ld refused", what, granted);
        if (status == DONE) assert_that(granted >= least, "%s: makes %ld requests only", what, granted);
    }
}

static void refuse_each(Operation *operation, const char *library, const char *what, long least) {
    refuse_some(operation, library, what, least, 1);
}

static TrainOptions options_for(const char *out) {
    static Progress progress;
    progress = progress_make(stderr, true);
    return (TrainOptions){.threads = 1, .out = out, .command_line = "", .progress = &progress};
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

/* A picture with text, whose memory stb takes. */
static bool draw(Error *err) {
    static Run run;
    bool done = run_open(&run, in("run"), NULL, 0, true, err) && picture_loss(&run, err);
    run_close(&run);
    return done;
}

/* A text that gets no memory is tried again, as one that is not UTF-8 would be: if that works, nothing is missing. */
static bool describe(Error *err) {
    Json *run = run_description("./train", 1), *again = NULL;
    js_append(js_list(run, "resumed"), js_text("\xff"));
    bool done = run_description_save(run, opened(temporary), err) && run_description_load(&again, temporary, err);
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
    Config loaded;
    const char *const override = "model.layers=1";
    return config_load(&loaded, NULL, in("tiny.ini"), &override, 1, err);
}

static void checking(void **state) {
    (void)state;
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    refuse_each(check, NULL, "checking", 12);
    refuse_each(configure_again, NULL, "a config", 2);
}

static void finished_run(void **state) {
    (void)state;
    CONFIGURE("train.steps=1", "log.attention_text=keys", "log.sample_tokens=2", "eval.batches=1");
    train("run", 1);
    refuse_each(use, NULL, "using", 10);
    refuse_some(draw, NULL, "drawing", 2000, 397);
}

static bool page_of_theory(Error *err) {
    Json *data;
    char *text = NULL;
    bool done = report_theory_data(temporary, &data, err) && js_dump(data, JS_ASCII, &text, err);
    free(text);
    js_free(data);
    return done;
}

static void pages(void **state) {
    (void)state;
    Error err = {0};
    Json *run = run_description("./train", 1);
    assert_true(run_description_save(run, opened(temporary), &err));
    js_free(run);
    put_text("theory.csv", "d_k\n1\n");
    refuse_each(page_of_theory, NULL, "a page's data", 100);
}

static void descriptions(void **state) {
    (void)state;
    refuse_each(describe, "jansson", "a description", 45);
}

/* A text of JSON whose escapes and end come at each place of the parser's buffer, which grows as it is read. */
static size_t letters;
static bool parse(Error *err) {
    char text[128];
    Json *value;
    snprintf(text, sizeof text, "[\"%.*s\\\"\\u00e9\"]", (int)letters,
             "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij");
    const bool done = js_parse(text, strlen(text), "a text", &value, err);
    js_free(value);
    return done;
}

static void escapes(void **state) {
    (void)state;
    for (letters = 0; letters < 62; letters++) refuse_each(parse, NULL, "an escape", 3);
}

int main(void) {
    nowhere = fopen("/dev/null", "w");
    const struct CMUnitTest tests[] = {
        TRAINING_TEST(checking), TRAINING_TEST(finished_run), TRAINING_TEST(descriptions),
        TRAINING_TEST(pages),    TRAINING_TEST(escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
