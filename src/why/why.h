/* What an existing run or sweep shows of its divisor: a few sentences with its own figures, which say no more than its
   files support. They are made from config.ini, run.json and the logs, through the modules that write these.
   docs/usage.md has what the sentences are about, docs/formats.md what their figures mean. */
#pragma once

#include "base/command.h"
#include "base/json.h"
#include "sweep/parts.h"

enum { WHY_SENTENCES = 8, WHY_BYTES = 2048, WHY_TABLE = 8192 };

typedef struct {
    char sentence[WHY_SENTENCES][WHY_BYTES]; /* (count): paragraphs of a sentence or a few; at least one */
    size_t count;
    char table[WHY_TABLE]; /* of a sweep, in lines; stands after the first paragraph; else "" */
} Why;                     /* large: keep it off small stacks */

/* The sentences about a run, or about a sweep that sweep_view has read. Files that are not as the program writes them
   are an error of status STATUS_USAGE. */
void why_run(const char *directory, Why *why);
void why_sweep(const Sweep *sweep, Why *why);
/* Writes the first paragraph about the run or sweep of a directory, in lines of at most 80 columns. */
void why_write_first(const char *directory, FILE *out);

extern const Verb why_verb;

/* --- shared by run.c and sweep.c (command.c) */

/* A new paragraph, empty, to be filled in with why_add. */
char *why_next(Why *why);
#define why_add(paragraph, ...) text_append((paragraph), WHY_BYTES, __VA_ARGS__)
/* Adds "one learning rate (0.001)"; Muon has its own beside AdamW's. */
void why_add_rate(const Config *config, char *paragraph);

/* The n-gram tables, whose losses are the baselines (run_ngram_losses): nats per character, on the validation split. */
extern const char *const BASELINE_NAMES[NGRAM_ORDERS];
/* Adds the tables next to a loss, " (a table of character pairs has 2.34, one of triples 1.79)"; nothing without any.
 */
void baselines_add(const double baselines[NGRAM_ORDERS], double loss, char *paragraph);
