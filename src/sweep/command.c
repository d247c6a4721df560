/* The verb sweep. */
#include "sweep/sweep.h"

#include "base/interrupt.h"
#include "base/memory.h"

static long long jobs; /* 0: not given */
static bool prepare, tables;
static const char *share; /* NULL: not given */

static const Option SWEEP_OPTIONS[] = {
    {"jobs", "N", "runs at a time (default: by threads and memory)", OPTION_INTEGER, &jobs, 1, THREADS_MAX},
    {"prepare", NULL, "make the directory of the sweep and train nothing yet", OPTION_SWITCH, &prepare, 0, 0},
    {"share", "I/N", "train a share of a sweep that was prepared; or auto", OPTION_TEXT, &share, 0, 0},
    {"tables", NULL, "write the tables and the page of such a sweep", OPTION_SWITCH, &tables, 0, 0},
    {0},
};

/* Runs --share or --tables, for a sweep that was prepared. */
static int run_prepared(const Command *command, const TrainOptions *options) {
    const char *directory = command->target;
    const char *wrong = command->overrides.count ? "--set"
                        : command->out           ? "--out"
                        : command->dry_run       ? "--dry-run"
                        : prepare                ? "--prepare"
                        : share && tables        ? "--tables"
                                                 : NULL;
    if (wrong) usage_error("--%s takes a sweep as it was prepared: leave out %s", share ? "share" : "tables", wrong);
    if (!sweep_is(directory))
        usage_error("%s is not the directory of a sweep: make one with %s sweep CONFIG.ini --prepare", directory,
                    program_name);
    if (share) return sweep_share(directory, share, options, stdout);
    sweep_tables(directory, options, stdout);
    return 0;
}

static int run_sweep(const Command *command) {
    TrainOptions options = train_options(command);
    options.jobs = (size_t)jobs;
    interrupt_survive_closed_pipes();
    if (share || tables) return run_prepared(command, &options);
    Config config;
    SweepAxes *axes = memory_make(1, sizeof *axes, "the keys of a sweep");
    config_load(&config, axes, command->target, command->overrides.items, command->overrides.count);
    if (!command->dry_run && !prepare) return sweep_run(&config, axes, &options, stdout);
    (command->dry_run ? sweep_dry_run : sweep_prepare)(&config, axes, &options, stdout);
    return 0;
}

const Verb sweep_verb = {
    .name = "sweep",
    .target = "CONFIG.ini",
    .what = "Trains every combination of a config's [sweep] section, several at a time, and\n"
            "compares them. --threads counts the threads of all runs together; each run gets\n"
            "its share. The verb resume continues a sweep that was stopped. For several\n"
            "machines: sweep CONFIG.ini --prepare once; sweep DIR --share I/N as process I of\n"
            "N, or --share auto under an array of Slurm or mpirun; sweep DIR --tables.",
    .options = SWEEP_OPTIONS,
    .takes_set = true,
    .makes_runs = true,
    .run = run_sweep,
};
