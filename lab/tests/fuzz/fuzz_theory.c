/* theory.csv, and run.json, which 0.6.0 wrote beside it, as the page of theory reads them. The first line of the input
   names the file that the rest replaces (fuzz_put_changed). */
#include "lab/report/report.h"
#include "run.h"

static const FuzzFile FILES[] = {
    {"theory.csv", "d_k,divisor,keys,samples,score_mean,score\n1,none,5,200,0.1,dot\n"},
    {"run.json", "{\"program\": \"sqrtdk\", \"version\": \"0.6.0\", \"seed\": 1}"},
};

static void write_page(void *directory) { report_write(directory_open(directory)); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool made;
    const size_t mark = memory_mark();
    char path[256];
    if (!made) fuzz_make_directory("theory");
    made = true;
    fuzz_put_changed("theory", FILES, 2, data, size);
    if (fuzz_answer(write_page, (char *)fuzz_path("theory", path))) fuzz_check_page("theory/report.html");
    memory_release(mark);
    return 0;
}
