/* A page of two runs, of which the second was changed. The first line of the input names the file that the rest
   replaces (fuzz_put_changed). */
#include "lab/report/report.h"
#include "run.h"

enum { LARGE = 1000000 }; /* parameters of a model that would take the time of many inputs */

static char one[256], two[256], page[256];
static size_t parameters;

static Run run;

static void open_run(void *unused) {
    (void)unused;
    run_open(&run, two, NULL, 0, false);
}

static void count_parameters(void *unused) {
    (void)unused;
    run_load_vocabulary(&run);
    const ModelShape shape = model_shape(&run.config, run.vocabulary.count);
    parameters = tensors_make(&shape).parameters;
}

static void compare(void *unused) {
    (void)unused;
    report_compare((const char *const[]){one, two}, 2, page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!*one) {
        fuzz_make_run("one");
        fuzz_make_run("two");
        fuzz_path("one", one);
        fuzz_path("two", two);
        fuzz_path("page.html", page);
    }
    const size_t mark = memory_mark();
    fuzz_put_changed("two", FUZZ_RUN_FILES, FUZZ_RUN_COUNT, data, size);
    parameters = 0;
    const bool opened = fuzz_answer(open_run, NULL);
    if (opened) fuzz_answer(count_parameters, NULL);
    if (parameters <= LARGE && fuzz_answer(compare, NULL)) {
        REQUIRE(opened);
        fuzz_check_page("page.html");
    }
    memory_release(mark);
    return 0;
}
