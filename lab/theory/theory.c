/* The verb theory prints the measured figures beside the exact ones, for a list of d_k, four divisors and other ways to
   score, as a table or as CSV. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/results.h"
#include "base/text.h"
#include "lab/lab.h"
#include "lab/theory/theory.h"
#include "show/progress.h"

static const char *d_k_list = "1,4,16,64,256,1024", *out;
static long long keys = 64, samples = 4096, seed = 1;
static bool all, csv, claims, force;

static const Option OPTIONS[] = {
    {"d-k", "LIST", "values of d_k, as 16,64,256 (default 1,4,16,64,256,1024)", OPTION_TEXT, &d_k_list, 0, 0},
    {"keys", "N", "keys in a row (default 64)", OPTION_INTEGER, &keys, 1, THEORY_KEYS_MAX},
    {"samples", "N", "rows drawn for each d_k (default 4096)", OPTION_INTEGER, &samples, 2, THEORY_SAMPLES_MAX},
    {"seed", "S", "seed of the random numbers (default 1)", OPTION_INTEGER, &seed, 0, LLONG_MAX},
    {"all", NULL, "print every figure, its error and exact value, and all scores", OPTION_SWITCH, &all, 0, 0},
    {"csv", NULL, "print comma-separated values instead of a table", OPTION_SWITCH, &csv, 0, 0},
    {"claims", NULL, "say where common statements are tested", OPTION_SWITCH, &claims, 0, 0},
    {"out", "DIR", "write theory.csv, report.html (default: only print)", OPTION_DIRECTORY, &out, 0, 0},
    {"force", NULL, "with --out: move what is there to DIR.old first", OPTION_SWITCH, &force, 0, 0},
    {0},
};

/* The scorings of each d_k: four divisors of the dot product, then the other ways to score. */
enum { LIST_MAX = 64, THEORY_DIVISORS = 4, THEORY_SCORINGS = THEORY_DIVISORS + THEORY_SCORE_COUNT - 1 };
typedef struct {
    size_t d_k;
    TheoryScoring scoring;
    TheoryFigures measured;
    TheoryExact exact;
} TheoryPoint;

/* `measure` sets the divisor of the cosine, 1 / sqrt(d_k). */
static const TheoryScoring SCORINGS[THEORY_SCORINGS] = {
    {.divisor.mode = SCALE_NONE},
    {.divisor.mode = SCALE_SQRT_DK},
    {.divisor.mode = SCALE_DK},
    {.divisor.mode = SCALE_2SQRT_DK},
    {.divisor.mode = SCALE_NONE, .score = THEORY_ADDITIVE},
    {.divisor.mode = SCALE_NUMBER, .score = THEORY_COSINE},
    {.divisor.mode = SCALE_SQRT_DK, .score = THEORY_SINK},
    {.divisor.mode = SCALE_NONE, .score = THEORY_SOFTCAP},
};

/* Reads the numbers of a list into d_k (LIST_MAX). Returns their count. */
static size_t parse_list(const char *text, size_t *d_k) {
    size_t count = 0;
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno || value < 1 || value > THEORY_DK_MAX || (*end && *end != ','))
            usage_error("--d-k takes whole numbers from 1 to %d with commas between, as in 16,64,256, not \"%.100s\"",
                        THEORY_DK_MAX, text);
        if (count == LIST_MAX) usage_error("--d-k takes at most %d numbers", LIST_MAX);
        d_k[count++] = (size_t)value;
        if (!*end) return count;
        at = end + 1;
    }
}

/* The columns of the CSV, in the order of TheoryFigures. */
static const char *const COLUMNS[] = {"score_mean",  "score_var",  "entropy",      "max_weight",
                                      "grad_q_mean", "grad_q_rms", "grad_q_median"};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };
_Static_assert(sizeof(TheoryFigures) == COLUMN_COUNT * sizeof(Estimate), "a column for each figure");

static void write_csv(const TheoryPoint *points, size_t count, FILE *file) {
    fprintf(file, "d_k,divisor,keys,samples");
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%s", COLUMNS[c]);
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%s_se", COLUMNS[c]);
    fprintf(file, ",score\n");
    for (size_t i = 0; i < count; i++) {
        const Estimate *figures = (const Estimate *)&points[i].measured;
        char divisor[32];
        scale_text(points[i].scoring.divisor, divisor, sizeof divisor);
        fprintf(file, "%zu,%s,%lld,%lld", points[i].d_k, divisor, keys, samples);
        for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%.9g", figures[c].value);
        for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%.4g", figures[c].error);
        fprintf(file, ",%s\n", THEORY_SCORES[points[i].scoring.score]);
    }
}

/* Prints the divisor of a dot product, or the name of another way to score. */
static void print_scoring(const TheoryPoint *points, size_t i) {
    const TheoryScoring scoring = points[i].scoring;
    char divisor[32];
    scale_text(scoring.divisor, divisor, sizeof divisor);
    if (i % THEORY_SCORINGS == 0) printf("d_k = %zu\n", points[i].d_k);
    printf("%-8s", scoring.score == THEORY_DOT ? divisor : THEORY_SCORES[scoring.score]);
}

/* Prints a number with four decimals if `fixed`, else with four digits. */
static void print_number(double number, int width, bool fixed) {
    char text[32];
    text_digits(number, 4, text, sizeof text);
    if (fixed) snprintf(text, sizeof text, "%.4f", number);
    printf(" %*s", width, text);
}

/* Prints a figure, its error and the exact value, or blanks if it is NAN. The last figure ends the line without blanks.
 */
static void print_figure(Estimate e, int width, bool fixed, double exact, bool last) {
    print_number(e.value, width, fixed);
    printf(isnan(exact) && last ? " ±%.1g" : " ±%-6.1g", e.error);
    if (!isnan(exact)) print_number(exact, width, fixed);
    else if (!last) printf(" %*s", width, "");
}

static void print_tables(const TheoryPoint *points, size_t count) {
    printf("%lld key%s, %lld samples, seed %lld. Each figure is the mean over the samples,\n"
           "followed by its standard error and, where there is one, the exact value.\n"
           "The rows %s to %s are other ways to score (lab/docs/theory.md).\n\n"
           "%-8s %-27s %-21s %s\n",
           keys, keys == 1 ? "" : "s", samples, seed, THEORY_SCORES[THEORY_ADDITIVE],
           THEORY_SCORES[THEORY_SCORE_COUNT - 1], "divisor", "    variance of scores", "    entropy, nats",
           "   largest weight");
    for (size_t i = 0; i < count; i++) {
        const TheoryFigures *m = &points[i].measured;
        const TheoryExact *exact = &points[i].exact;
        print_scoring(points, i);
        print_figure(m->score_var, 9, false, exact->score_var, false);
        print_figure(m->entropy, 6, true, exact->entropy, false);
        print_figure(m->max_weight, 6, true, exact->max_weight, true);
        putchar('\n');
    }
    printf("\nNorm of the gradient of the query, |dL/dq|\n\n%-8s %-17s %-27s %s\n", "divisor", "     mean",
           "   root mean square", "   median");
    for (size_t i = 0; i < count; i++) {
        const TheoryFigures *m = &points[i].measured;
        print_scoring(points, i);
        print_number(m->grad_mean.value, 9, false);
        printf(" ±%-6.1g", m->grad_mean.error);
        print_figure(m->grad_rms, 9, false, points[i].exact.grad_rms, false);
        print_number(m->grad_median.value, 9, false);
        printf(" ±%.1g\n", m->grad_median.error);
    }
}

/* Prints the four divisors alone, with the measured figures that a first look needs. */
static void print_short_table(const TheoryPoint *points, size_t count) {
    printf("%lld key%s, %lld samples, seed %lld. --all adds errors, exact values and other scores.\n\n"
           "              variance      entropy    largest       median norm of\n"
           "divisor      of scores      in nats     weight    query's gradient\n",
           keys, keys == 1 ? "" : "s", samples, seed);
    for (size_t i = 0; i < count; i++) {
        const TheoryFigures *m = &points[i].measured;
        if (i % THEORY_SCORINGS >= THEORY_DIVISORS) continue;
        print_scoring(points, i);
        print_number(m->score_var.value, 13, false);
        print_number(m->entropy.value, 12, true);
        print_number(m->max_weight.value, 10, true);
        print_number(m->grad_median.value, 19, false);
        putchar('\n');
    }
}

/* Prints what the tables show at the largest d_k: without a divisor, with sqrt_dk and with dk. */
static void print_findings(const TheoryPoint *points, size_t count) {
    const TheoryPoint *p = points;
    for (size_t i = 0; i < count; i += THEORY_SCORINGS)
        if (points[i].d_k > p->d_k) p = points + i;
    printf("\nAt d_k %zu, undivided scores have variance %.4g, those divided by sqrt_dk\n%.3g and those divided by dk "
           "%.3g.\n",
           p->d_k, p[0].measured.score_var.value, p[1].measured.score_var.value, p[2].measured.score_var.value);
    printf("Of %lld weights in a row the largest is on average %.3g, %.3g and %.3g\nin this order; equal weights would "
           "be %.3g.\n",
           keys, p[0].measured.max_weight.value, p[1].measured.max_weight.value, p[2].measured.max_weight.value,
           1 / (double)keys);
    printf("The norm of a query's gradient has the median %.3g, %.3g and %.3g.\n", p[0].measured.grad_median.value,
           p[1].measured.grad_median.value, p[2].measured.grad_median.value);
}

/* Writes theory.csv, run.json and the page into a new directory. */
static void write_directory(const TheoryPoint *p, size_t n, const Command *command, Progress *progress) {
    ResultsDirectory *results = results_make(out, NULL, force);
    FileWriter *file = file_writer_open(results->directory, "theory.csv");
    write_csv(p, n, file->stream);
    file_writer_commit(file);
    Json *description = run_description(command->line, command_threads(command));
    js_set(description, "seed", js_integer(seed));
    results_begin(results, description);
    if (*results->old) progress_message(progress, "note: what stood in %s is now in %s", results->path, results->old);
    report_write(results->directory);
    if (csv) return;
    putchar('\n');
    print_plain(stdout, "page to look at  %s/report.html", out);
    print_plain(stdout, "figures          %s/theory.csv", out);
}

/* Measures size number `size` of `sizes`: points (THEORY_SCORINGS), of which the short table needs the divisors alone.
 */
static void measure(size_t d_k, size_t threads, TheoryPoint *points, Progress *progress, size_t size, size_t sizes) {
    const size_t count = all || csv || out ? THEORY_SCORINGS : THEORY_DIVISORS;
    TheoryFigures figures[THEORY_SCORINGS];
    TheoryScoring scorings[THEORY_SCORINGS];
    for (size_t i = 0; i < THEORY_SCORINGS; i++) {
        scorings[i] = SCORINGS[i];
        if (scorings[i].score == THEORY_COSINE) scorings[i].divisor.number = 1 / sqrt((double)d_k);
    }
    theory_measure(d_k, (size_t)keys, (size_t)samples, (uint64_t)seed, threads, scorings, count, figures);
    for (size_t i = 0; i < count && !interrupt_signal(); i++) {
        points[i] = (TheoryPoint){.d_k = d_k, .scoring = scorings[i], .measured = figures[i]};
        progress_count(progress, omp_get_wtime(), "rows", size * THEORY_SCORINGS + i, sizes * THEORY_SCORINGS);
        if (all && !csv) points[i].exact = theory_exact_scoring(d_k, (size_t)keys, scorings[i], threads);
    }
}

/* Measures, prints and writes. After a caught signal it prints and writes nothing. */
static int run(const Command *command) {
    if (claims) {
        puts("lab/docs/claims.md has common statements about the divisor; python3 lab/docs/claims.py tests them.");
        return 0;
    }
    Progress *progress = progress_make(stderr, command->quiet);
    const size_t threads = command_threads(command);
    static TheoryPoint points[LIST_MAX * THEORY_SCORINGS];
    size_t d_k[LIST_MAX];
    command_check_force(force, out);
    results_check(out, force);
    const size_t sizes = parse_list(d_k_list, d_k);
    if (out) interrupt_survive_closed_pipes(); /* without --out there is nothing to save */
    for (size_t i = 0; i < sizes && !interrupt_signal(); i++) {
        progress_count(progress, omp_get_wtime(), "rows", i * THEORY_SCORINGS, sizes * THEORY_SCORINGS);
        measure(d_k[i], threads, points + i * THEORY_SCORINGS, progress, i, sizes);
    }
    progress_clear(progress);
    if (interrupt_signal()) return interrupt_signal();
    const size_t count = sizes * THEORY_SCORINGS;
    if (csv) write_csv(points, count, stdout);
    else {
        if (all) print_tables(points, count);
        else print_short_table(points, count);
        print_findings(points, count);
    }
    if (out) write_directory(points, count, command, progress);
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
