/* The arguments of --set: each line of the input is one, after a config. An accepted config is written and read
   again. */
#include "fuzz.h"
#include "lab/sweep/section.h"

enum { MOST = 16 };
static Config config;
static const char *overrides[MOST];
static size_t count;

static SweepAxes axes;

static void read_input(void *path) { axes_load(&config, &axes, path, overrides, count); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[256], *rest = memory_copy_text((const char *)data, size); /* an argument ends at its first zero byte */
    fuzz_config();
    for (count = 0; rest && count < MOST; count++) overrides[count] = strsep(&rest, "\n");
    snprintf(path, sizeof path, "%s/config.ini", fuzz_directory());
    if (fuzz_answer(read_input, path) && axes.count == 0) fuzz_read_back(&config);
    memory_release(0);
    return 0;
}
