/* The sentences of `why` about a sweep of two runs, and about its first run. The input has six parts with % between
   them: run.json, rows of metrics.csv and rows of attention.csv of the first run, then those of the second. An empty
   part stands for the text that the program writes. The same files must give the same sentences a second time. */
#include "fuzz.h"
#include "lab/why/why.h"
#include "run/logs.h"

static char sweep_directory[256], run_directory[256];
static Why why;

static void say_of_sweep(void *unused) {
    (void)unused;
    why_sweep(sweep_view(sweep_directory), &why);
}
static void say_of_run(void *unused) {
    (void)unused;
    why_run(run_directory, &why);
}

static const char *const RUNS[] = {"sweep/scale_divisor=none", "sweep/scale_divisor=sqrt_dk"};

/* The files of a run, and their default content below the header, which the program writes. */
static const struct {
    const char *name, *text;
} FILES[] = {
    {"run.json",
     "{\"program\": \"sqrtdk\", \"result\": \"finished\", \"steps\": 2, \"ngram_losses\": [3, 2.5, 2.25, 2.125]}"},
    {"metrics.csv", "0,0,0,0.001,3.5,3.25,1,\n2,4,1,0.001,2.5,2.375,1,\n"},
    {"attention.csv",
     "0,0,0,1,2,0.5,0.75,0,1,1,1,1,1,1,1,1,1,1,1,1,0,0,0\n2,0,0,1,2,0.5,0.75,0,1,1,1,1,1,1,1,1,1,1,1,1,0,0,0\n"}};
enum { PARTS = 3 };
static char *headers[PARTS];

/* Makes the sweep without its logs, and reads the headers of logs. */
static void prepare(void) {
    char path[64], long_path[256], *config = fuzz_config_text(fuzz_config());
    size_t size;
    fuzz_make_directory("sweep");
    snprintf(sweep_directory, sizeof sweep_directory, "%s/sweep", fuzz_directory());
    snprintf(run_directory, sizeof run_directory, "%s/%s", fuzz_directory(), RUNS[0]);
    for (size_t run = 0; run < 2; run++) {
        fuzz_make_directory(RUNS[run]);
        snprintf(path, sizeof path, "%s/vocab.json", RUNS[run]);
        fuzz_put_text(path, "[\"a\",\"b\",\"c\"]");
        snprintf(path, sizeof path, "%s/config.ini", RUNS[run]);
        fuzz_put_text(path, config);
    }
    fuzz_put_text("sweep/run.json", "{\"program\": \"sqrtdk\", \"runs\": [{\"name\": \"scale_divisor=none\"}]}");
    fuzz_put_text("sweep/config.ini", "[model]\nlayers = 1\nheads = 1\nd_model = 2\nd_ff = 2\ncontext = 2\n"
                                      "[sweep]\nattention.scale_divisor = none, sqrt_dk\n");
    memory_free(logs_start(fuzz_opened_directory()));
    headers[0] = calloc(1, 1);
    for (size_t part = 1; part < PARTS; part++) {
        snprintf(long_path, sizeof long_path, "%s/%s", fuzz_directory(), FILES[part].name);
        headers[part] = (char *)fuzz_get(long_path, &size);
        headers[part][size] = 0;
    }
    free(config);
}

/* Writes the files of the runs from the parts of the input. */
static void put_parts(const uint8_t *data, size_t size) {
    char path[64];
    for (size_t i = 0; i < 2 * PARTS; i++) {
        const size_t part = i % PARTS, header = strlen(headers[part]);
        const uint8_t *end = memchr(data, '%', size);
        const size_t length = end ? (size_t)(end - data) : size, usual = strlen(FILES[part].text);
        char *text = memory_make(header + length + usual, 1, "a file");
        memcpy(text, headers[part], header);
        if (length) memcpy(text + header, data, length);
        else memcpy(text + header, FILES[part].text, usual);
        snprintf(path, sizeof path, "%s/%s", RUNS[i / PARTS], FILES[part].name);
        fuzz_put(path, text, header + (length ? length : usual));
        data += end ? length + 1 : length;
        size -= end ? length + 1 : length;
    }
}

/* Calls a function twice, and checks that both sentences and table are the same. */
static void check(void (*speak)(void *unused)) {
    static Why before;
    if (!fuzz_answer(speak, NULL)) return;
    before = why;
    REQUIRE(why.count > 0 && why.count <= WHY_SENTENCES);
    for (size_t i = 0; i < why.count; i++) REQUIRE(*why.sentence[i]);
    REQUIRE(fuzz_answer(speak, NULL));
    REQUIRE(why.count == before.count && strcmp(why.table, before.table) == 0);
    for (size_t i = 0; i < why.count; i++) REQUIRE(strcmp(why.sentence[i], before.sentence[i]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!headers[0]) prepare();
    const size_t mark = memory_mark();
    put_parts(data, size);
    check(say_of_run);
    check(say_of_sweep);
    memory_release(mark);
    return 0;
}
