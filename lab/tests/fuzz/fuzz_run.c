/* run.json of a run, as resume, eval, sample and attend open it and as a sweep and a page read it; and the same bytes
   as run.json of a sweep, with its plan. */
#include "fuzz.h"
#include "lab/sweep/sweep.h"
#include "run/run.h"

static const Sweep *sweep;
static Run run;

static void view_sweep(void *directory) { sweep = sweep_view(directory); }
static void read_run_of_sweep(void *of_sweep) { sweep_read_run(of_sweep); }
static void open_run(void *directory) { run_open(&run, directory, NULL, 0, false); }

static void read_as_sweep(const uint8_t *data, size_t size) {
    static char directory[256];
    if (!*directory) {
        snprintf(directory, sizeof directory, "%s/sweep", fuzz_directory());
        fuzz_make_directory("sweep");
        fuzz_put_text("sweep/config.ini", "[train]\nsteps = 4\n[sweep]\ntrain.seed = 1, 2\n");
    }
    fuzz_put("sweep/run.json", data, size);
    if (fuzz_answer(view_sweep, directory)) REQUIRE(sweep->run_count == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static SweepRun of_sweep;
    const size_t mark = memory_mark();
    read_as_sweep(data, size);
    of_sweep.config = *fuzz_config();
    fuzz_put_text("vocab.json", "[\"a\",\"b\",\"c\"]");
    fuzz_put("run.json", data, size);
    snprintf(of_sweep.directory, sizeof of_sweep.directory, "%s", fuzz_directory());
    fuzz_answer(read_run_of_sweep, &of_sweep);
    if (fuzz_answer(open_run, (char *)fuzz_directory())) {
        REQUIRE(run.threads > 0);
        REQUIRE(memchr(run.config.name, 0, sizeof run.config.name));
    }
    memory_release(mark);
    return 0;
}
