/* The share of a sweep's runs that a process trains, as the user gives it, or as a batch system or mpirun gives it to
   each process that it starts. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sweep/parts.h"

/* The variables by which each batch system or mpirun numbers its processes. An array of Slurm may begin at any number
   and have steps; ranks of MPI count from 0. */
typedef struct {
    const char *number, *count, *first, *step;
} Numbering;
static const Numbering NUMBERINGS[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL},
    {"PMI_RANK", "PMI_SIZE", NULL, NULL},
};

/* Reads a whole number of at most nine digits up to the character `end`. Returns NULL if there is none. */
static const char *read_number(const char *text, char end, size_t *number) {
    const size_t digits = strspn(text, "0123456789");
    *number = strtoul(text, NULL, 10);
    return digits > 0 && digits < 10 && text[digits] == end ? text + digits : NULL;
}

/* Reads a variable of the environment. The number is `otherwise` if the variable has no name or is not set. */
static size_t read_variable(const char *name, size_t otherwise) {
    const char *text = name ? getenv(name) : NULL;
    size_t number = otherwise;
    if (text && !read_number(text, 0, &number))
        usage_error("--share auto: %s is \"%.40s\", which is not a whole number: say --share I/N", name, text);
    return number;
}

static void read_environment(size_t *share, size_t *shares) {
    const Numbering *n = NUMBERINGS, *end = n + sizeof NUMBERINGS / sizeof *n;
    while (n < end && !getenv(n->number)) n++;
    if (n == end)
        usage_error(
            "--share auto: neither SLURM_ARRAY_TASK_ID nor OMPI_COMM_WORLD_RANK nor PMI_RANK is set: start this "
            "by an array of Slurm or by mpirun, or say --share I/N");
    if (!getenv(n->count)) usage_error("--share auto: %s is set, but %s is not: say --share I/N", n->number, n->count);
    const size_t number = read_variable(n->number, 0), first = read_variable(n->first, 0),
                 step = read_variable(n->step, 1);
    *shares = read_variable(n->count, 0);
    if (step == 0 || number < first || (number - first) % step != 0 || (number - first) / step >= *shares)
        usage_error(
            "--share auto: %s is %zu, which is none of %zu that begin at %zu in steps of %zu (%s): use an array "
            "without gaps, or say --share I/N",
            n->number, number, *shares, first, step, n->count);
    *share = (number - first) / step;
}

void share_read(const char *text, size_t *share, size_t *shares) {
    if (strcmp(text, "auto") == 0) {
        read_environment(share, shares);
        return;
    }
    const char *slash = read_number(text, '/', share);
    if (!slash || !read_number(slash + 1, 0, shares) || *share == 0 || *share > *shares)
        usage_error("--share takes I/N with I from 1 to N, as 2/8, or auto, not \"%.40s\"", text);
    --*share;
}

size_t share_runs(const Sweep *s, SweepRun *runs[RUNS_MAX]) {
    const Rng rng = rng_make(0, RNG_SHARES, 0);
    size_t order[RUNS_MAX], count = 0, dealt = 0;
    if (s->shares == 0) {
        for (size_t i = 0; i < s->run_count; i++) runs[i] = &s->runs[i];
        return s->run_count;
    }
    for (size_t g = 0; g < s->setting_count; g++) { /* Fisher and Yates, from the inside out (Durstenfeld 1964) */
        const size_t at = rng_below(&rng, g, g + 1);
        order[g] = order[at];
        order[at] = g;
    }
    for (size_t g = 0; g < s->setting_count; g++) {
        const SweepSetting *setting = &s->settings[order[g]];
        for (size_t i = 0; i < setting->count; i++)
            if ((dealt + i) % s->shares == s->share) runs[count++] = &s->runs[setting->run[i]];
        dealt += setting->count;
    }
    return count;
}
