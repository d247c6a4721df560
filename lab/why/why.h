/* Sentences about the divisor of an existing run or sweep, with figures from its files. Each figure is in the files:
   config.ini, run.json and the logs, read through the modules that write these. lab/docs/usage.md lists the subjects of
   the sentences, docs/formats.md defines their figures. */
#pragma once

#include "lab/lab.h"
#include "lab/sweep/sweep.h"

enum { WHY_SENTENCES = 8, WHY_BYTES = 2048, WHY_TABLE = 8192 };

typedef struct {
    char sentence[WHY_SENTENCES][WHY_BYTES]; /* (count, at least 1): paragraphs of a sentence or a few */
    size_t count;
    char table[WHY_TABLE];                /* of a sweep, in lines, for behind the first paragraph; of a run "" */
    const SweepSetting *lowest, *highest; /* of a sweep, by validation loss; NULL if none is lower than another */
} Why;                                    /* too large for small stacks */

/* The figures of a run, from which its sentences are made. */
typedef struct {
    const char *directory; /* of the run */
    const Config *config;
    size_t vocabulary; /* the number of characters */
    LogTable metrics, attention;
    double baselines[NGRAM_ORDERS];
    const char *result, *error; /* as run.json has them; NULL: it has none */
} RunFigures;

/* why_run makes the sentences about a run, why_sweep those about several: a sweep that sweep_view has read, or other
   runs with settings. why_figures makes those about a run whose figures are at hand. */
void why_run(const char *directory, Why *why);
void why_figures(const RunFigures *figures, Why *why);
void why_sweep(const Sweep *sweep, Why *why);
/* Writes the paragraphs, and a sweep's table behind the first, in lines of at most 80 columns. */
void why_write(Why *why, FILE *out);
/* Writes the first paragraph about the run or sweep of a directory, in lines of at most 80 columns. */
void why_write_first(const char *directory, FILE *out);

/* --- shared by run.c and sweep.c (command.c) */

/* Returns a new, empty paragraph, to which why_add adds. */
char *why_next(Why *why);
#define why_add(paragraph, ...) text_append((paragraph), WHY_BYTES, __VA_ARGS__)
/* Adds "one learning rate (0.001)", or with Muon two of them. */
void why_add_rate(const Config *config, char *paragraph);

/* Finds the losses of n-gram tables, if all runs that have logged a step have the same; if not, all are NaN. */
void why_baselines(const Sweep *sweep, double losses[NGRAM_ORDERS]);

/* The n-gram tables, whose losses are the baselines (run_ngram_losses): nats per character, on the validation split. */
extern const char *const BASELINE_NAMES[NGRAM_ORDERS];
/* Adds the tables next to a loss, " (a table of character pairs has 2.34, one of triples 1.79)", if there are any. */
void baselines_add(const double baselines[NGRAM_ORDERS], double loss, char *paragraph);
