/* What follows --set: each line of the input is one, after a config. What is accepted is written and read again. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 16 };
    Config config;
    SweepAxes axes;
    const char *overrides[MOST];
    size_t count = 0;
    Error err = {0};
    char *text = malloc(size + 1), *rest = text;
    REQUIRE(text);
    memcpy(text, data, size);
    text[size] = 0; /* an argument ends at its first zero byte */
    fuzz_config();
    while (rest && count < MOST) overrides[count++] = strsep(&rest, "\n");
    char path[256];
    snprintf(path, sizeof path, "%s/config.ini", fuzz_directory());
    if (fuzz_answer(config_load(&config, &axes, path, overrides, count, &err), &err)) fuzz_read_back(&config);
    free(text);
    return 0;
}
