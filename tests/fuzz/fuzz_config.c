/* A config file. One that is accepted is written and read again, and must be what it was; so must the first of a
   sweep's combinations. */
#include "fuzz.h"
#include "lab/sweep/section.h"

static Config config, combination;
static SweepAxes axes;

static void read_input(void *path) { axes_load(&config, &axes, path, NULL, 0); }
static void read_combination(void *unused) {
    (void)unused;
    combinations_count(&axes, 1000);
    combinations_config(&config, &axes, 0, &combination);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error ignored;
    if (fuzz_answer(read_input, (void *)fuzz_put("input.ini", data, size))) {
        if (axes.count == 0) fuzz_read_back(&config);
        if (protect(read_combination, NULL, &ignored)) fuzz_read_back(&combination);
    }
    memory_release(0);
    return 0;
}
