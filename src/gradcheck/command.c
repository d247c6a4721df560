#include "gradcheck/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/machine.h"

/* Gradients are checked in double precision. The program in floats becomes the one that make puts beside it,
   "train-double", or "sqrtdk-double" where it is installed; returns false, with an error, when it cannot. */
static bool become_double(char **argv, Error *err) {
#ifdef REAL_DOUBLE
    (void)argv, (void)err;
    return true;
#else
    static const char SUFFIX[] = "-double";
    char path[4096];
    if (!program_path(path, sizeof path - sizeof SUFFIX, err)) return false;
    memcpy(path + strlen(path), SUFFIX, sizeof SUFFIX);
    /* Its passes are short: threads that spin wherever they meet would take the processor from each other. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv(path, argv);
    return error_set(err, STATUS_FAILED, "gradients are checked by %s, which cannot be started (%s): run make", path,
                     strerror(errno));
#endif
}

static bool run(const Command *command, int *signal, Error *err) {
    static Config config;                            /* large */
    if ((*signal = interrupt_signal())) return true; /* which the other program would not know of */
    if (!become_double(command->argv, err)) return false;
    Progress progress = progress_make(stderr, command->quiet);
    return config_load(&config, command->target, command->overrides.items, command->overrides.count, err) &&
           gradcheck_config(&config, command_threads(command), &progress, stdout, signal, err);
}

const Verb gradcheck_verb = {
    .name = "gradcheck",
    .target = "CONFIG.ini",
    .what = "Compares every gradient of a config's model, or of each combination of its\n"
            "[sweep], with differences of the loss in double precision.",
    .takes_set = true,
    .run = run,
};
