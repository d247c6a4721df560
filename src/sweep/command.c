#include "sweep/sweep.h"

#include "base/interrupt.h"
#include "base/machine.h"

static bool run_sweep(const Command *command, int *signal, Error *err) {
    static Config config; /* large */
    char program[4096];
    Progress progress = progress_make(stderr, command->quiet);
    TrainOptions options = train_options(command, &progress);
    interrupt_survive_closed_pipes();
    options.program = program;
    return program_again(program, sizeof program, err) &&
           config_load(&config, command->target, command->overrides.items, command->overrides.count, err) &&
           (command->dry_run ? sweep_dry_run(&config, &options, stdout, err)
                             : sweep_run(&config, &options, stdout, signal, err));
}

static bool resume(const Command *command, int *signal, Error *err) {
    char program[4096];
    Progress progress = progress_make(stderr, command->quiet);
    TrainOptions options = train_options(command, &progress);
    interrupt_survive_closed_pipes();
    if (!sweep_is(command->target)) return resume_run(command, signal, err);
    if (command->overrides.count)
        return rejected(err, "%s is a sweep, which is resumed with the config it has: --set %s changes it",
                        command->target, command->overrides.items[0]);
    options.program = program;
    return program_again(program, sizeof program, err) && sweep_resume(command->target, &options, stdout, signal, err);
}

const Verb sweep_verb = {
    .name = "sweep",
    .target = "CONFIG.ini",
    .what = "Trains every combination of a config's [sweep] section, side by side on the\n"
            "processors, and compares them. --threads is for all runs together; each gets its\n"
            "share. A sweep that was stopped: see resume.",
    .takes_set = true,
    .makes_runs = true,
    .run = run_sweep,
};

const Verb resume_verb = {
    .name = "resume",
    .target = "RUN_DIR",
    .what = "Continues a run or a sweep that stopped; the result is bit-identical to one that\n"
            "never stopped. Draws the pictures of a finished run again, or writes a finished\n"
            "sweep's table. Of a run only train.steps can be set; it keeps its number of\n"
            "threads unless one is given.",
    .takes_set = true,
    .run = resume,
};
