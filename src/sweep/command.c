/* The verbs sweep and resume. The latter is here because it takes a sweep as well as a run. */
#include "sweep/sweep.h"

#include "base/interrupt.h"

static long long jobs; /* 0: not given */

static const Option SWEEP_OPTIONS[] = {
    {"jobs", "N", "runs of a sweep at a time (default: by threads, memory)", OPTION_INTEGER, &jobs, 1, THREADS_MAX},
    {0},
};

static TrainOptions sweep_options(const Command *command, Progress *progress) {
    TrainOptions options = train_options(command, progress);
    options.jobs = (size_t)jobs;
    return options;
}

static bool run_sweep(const Command *command, int *signal, Error *err) {
    static Config config; /* large */
    Progress progress = progress_make(stderr, command->quiet);
    const TrainOptions options = sweep_options(command, &progress);
    interrupt_survive_closed_pipes();
    return config_load(&config, command->target, command->overrides.items, command->overrides.count, err) &&
           (command->dry_run ? sweep_dry_run(&config, &options, stdout, err)
                             : sweep_run(&config, &options, stdout, signal, err));
}

static bool resume(const Command *command, int *signal, Error *err) {
    Progress progress = progress_make(stderr, command->quiet);
    const TrainOptions options = sweep_options(command, &progress);
    interrupt_survive_closed_pipes();
    bool is_sweep;
    if (!sweep_is(command->target, &is_sweep, err)) return false;
    if (!is_sweep)
        return jobs ? usage_error(err, "--jobs %lld is for a sweep, and %s is none", jobs, command->target)
                    : resume_run(command, signal, err);
    if (command->overrides.count)
        return usage_error(err, "%s is a sweep, which is resumed with the config it has: --set %s changes it",
                           command->target, command->overrides.items[0]);
    return sweep_resume(command->target, &options, stdout, signal, err);
}

const Verb sweep_verb = {
    .name = "sweep",
    .target = "CONFIG.ini",
    .what = "Trains every combination of a config's [sweep] section, several at a time, and\n"
            "compares them. --threads counts the threads of all runs together; each run gets\n"
            "its share. The verb resume continues a sweep that was stopped.",
    .options = SWEEP_OPTIONS,
    .takes_set = true,
    .makes_runs = true,
    .run = run_sweep,
};

const Verb resume_verb = {
    .name = "resume",
    .target = "RUN_DIR",
    .what = "Continues a run or a sweep that stopped; the result is bit-identical to one that\n"
            "never stopped. Of a finished run it draws the pictures again, of a finished\n"
            "sweep it writes the table again. --set can change train.steps of a run, and\n"
            "nothing else. A run keeps its number of threads unless --threads is given.",
    .options = SWEEP_OPTIONS,
    .takes_set = true,
    .run = resume,
};
