/* A config file. One that is accepted is written and read again, and must be what it was; so must the first of a
   sweep's combinations. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Config config, combination;
    SweepAxes axes;
    const char *values[SWEEP_AXES_MAX];
    Error err = {0};
    size_t count;
    if (!fuzz_answer(config_load(&config, &axes, fuzz_put("input.ini", data, size), NULL, 0, &err), &err)) return 0;
    fuzz_read_back(&config);
    if (combinations_count(&axes, 1000, &count, &err) &&
        combinations_config(&config, &axes, 0, &combination, values, &err))
        fuzz_read_back(&combination);
    return 0;
}
