/* The verb why, and the functions that run.c and sweep.c share: paragraphs, which are printed in lines of 80 columns,
   and the losses of n-gram tables, which are the baselines of other losses. */

#include "lab/why/why.h"

enum { COLUMNS = 80 };

const char *const BASELINE_NAMES[NGRAM_ORDERS] = {"single characters", "character pairs", "character triples",
                                                  "4-grams"};

char *why_next(Why *why) { return why->sentence[why->count++]; }

void why_add_rate(const Config *c, char *paragraph) {
    if (c->train.optimizer == OPTIMIZER_MUON)
        why_add(paragraph, "one learning rate of Muon (%.4g) and one of AdamW (%.4g)", c->train.muon_lr, c->train.lr);
    else why_add(paragraph, "one learning rate (%.4g)", c->train.lr);
}

void baselines_add(const double baselines[NGRAM_ORDERS], double loss, char *paragraph) {
    size_t above = NGRAM_ORDERS, below = NGRAM_ORDERS; /* the nearest tables; NGRAM_ORDERS: none */
    for (size_t i = 0; i < NGRAM_ORDERS; i++) {
        if (baselines[i] >= loss && (above == NGRAM_ORDERS || baselines[i] < baselines[above])) above = i;
        if (baselines[i] < loss && (below == NGRAM_ORDERS || baselines[i] > baselines[below])) below = i;
    }
    if (above < NGRAM_ORDERS) why_add(paragraph, " (a table of %s has %.2f", BASELINE_NAMES[above], baselines[above]);
    if (above < NGRAM_ORDERS && below < NGRAM_ORDERS)
        why_add(paragraph, ", one of %s %.2f", BASELINE_NAMES[below], baselines[below]);
    else if (below < NGRAM_ORDERS)
        why_add(paragraph, " (a table of %s has %.2f", BASELINE_NAMES[below], baselines[below]);
    if (above < NGRAM_ORDERS || below < NGRAM_ORDERS) why_add(paragraph, ")");
}

/* Writes a paragraph in lines of 80 columns. The paragraph may contain texts from files. */
static void write_lines(char *paragraph, FILE *out) {
    text_make_plain(paragraph);
    text_write_lines(paragraph, COLUMNS, out);
}

void why_write(Why *why, FILE *out) {
    for (size_t i = 0; i < why->count; i++) {
        if (i > 0) fputc('\n', out);
        write_lines(why->sentence[i], out);
        if (i == 0 && *why->table) fprintf(out, "\n%s", why->table);
    }
}

/* Returns the sentences about a run or sweep, which are valid until the next call. */
static Why *read_why(const char *directory) {
    static Why why; /* large */
    if (sweep_is(directory)) why_sweep(sweep_view(directory), &why);
    else why_run(directory, &why);
    return &why;
}

void why_write_first(const char *directory, FILE *out) {
    Why *why = read_why(directory);
    write_lines(why->sentence[0], out);
}

static int run_why(const Command *command) {
    why_write(read_why(command->target), stdout);
    return 0;
}

const Verb why_verb = {
    .name = "why",
    .target = "DIR",
    .what = "Says in a few sentences, with the figures of a run or a sweep, what the divisor\n"
            "did there to scores, softmax, gradients and losses, and what remains open.",
    .run = run_why,
};
