/* The verb theory prints the figures of random queries and keys, for a list of d_k, four divisors and other ways to
   score, as a table or as CSV. */
#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/text.h"
#include "lab/lab.h"
#include "lab/theory/theory.h"
#include "show/progress.h"

static const char *d_k_list = "1,4,16,64,256,1024";
static long long keys = 64, samples = 4096, seed = 1;
static bool all, csv;

static const Option OPTIONS[] = {
    {"d-k", "LIST", "values of d_k, as 16,64,256 (default 1,4,16,64,256,1024)", OPTION_TEXT, &d_k_list, 0, 0},
    {"keys", "N", "keys in a row (default 64)", OPTION_INTEGER, &keys, 1, THEORY_KEYS_MAX},
    {"samples", "N", "rows drawn for each d_k (default 4096)", OPTION_INTEGER, &samples, 2, THEORY_SAMPLES_MAX},
    {"seed", "S", "seed of the random numbers (default 1)", OPTION_INTEGER, &seed, 0, LLONG_MAX},
    {"all", NULL, "add standard errors and other ways to score", OPTION_SWITCH, &all, 0, 0},
    {"csv", NULL, "print every figure as comma-separated values", OPTION_SWITCH, &csv, 0, 0},
    {0},
};

/* A d_k of the list, and its figures. */
enum { LIST_MAX = 64 };
typedef struct {
    size_t d_k;
    TheoryScoring scorings[THEORY_SCORINGS];
    TheoryFigures figures[THEORY_SCORINGS];
} Size;

/* Reads the d_k of a list into sizes (LIST_MAX). Returns their count. */
static size_t parse_list(const char *text, Size *sizes) {
    size_t count = 0;
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno || value < 1 || value > THEORY_DK_MAX || (*end && *end != ','))
            usage_error("--d-k takes whole numbers from 1 to %d with commas between, as in 16,64,256, not \"%.100s\"",
                        THEORY_DK_MAX, text);
        if (count == LIST_MAX) usage_error("--d-k takes at most %d numbers", LIST_MAX);
        sizes[count++].d_k = (size_t)value;
        if (!*end) return count;
        at = end + 1;
    }
}

enum { FIGURE_COUNT = sizeof(TheoryFigures) / sizeof(Estimate) };
static void print_csv(const Size *sizes, size_t count) {
    printf("d_k,divisor,keys,samples,score_mean,score_var,entropy,max_weight,grad_q_mean,grad_q_rms,grad_q_median,"
           "score_mean_se,score_var_se,entropy_se,max_weight_se,grad_q_mean_se,grad_q_rms_se,grad_q_median_se,score\n");
    for (size_t i = 0; i < count * THEORY_SCORINGS; i++) {
        const Size *size = &sizes[i / THEORY_SCORINGS];
        const TheoryScoring *scoring = &size->scorings[i % THEORY_SCORINGS];
        const Estimate *figures = (const Estimate *)&size->figures[i % THEORY_SCORINGS];
        char divisor[32];
        scale_text(scoring->divisor, divisor, sizeof divisor);
        printf("%zu,%s,%lld,%lld", size->d_k, divisor, keys, samples);
        for (size_t f = 0; f < FIGURE_COUNT; f++) printf(",%.9g", figures[f].value);
        for (size_t f = 0; f < FIGURE_COUNT; f++) printf(",%.4g", figures[f].error);
        printf(",%s\n", scoring->name);
    }
}

/* Prints a figure with four digits, or with four decimals if `fixed`. With --all its error follows. */
static void print_figure(Estimate e, int width, bool fixed) {
    char text[32];
    text_digits(e.value, 4, text, sizeof text);
    if (fixed) snprintf(text, sizeof text, "%.4f", e.value);
    if (all) printf(" %9s ±%-6.1g", text, e.error);
    else printf(" %*s", width, text);
}

static void print_table(const Size *sizes, size_t count) {
    printf("%lld key%s, %lld samples, seed %lld. ", keys, keys == 1 ? "" : "s", samples, seed);
    puts(all ? "Behind ± is the standard error of a figure.\n\n"
               "                 variance           entropy           largest    median norm of\n"
               "divisor         of scores           in nats            weight  query's gradient"
             : "--all adds errors and other scores.\n\n"
               "              variance      entropy    largest       median norm of\n"
               "divisor      of scores      in nats     weight    query's gradient");
    for (const Size *size = sizes; size < sizes + count; size++) {
        printf("d_k = %zu\n", size->d_k);
        for (size_t i = 0; i < (all ? THEORY_SCORINGS : THEORY_DIVISORS); i++) {
            char divisor[32];
            scale_text(size->scorings[i].divisor, divisor, sizeof divisor);
            printf("%-8s", i < THEORY_DIVISORS ? divisor : size->scorings[i].name);
            print_figure(size->figures[i].score_var, 13, false);
            print_figure(size->figures[i].entropy, 12, true);
            print_figure(size->figures[i].max_weight, 10, true);
            print_figure(size->figures[i].grad_median, 19, false);
            putchar('\n');
        }
    }
}

/* Measures and prints. After a caught signal it prints nothing. */
static int run(const Command *command) {
    static Size sizes[LIST_MAX];
    const size_t count = parse_list(d_k_list, sizes);
    Progress *progress = progress_make(stderr, command->quiet);
    for (size_t i = 0; i < count && !interrupt_signal(); i++) {
        char line[64];
        snprintf(line, sizeof line, "%zu/%zu sizes", i, count);
        if (progress_is_due(progress, omp_get_wtime())) progress_line(progress, line);
        theory_scorings(sizes[i].d_k, sizes[i].scorings);
        theory_measure(sizes[i].d_k, (size_t)keys, (size_t)samples, (uint64_t)seed, command_threads(command),
                       sizes[i].scorings, all || csv ? THEORY_SCORINGS : THEORY_DIVISORS, sizes[i].figures);
    }
    progress_clear(progress);
    if (interrupt_signal()) return interrupt_signal();
    if (csv) print_csv(sizes, count);
    else print_table(sizes, count);
    return 0;
}

const Verb theory_verb = {
    .name = "theory",
    .what = "Draws queries and keys at random and measures what four divisors of their\n"
            "scores, and four other ways to score, do to a row of attention and to its\n"
            "gradient: no model, no training.",
    .options = OPTIONS,
    .run = run,
};
