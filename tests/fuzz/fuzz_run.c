/* run.json of a run, as resume, eval, sample and attend open it and as a sweep and a page read it. */
#include "fuzz.h"
#include "sweep/parts.h"
#include "train/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Run run;
    static SweepRun of_sweep;
    Error err = {0};
    of_sweep.config = *fuzz_config();
    fuzz_put_text("vocab.json", "[\"a\",\"b\",\"c\"]");
    fuzz_put("run.json", data, size);
    snprintf(of_sweep.directory, sizeof of_sweep.directory, "%s", fuzz_directory());
    fuzz_answer(sweep_read_run(&of_sweep, &err), &err);
    if (fuzz_answer(run_open(&run, fuzz_directory(), NULL, 0, false, &err), &err)) {
        REQUIRE(run.threads > 0 && run.vocabulary.count == 3);
        REQUIRE(memchr(run.config.name, 0, sizeof run.config.name));
    }
    run_close(&run);
    return 0;
}
