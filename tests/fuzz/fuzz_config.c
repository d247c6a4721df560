/* A config file. One that is accepted is written and read again, and must be what it was; so must the first of a
   sweep's combinations. */
#include "fuzz.h"

static void must_be_read_back(const Config *config) {
    static Config again;
    Error err;
    char *text = config_text(config), *second;
    REQUIRE(text);
    REQUIRE(config_load(&again, fuzz_put_text("again.ini", text), NULL, 0, &err));
    second = config_text(&again);
    REQUIRE(second && strcmp(text, second) == 0);
    free(text);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Config config, combination;
    const char *values[SWEEP_AXES_MAX];
    Error err = {0};
    size_t count;
    if (!fuzz_answer(config_load(&config, fuzz_put("input.ini", data, size), NULL, 0, &err), &err)) return 0;
    must_be_read_back(&config);
    if (combinations_count(&config, 1000, &count, &err) && combinations_config(&config, 0, &combination, values, &err))
        must_be_read_back(&combination);
    return 0;
}
