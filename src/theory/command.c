/* The verb: the measured figures beside the exact ones, for a list of d_k and four divisors, as a table, as CSV and as
   a picture. */
#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/results.h"
#include "theory/claims.h"
#include "theory/picture.h"

static const char *d_k_list, *out;
static long long keys, samples, seed = 1;
static bool csv, claims, force;

static const Option OPTIONS[] = {
    {"d-k", "LIST", "sizes of q, as 16,64,256 (default 1,4,16,64,256,1024)", OPTION_TEXT, &d_k_list, 0, 0},
    {"keys", "N", "keys in a row (default 64)", OPTION_INTEGER, &keys, 1, THEORY_KEYS_MAX},
    {"samples", "N", "rows drawn for each d_k (default 4096)", OPTION_INTEGER, &samples, 2, THEORY_SAMPLES_MAX},
    {"seed", "S", "of the random numbers (default 1)", OPTION_INTEGER, &seed, 0, LLONG_MAX},
    {"csv", NULL, "print comma-separated values instead of a table", OPTION_SWITCH, &csv, 0, 0},
    {"claims", NULL, "what is commonly said about the divisor, put to the test", OPTION_SWITCH, &claims, 0, 0},
    {"out", "DIR", "write theory.csv and theory.png there (default: only print)", OPTION_DIRECTORY, &out, 0, 0},
    {"force", NULL, "with --out: replace what an earlier --out wrote", OPTION_SWITCH, &force, 0, 0},
    {0},
};

enum { LIST_MAX = 64 };
static const ScaleDivisor DIVISORS[THEORY_DIVISORS] = {
    {.mode = SCALE_NONE}, {.mode = SCALE_SQRT_DK}, {.mode = SCALE_DK}, {.mode = SCALE_2SQRT_DK}};

/* "1,4,16" into d_k (LIST_MAX) and count. */
static bool parse_list(const char *text, size_t *d_k, size_t *count, Error *err) {
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno || value < 1 || value > THEORY_DK_MAX || (*end && *end != ','))
            return error_set(
                err, STATUS_USAGE,
                "--d-k takes whole numbers from 1 to %d with commas between, as in 16,64,256, not \"%.100s\"",
                THEORY_DK_MAX, text);
        if (*count == LIST_MAX) return error_set(err, STATUS_USAGE, "--d-k takes at most %d numbers", LIST_MAX);
        d_k[(*count)++] = (size_t)value;
        if (!*end) return true;
        at = end + 1;
    }
}

/* The columns of the CSV that are figures, in their order, are those of TheoryFigures. */
static const char *const COLUMNS[] = {"score_mean",  "score_var",  "entropy",      "max_weight",
                                      "grad_q_mean", "grad_q_rms", "grad_q_median"};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };
_Static_assert(sizeof(TheoryFigures) == COLUMN_COUNT * sizeof(Estimate), "a column for each figure");

static void write_csv(const TheoryPoint *points, size_t count, FILE *file) {
    fprintf(file, "d_k,divisor,keys,samples");
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%s", COLUMNS[c]);
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%s_se", COLUMNS[c]);
    fputc('\n', file);
    for (size_t i = 0; i < count; i++) {
        const Estimate *figures = (const Estimate *)&points[i].measured;
        char divisor[32];
        scale_text(points[i].divisor, divisor, sizeof divisor);
        fprintf(file, "%zu,%s,%lld,%lld", points[i].d_k, divisor, keys, samples);
        for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%.9g", figures[c].value);
        for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(file, ",%.4g", figures[c].error);
        fputc('\n', file);
    }
}

static void print_divisor(const TheoryPoint *point) {
    char divisor[32];
    scale_text(point->divisor, divisor, sizeof divisor);
    if (point->divisor.mode == DIVISORS[0].mode) printf("d_k = %zu\n", point->d_k);
    printf("%-8s", divisor);
}

static void print_tables(const TheoryPoint *points, size_t count) {
    printf("%lld key%s, %lld samples, seed %lld. Each figure is the mean over the samples, followed\n"
           "by its standard error and, where there is one, the exact value (docs/theory.md).\n\n"
           "%-8s %-27s %-21s %s\n",
           keys, keys == 1 ? "" : "s", samples, seed, "divisor", "    variance of scores", "    entropy, nats",
           "   largest weight");
    for (const TheoryPoint *p = points; p < points + count; p++) {
        const TheoryFigures *m = &p->measured;
        print_divisor(p);
        printf(" %9.4g ±%-6.1g %9.4g", m->score_var.value, m->score_var.error, p->exact.score_var);
        printf(" %6.4f ±%-6.1g %6.4f", m->entropy.value, m->entropy.error, p->exact.entropy);
        printf(" %6.4f ±%-6.1g %6.4f\n", m->max_weight.value, m->max_weight.error, p->exact.max_weight);
    }
    printf("\nNorm of the gradient of the query, |dL/dq|\n\n%-8s %-17s %-27s %s\n", "divisor", "     mean",
           "   root mean square", "   median");
    for (const TheoryPoint *p = points; p < points + count; p++) {
        const TheoryFigures *m = &p->measured;
        print_divisor(p);
        printf(" %9.4g ±%-6.1g", m->grad_mean.value, m->grad_mean.error);
        printf(" %9.4g ±%-6.1g %9.4g", m->grad_rms.value, m->grad_rms.error, p->exact.grad_rms);
        printf(" %9.4g ±%.1g\n", m->grad_median.value, m->grad_median.error);
    }
}

static bool write_files(const char *directory, const TheoryPoint *points, size_t count, const Command *command,
                        Error *err) {
    char path[4096];
    FileWriter file;
    Json *description = run_description(command->line, command_threads(command));
    bool ok = run_description_save(description, directory, err) &&
              path_join(path, sizeof path, directory, "theory.csv", err) && file_writer_open(&file, path, err);
    js_free(description);
    if (!ok) return false;
    write_csv(points, count, file.stream);
    return file_writer_commit(&file, err) && path_join(path, sizeof path, directory, "theory.png", err) &&
           theory_picture_save(points, count / THEORY_DIVISORS, (size_t)keys, path, err);
}

static bool write_directory(const TheoryPoint *points, size_t count, const Command *command, Progress *progress,
                            Error *err) {
    ResultsDirectory directory;
    Error left;
    if (!results_make(&directory, out, true, force, err)) return false;
    bool ok = write_files(directory.path, points, count, command, err);
    if (!ok) results_withdraw(&directory, err);
    if (!results_keep(&directory, &left)) progress_message(progress, "note: %s", left.message);
    results_release(&directory);
    if (ok && !csv) printf("\npicture  %s/theory.png\nfigures  %s/theory.csv\n", out, out);
    return ok;
}

/* points (THEORY_DIVISORS) of one d_k. */
static bool measure(size_t d_k, size_t threads, TheoryPoint *points, int *signal, Error *err) {
    TheoryFigures figures[THEORY_DIVISORS];
    if (!theory_measure(d_k, (size_t)keys, (size_t)samples, (uint64_t)seed, threads, DIVISORS, THEORY_DIVISORS, figures,
                        signal, err))
        return false;
    for (size_t i = 0; i < THEORY_DIVISORS && !*signal; i++) {
        points[i] = (TheoryPoint){.d_k = d_k, .divisor = DIVISORS[i], .measured = figures[i]};
        if (!csv) points[i].exact = theory_exact(d_k, (size_t)keys, divisor_value(DIVISORS[i], d_k), threads);
    }
    return true;
}

/* After a caught signal nothing is printed or written. */
static bool run(const Command *command, int *signal, Error *err) {
    Progress progress = progress_make(stderr, command->quiet);
    const size_t threads = command_threads(command);
    static TheoryPoint points[LIST_MAX * THEORY_DIVISORS];
    size_t d_k[LIST_MAX], sizes = 0;
    if (claims) {
        if (d_k_list || keys || samples || out || force)
            return error_set(err, STATUS_USAGE,
                             "--claims takes only --seed, --csv and --threads: each claim has its sizes");
        bool ok = claims_run((uint64_t)seed, threads, csv, &progress, err);
        *signal = interrupt_signal();
        return ok;
    }
    if (!keys) keys = 64;
    if (!samples) samples = 4096;
    if (!command_check_force(force, out, err) ||
        !parse_list(d_k_list ? d_k_list : "1,4,16,64,256,1024", d_k, &sizes, err))
        return false;
    if (out && !results_check(out, true, force, err)) return false;
    if (out) interrupt_survive_closed_pipes(); /* what only prints ends with its reader */
    bool ok = true;
    for (size_t i = 0; ok && !*signal && i < sizes; i++) {
        progress_count(&progress, omp_get_wtime(), "values of d_k", i, sizes);
        ok = measure(d_k[i], threads, points + i * THEORY_DIVISORS, signal, err);
    }
    progress_clear(&progress);
    if (!ok || *signal) return ok;
    const size_t count = sizes * THEORY_DIVISORS;
    if (csv)
        write_csv(points, count, stdout);
    else
        print_tables(points, count);
    return !out || write_directory(points, count, command, &progress, err);
}

const Verb theory_verb = {
    .name = "theory",
    .what = "Draws queries and keys at random and measures what four divisors of their scores\n"
            "do to a row of attention and to its gradient: no model, no training.",
    .options = OPTIONS,
    .run = run,
};
