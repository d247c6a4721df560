#include "bench/bench.h"

static double seconds = 8;
static bool json;

static const Option OPTIONS[] = {
    {"seconds", "S", "how long to measure (default 8; eight steps at least)", OPTION_NUMBER, &seconds, 0, 1e6},
    {"json", NULL, "print one line of JSON", OPTION_SWITCH, &json, 0, 0},
    {0},
};

static bool run(const Command *command, int *signal, Error *err) {
    static Config config; /* large */
    return config_load(&config, command->target, command->overrides.items, command->overrides.count, err) &&
           bench_run(&config, command_threads(command), seconds, json, stdout, signal, err);
}

const Verb bench_verb = {
    .name = "bench",
    .target = "CONFIG.ini",
    .what = "Measures how fast a config trains, and what share that is of the machine's peak.",
    .options = OPTIONS,
    .takes_set = true,
    .run = run,
};
