#include "theory/report.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/results.h"
#include "theory/exact.h"
#include "theory/picture.h"

static const ScaleDivisor DIVISORS[THEORY_DIVISORS] = {
    {.mode = SCALE_NONE}, {.mode = SCALE_SQRT_DK}, {.mode = SCALE_DK}, {.mode = SCALE_2SQRT_DK}};

TheoryOptions theory_options(size_t threads) {
    return (TheoryOptions){
        .d_k = {1, 4, 16, 64, 256, 1024}, .count = 6, .keys = 64, .samples = 4096, .threads = threads, .seed = 1};
}

bool theory_parse_list(const char *text, TheoryOptions *options, Error *err) {
    const char *at = text;
    options->count = 0;
    for (;;) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno || value < 1 || value > THEORY_DK_MAX || (*end && *end != ','))
            return error_set(
                err, STATUS_USAGE,
                "--d-k takes whole numbers from 1 to %d with commas between, as in 16,64,256, not \"%.100s\"",
                THEORY_DK_MAX, text);
        if (options->count == THEORY_LIST_MAX)
            return error_set(err, STATUS_USAGE, "--d-k takes at most %d numbers", THEORY_LIST_MAX);
        options->d_k[options->count++] = (size_t)value;
        if (!*end) return true;
        at = end + 1;
    }
}

/* The columns of the CSV that are figures, in their order. */
static const struct {
    const char *name;
    size_t offset; /* of the Estimate */
} COLUMNS[] = {
    {"score_mean", offsetof(TheoryFigures, score_mean)},     {"score_var", offsetof(TheoryFigures, score_var)},
    {"entropy", offsetof(TheoryFigures, entropy)},           {"max_weight", offsetof(TheoryFigures, max_weight)},
    {"grad_q_mean", offsetof(TheoryFigures, grad_mean)},     {"grad_q_rms", offsetof(TheoryFigures, grad_rms)},
    {"grad_q_median", offsetof(TheoryFigures, grad_median)},
};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

static Estimate column_of(const TheoryPoint *point, size_t column) {
    return *(const Estimate *)(const void *)((const char *)&point->measured + COLUMNS[column].offset);
}

static void write_csv(const TheoryPoint *points, size_t count, const TheoryOptions *o, FILE *csv) {
    fprintf(csv, "d_k,divisor,keys,samples");
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(csv, ",%s", COLUMNS[c].name);
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(csv, ",%s_se", COLUMNS[c].name);
    fputc('\n', csv);
    for (size_t i = 0; i < count; i++) {
        char divisor[32];
        scale_text(points[i].divisor, divisor, sizeof divisor);
        fprintf(csv, "%zu,%s,%zu,%zu", points[i].d_k, divisor, o->keys, o->samples);
        for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(csv, ",%.9g", column_of(&points[i], c).value);
        for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(csv, ",%.4g", column_of(&points[i], c).error);
        fputc('\n', csv);
    }
}

/* "±0.013" in at most six columns. */
static const char *error_text(double error, char out[16]) {
    if (error != 0 && (error < .00095 || error >= 9999.5))
        snprintf(out, 16, "±%.0e", error);
    else
        snprintf(out, 16, "±%.*f", error < .0995 ? 3 : error < .995 ? 2 : error < 9.95 ? 1 : 0, error);
    return out;
}

/* printf counts bytes, and ± has two. */
static void print_measured(FILE *out, int width, int decimals, Estimate e) {
    char error[16];
    if (decimals)
        fprintf(out, " %*.*f %-7s", width, decimals, e.value, error_text(e.error, error));
    else
        fprintf(out, " %*.4g %-7s", width, e.value, error_text(e.error, error));
}

static void print_divisor(FILE *out, const TheoryPoint *point, bool first) {
    char divisor[32];
    scale_text(point->divisor, divisor, sizeof divisor);
    if (first) fprintf(out, "d_k = %zu\n", point->d_k);
    fprintf(out, "%-8s", divisor);
}

static void print_tables(const TheoryPoint *points, size_t count, const TheoryOptions *o, FILE *out) {
    fprintf(out,
            "%zu key%s, %zu samples, seed %llu. Of each figure: the mean over the samples, its\n"
            "standard error, and, where there is one, the exact value (docs/theory.md).\n\n"
            "%-8s %-26s %-22s %s\n",
            o->keys, o->keys == 1 ? "" : "s", o->samples, (unsigned long long)o->seed, "divisor",
            "    variance of scores", "     entropy, nats", "   largest weight");
    for (size_t i = 0; i < count; i++) {
        const TheoryFigures *m = &points[i].measured;
        const TheoryExact *e = &points[i].exact;
        print_divisor(out, &points[i], i % THEORY_DIVISORS == 0);
        print_measured(out, 9, 0, m->score_var);
        fprintf(out, " %9.4g", e->score_var);
        print_measured(out, 7, 4, m->entropy);
        fprintf(out, " %7.4f", e->entropy);
        print_measured(out, 6, 4, m->max_weight);
        fprintf(out, " %6.4f\n", e->max_weight);
    }
    fprintf(out, "\nLength of the gradient of the query, |dL/dq|\n\n%-8s %-17s %-26s %s\n", "divisor", "     mean",
            "   root mean square", "     median");
    for (size_t i = 0; i < count; i++) {
        const TheoryFigures *m = &points[i].measured;
        print_divisor(out, &points[i], i % THEORY_DIVISORS == 0);
        print_measured(out, 9, 0, m->grad_mean);
        print_measured(out, 9, 0, m->grad_rms);
        fprintf(out, " %9.4g", points[i].exact.grad_rms);
        print_measured(out, 9, 0, m->grad_median);
        fputc('\n', out);
    }
}

/* How far measured and exact are apart, in standard errors; the largest over all figures that have both. */
static void print_agreement(const TheoryPoint *points, size_t count, FILE *out) {
    const TheoryPoint *worst = NULL;
    const char *name = "";
    char divisor[32];
    double largest = -1;
    size_t compared = 0;
    for (size_t i = 0; i < count; i++) {
        const TheoryExact *e = &points[i].exact;
        const double exact[COLUMN_COUNT] = {0, e->score_var, e->entropy, e->max_weight, NAN, e->grad_rms, NAN};
        for (size_t c = 0; c < COLUMN_COUNT; c++) {
            Estimate measured = column_of(&points[i], c);
            double z = fabs(measured.value - exact[c]) / measured.error;
            if (!isfinite(z)) continue; /* no exact value, or no spread: one key */
            compared++;
            if (z <= largest) continue;
            largest = z;
            worst = &points[i];
            name = COLUMNS[c].name;
        }
    }
    if (!worst) return;
    scale_text(worst->divisor, divisor, sizeof divisor);
    fprintf(out,
            "\nOf %zu figures with an exact value the one farthest off (%s, d_k %zu,\n"
            "divisor %s) is %.1f standard errors away.\n",
            compared, name, worst->d_k, divisor, largest);
}

static bool write_files(const char *directory, const TheoryPoint *points, size_t count, const TheoryOptions *o,
                        Error *err) {
    char path[4096];
    FileWriter csv;
    Json *description = run_description(o->command_line, o->threads);
    bool ok = run_description_save(description, directory, err) &&
              path_join(path, sizeof path, directory, "theory.csv", err) && file_writer_open(&csv, path, err);
    js_free(description);
    if (!ok) return false;
    write_csv(points, count, o, csv.stream);
    return file_writer_commit(&csv, err) && path_join(path, sizeof path, directory, "theory.png", err) &&
           theory_picture_save(points, o->count, o->keys, path, err);
}

static bool write_directory(const TheoryPoint *points, size_t count, const TheoryOptions *o, Progress *progress,
                            Error *err) {
    ResultsDirectory directory;
    Error left;
    if (!results_make(&directory, o->directory, true, o->force, err)) return false;
    bool ok = write_files(directory.path, points, count, o, err);
    if (!ok) results_withdraw(&directory, err);
    if (!results_keep(&directory, &left)) progress_message(progress, "note: %s", left.message);
    results_release(&directory);
    return ok;
}

static bool measure_all(const TheoryOptions *o, TheoryPoint *points, bool with_exact, Progress *progress, int *signal,
                        Error *err) {
    for (size_t i = 0; i < o->count; i++) {
        TheoryFigures figures[THEORY_DIVISORS];
        progress_count(progress, omp_get_wtime(), "values of d_k", i, o->count);
        if (!theory_measure(o->d_k[i], o->keys, o->samples, o->seed, o->threads, DIVISORS, THEORY_DIVISORS, figures,
                            signal, err))
            return false;
        if (*signal) return true;
        for (size_t j = 0; j < THEORY_DIVISORS; j++) {
            TheoryPoint *p = &points[i * THEORY_DIVISORS + j];
            *p = (TheoryPoint){.d_k = o->d_k[i], .divisor = DIVISORS[j], .measured = figures[j]};
            if (with_exact) p->exact = theory_exact(p->d_k, o->keys, divisor_value(p->divisor, p->d_k), o->threads);
        }
    }
    return true;
}

bool theory_run(const TheoryOptions *options, Progress *progress, FILE *out, int *signal, Error *err) {
    size_t count = options->count * THEORY_DIVISORS;
    *signal = 0;
    if (options->directory && !results_check(options->directory, true, options->force, err)) return false;
    TheoryPoint *points = calloc(count, sizeof *points);
    if (!points) return error_set(err, STATUS_FAILED, "no memory for %zu rows", count);
    bool ok = measure_all(options, points, !options->csv, progress, signal, err);
    progress_clear(progress);
    if (ok && !*signal && options->csv) write_csv(points, count, options, out);
    if (ok && !*signal && !options->csv) {
        print_tables(points, count, options, out);
        print_agreement(points, count, out);
    }
    if (ok && !*signal && options->directory) {
        ok = write_directory(points, count, options, progress, err);
        if (ok && !options->csv)
            fprintf(out, "\nlook at\n  %s/theory.png\n  %s/theory.csv\n", options->directory, options->directory);
    }
    free(points);
    return ok;
}
