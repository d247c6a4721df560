#include "theory/report.h"

#include <limits.h>

#include "base/interrupt.h"
#include "theory/claims.h"

static const char *d_k, *out;
static long long keys, samples, seed = 1;
static bool csv, claims, force;

static const Option OPTIONS[] = {
    {"d-k", "LIST", "sizes of q, as 16,64,256 (default 1,4,16,64,256,1024)", OPTION_TEXT, &d_k, 0, 0},
    {"keys", "N", "keys in a row (default 64)", OPTION_INTEGER, &keys, 1, THEORY_KEYS_MAX},
    {"samples", "N", "rows drawn for each d_k (default 4096)", OPTION_INTEGER, &samples, 2, THEORY_SAMPLES_MAX},
    {"seed", "S", "of the random numbers (default 1)", OPTION_INTEGER, &seed, 0, LLONG_MAX},
    {"csv", NULL, "print comma-separated values instead of a table", OPTION_SWITCH, &csv, 0, 0},
    {"claims", NULL, "what is commonly said about the divisor, put to the test", OPTION_SWITCH, &claims, 0, 0},
    {"out", "DIR", "write theory.csv and theory.png there (default: only print)", OPTION_DIRECTORY, &out, 0, 0},
    {"force", NULL, "with --out: replace what an earlier --out wrote", OPTION_SWITCH, &force, 0, 0},
    {0},
};

static bool run_claims(const Command *command, int *signal, Error *err) {
    Progress progress = progress_make(stderr, command->quiet);
    if (d_k || keys || samples || out || force)
        return error_set(err, STATUS_USAGE,
                         "--claims takes only --seed, --csv and --threads: each claim has its sizes");
    return claims_run((uint64_t)seed, command_threads(command), csv, &progress, stdout, signal, err);
}

static bool run(const Command *command, int *signal, Error *err) {
    if (claims) return run_claims(command, signal, err);
    Progress progress = progress_make(stderr, command->quiet);
    TheoryOptions options = theory_options(command_threads(command));
    if (!command_check_force(force, out, err) || (d_k && !theory_parse_list(d_k, &options, err))) return false;
    if (out) interrupt_survive_closed_pipes(); /* what only prints ends with its reader */
    if (keys) options.keys = (size_t)keys;
    if (samples) options.samples = (size_t)samples;
    options.seed = (uint64_t)seed;
    options.csv = csv;
    options.directory = out;
    options.force = force;
    options.command_line = command->line;
    return theory_run(&options, &progress, stdout, signal, err);
}

const Verb theory_verb = {
    .name = "theory",
    .what = "Draws queries and keys at random and measures what four divisors of their scores\n"
            "do to a row of attention and to its gradient: no model, no training.",
    .options = OPTIONS,
    .run = run,
};
