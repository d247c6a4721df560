/* run.json of a run, as resume, eval, sample and attend open it and as a sweep and a page read it; and the same bytes
   as run.json of a sweep, with the plan that shares take their runs from. */
#include "fuzz.h"
#include "run/run.h"
#include "sweep/parts.h"

static void read_as_sweep(const uint8_t *data, size_t size) {
    static Sweep sweep;
    static char directory[256];
    Error err = {0};
    if (!*directory) {
        snprintf(directory, sizeof directory, "%s/sweep", fuzz_directory());
        fuzz_make_directory("sweep");
        fuzz_put_text("sweep/config.ini", "[train]\nsteps = 4\n[sweep]\ntrain.seed = 1, 2\n");
    }
    fuzz_put("sweep/run.json", data, size);
    sweep = (Sweep){0};
    if (fuzz_answer(sweep_view(&sweep, directory, &err), &err)) REQUIRE(sweep.run_count == 2);
    sweep_free(&sweep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Run run;
    static SweepRun of_sweep;
    Error err = {0};
    read_as_sweep(data, size);
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
